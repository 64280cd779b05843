"""Which rows match conditions: each distinct string is tested once, numbers as columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.errors import UsageError
from warpsight.sass.records.filters import Condition, Filter, limits, number

_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def rows(conditions: Filter, table: pa.Table) -> pa.Array:
    """Which rows of a table match a filter."""
    kept = pa.array(np.ones(len(table), bool))
    for group in conditions.groups:
        any_of = pa.array(np.zeros(len(table), bool))
        for condition in group:
            any_of = pc.or_(any_of, values(condition, table[condition.field].combine_chunks()))
        kept = pc.and_(kept, any_of)
    return kept


def values(condition: Condition, column: pa.Array) -> pa.Array:
    """Which values meet a condition; nulls never do."""
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()  # each distinct string is tested once
    if pa.types.is_dictionary(column.type):
        return pc.fill_null(_test(condition, column.dictionary).take(column.indices), False)
    return pc.fill_null(_test(condition, column), False)


def _test(condition: Condition, values: pa.Array) -> pa.Array:
    operator, text = condition.operator, condition.text
    if operator in ("~", "!~"):
        try:
            found = pc.match_substring_regex(_texts(values), text)
        except pa.ArrowInvalid as error:
            raise UsageError(f"the condition {condition} cannot be tested: {error}") from None
        return found if operator == "~" else pc.invert(found)
    if operator in _ORDER:
        return _ordered(values, operator, text)
    equal = _all(values, False)
    for alternative in text.split("|"):
        equal = pc.or_(equal, _is(values, alternative))
    return equal if operator == "=" else pc.invert(equal)


def _ordered(values: pa.Array, operator: str, text: str) -> pa.Array:
    """Compare values with a number, which may be out of range for every column."""
    found, wanted = numbers(values), number(text)
    assert wanted is not None
    if not _fits(wanted, pa.int64()):
        return _all(found, (wanted > 0) == (operator in ("<", "<=")))
    return _ORDER[operator](found, pa.scalar(wanted, pa.int64()))


def _is(values: pa.Array, text: str) -> pa.Array:
    """Values that match one alternative: a range of numbers, or a literal."""
    between = limits(text)
    if between is None:
        return _equal(values, text)
    low, high = (
        _ordered(values, operator, str(end)) for operator, end in zip((">=", "<="), between, strict=True)
    )
    inside = pc.fill_null(pc.and_(low, high), False)  # a value that is not a number is in no range
    return pc.if_else(pc.is_valid(values), inside, pa.scalar(None, pa.bool_()))


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
    """Lists equal to a given one: same length and elements, compared element by element over all rows."""
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
    """The same answer for every non-null value."""
    return pc.if_else(pc.is_valid(values), pa.scalar(value), pa.scalar(None, pa.bool_()))


def _texts(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_nested(values.type):
        return pa.array([None if v is None else json.dumps(v) for v in values.to_pylist()], pa.string())
    return values.cast(pa.string())


def numbers(values: pa.Array) -> pa.Array:
    """Numbers unchanged; strings that are integer literals as their value, others as null."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return values
    coded = _texts(values).dictionary_encode()
    meanings = pa.array([number(text) for text in coded.dictionary.to_pylist()], pa.int64())
    return meanings.take(coded.indices)
