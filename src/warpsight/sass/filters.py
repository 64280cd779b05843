"""Conditions on records: `warp=3`, `cta=[0,0,0]`, `pc>=0x40`, `sass~LDG|STG`, `warp=0..7`, `type=reg_trace or warp=1`.

Equality is CUTracer's: an integer literal (with 0x, 0o or 0b) equals a value that is that number or that very text, a list
literal a list, anything else a text. The other operators are ours: `!=`, `<`, `<=`, `>`, `>=` (numbers; hexadecimal texts
count as numbers), `~` and `!~` (regular expression found in the text), `=a..b` (numbers from a to b), `=a|b` (one of
these). Conditions joined by `;` must all hold; alternatives of several fields are joined by ` or `. A record without the
field fulfils no condition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.errors import UsageError

_CONDITION = re.compile(r"^\s*([A-Za-z_][\w.]*)\s*(!=|<=|>=|!~|=|<|>|~)\s*(.*?)\s*$", re.DOTALL)
_RANGE = re.compile(r"^(\S+?)\.\.(\S+)$")
#: A semicolon ends a condition when another follows; instructions end with one too.
_AND = re.compile(r";(?=\s*(?:[A-Za-z_][\w.]*\s*(?:[!<>]?=|!?~|<|>)))")
_OR = re.compile(r"\s+or\s+", re.IGNORECASE)
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True)
class Condition:
    """One comparison of a field."""

    field: str
    operator: str
    text: str

    def mask(self, values: pa.Array) -> pa.Array:
        """Which values fulfil it; nulls never do."""
        if pa.types.is_string(values.type):
            values = values.dictionary_encode()  # each distinct text is tested once
        if pa.types.is_dictionary(values.type):
            return pc.fill_null(_test(self, values.dictionary).take(values.indices), False)
        return pc.fill_null(_test(self, values), False)


@dataclass(frozen=True)
class Filter:
    """All of several groups, any condition of each."""

    groups: tuple[tuple[Condition, ...], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it needs, each once."""
        return tuple(dict.fromkeys(c.field for group in self.groups for c in group))

    def mask(self, table: pa.Table) -> pa.Array:
        """Which rows fulfil it."""
        kept = pa.array(np.ones(len(table), bool))
        for group in self.groups:
            any_of = pa.array(np.zeros(len(table), bool))
            for condition in group:
                any_of = pc.or_(any_of, condition.mask(_one(table[condition.field])))
            kept = pc.and_(kept, any_of)
        return kept


def parse(expressions: Iterable[str]) -> Filter:
    """The filter of several expressions, all of which must hold.

    Raises:
        UsageError: for what is no condition.
    """
    parts = [part for expression in expressions for part in _AND.split(expression) if part.strip()]
    return Filter(tuple(tuple(_condition(piece) for piece in _OR.split(part)) for part in parts))


def _condition(text: str) -> Condition:
    found = _CONDITION.match(text)
    if found is None:
        raise UsageError(
            f"{text.strip()!r} is no condition; expected FIELD=VALUE, or !=, <, <=, >, >=, ~, !~"
        )
    name, operator, value = found.groups()
    if value.endswith(";") and number(value[:-1]) is not None:
        value = value[:-1].rstrip()
    if operator in _ORDER and number(value) is None:
        raise UsageError(f"{text.strip()!r}: {operator} compares numbers, {value!r} is none")
    if operator in ("~", "!~"):
        try:
            re.compile(value)
        except re.error as error:
            raise UsageError(f"{value!r} is no regular expression: {error}") from None
    return Condition(name, operator, value)


def number(text: Any) -> int | None:
    """An integer literal with its base prefix; None for anything else."""
    try:
        return int(str(text), 0)
    except ValueError:
        return None


def _test(condition: Condition, values: pa.Array) -> pa.Array:
    operator, text = condition.operator, condition.text
    if operator in ("~", "!~"):
        found = pc.match_substring_regex(_texts(values), text)
        return found if operator == "~" else pc.invert(found)
    if operator in _ORDER:
        return _ORDER[operator](_numbers(values), pa.scalar(number(text), pa.int64()))
    equal = pc.if_else(pc.is_valid(values), pa.scalar(False), pa.scalar(None, pa.bool_()))
    for alternative in text.split("|"):
        equal = pc.or_(equal, _is(values, alternative))
    return equal if operator == "=" else pc.invert(equal)


def _is(values: pa.Array, text: str) -> pa.Array:
    """Values that are one alternative: a range of numbers, or a literal."""
    limits = _RANGE.match(text)
    if limits and number(limits[1]) is not None and number(limits[2]) is not None:
        numbers = _numbers(values)
        return pc.and_(
            pc.greater_equal(numbers, pa.scalar(number(limits[1]), pa.int64())),
            pc.less_equal(numbers, pa.scalar(number(limits[2]), pa.int64())),
        )
    return _equal(values, text)


def _equal(values: pa.Array, text: str) -> pa.Array:
    kind = values.type
    if pa.types.is_list(kind):
        try:
            wanted = json.loads(text)
        except json.JSONDecodeError:
            return _all(values, False)
        return _equal_list(values, wanted) if isinstance(wanted, list) else _all(values, False)
    if pa.types.is_boolean(kind):
        return (
            pc.equal(values, text.lower() == "true")
            if text.lower() in ("true", "false")
            else _all(values, False)
        )
    if pa.types.is_integer(kind):
        wanted_number = number(text)
        if wanted_number is None or not _fits(wanted_number, kind):
            return _all(values, False)
        return pc.equal(values, pa.scalar(wanted_number, kind))
    return pc.equal(_texts(values), text)


def _equal_list(values: pa.Array, wanted: list[Any]) -> pa.Array:
    """Lists that equal one: same length, same elements, compared element by element over all rows."""
    same = pc.equal(pc.list_value_length(values), len(wanted))
    for place, element in enumerate(wanted):
        long = pc.greater(pc.list_value_length(values), place)
        if not isinstance(element, int) or isinstance(element, bool):
            return _all(values, False)
        at = pc.list_element(pc.if_else(long, values, pa.scalar([0] * (place + 1), values.type)), place)
        same = pc.and_(same, pc.and_(long, pc.equal(at, element)))
    return same


def _fits(value: int, kind: pa.DataType) -> bool:
    lowest, highest = (0, 2**64 - 1) if kind == pa.uint64() else (-(2**63), 2**63 - 1)
    return lowest <= value <= highest


def _all(values: pa.Array, value: bool) -> pa.Array:
    """One answer for every value that is there."""
    return pc.if_else(pc.is_valid(values), pa.scalar(value), pa.scalar(None, pa.bool_()))


def _texts(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_nested(values.type):
        return pa.array([None if v is None else json.dumps(v) for v in values.to_pylist()], pa.string())
    return values.cast(pa.string())


def _numbers(values: pa.Array) -> pa.Array:
    """Numbers as they are; texts that are integer literals as their value, others as null."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return values
    coded = _texts(values).dictionary_encode()
    meanings = pa.array([number(text) for text in coded.dictionary.to_pylist()], pa.int64())
    return meanings.take(coded.indices)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
