"""Conditions on records: `warp=3`, `cta=[0,0,0]`, `pc>=0x40`, `sass~LDG|STG`, `warp=0..7`, `type=reg_trace or warp=1`.

Equality is CUTracer's: an integer literal (also with 0x, 0o or 0b) equals that number or exactly that text, a list literal equals
a list, and anything else equals a text. The other operators are ours: `!=`, `<`, `<=`, `>`, `>=` (numbers; hexadecimal texts
count as numbers), `~` and `!~` (regular expression found in the text), `=a..b` (numbers from a to b), `=a|b` (one of these).
Conditions joined by `;` must all hold; alternatives of several fields are joined by ` or `. A record without the field meets no
condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from warpsight.errors import UsageError

_CONDITION = re.compile(r"^\s*([A-Za-z_][\w.]*)\s*(!=|<=|>=|!~|=|<|>|~)\s*(.*?)\s*$", re.DOTALL)
#: A semicolon ends a condition when another follows; instructions end with one too.
_AND = re.compile(r";(?=\s*(?:[A-Za-z_][\w.]*\s*(?:[!<>]?=|!?~|<|>)))")
_RANGE = re.compile(r"^(\S+?)\.\.(\S+)$")
_OR = re.compile(r"\s+or\s+", re.IGNORECASE)
#: Operators that compare numbers.
ORDER = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Condition:
    """One comparison of a field."""

    field: str
    operator: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{self.text}"


@dataclass(frozen=True)
class Filter:
    """A conjunction of groups, each a disjunction of conditions."""

    groups: tuple[tuple[Condition, ...], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it needs, each once."""
        return tuple(dict.fromkeys(c.field for group in self.groups for c in group))


def parse(expressions: Iterable[str]) -> Filter:
    """The conjunction of several filter expressions.

    Raises:
        UsageError: for anything that is not a condition.
    """
    parts = [part for expression in expressions for part in _AND.split(expression) if part.strip()]
    return Filter(tuple(tuple(_condition(piece) for piece in _OR.split(part)) for part in parts))


def _condition(text: str) -> Condition:
    found = _CONDITION.match(text)
    if found is None:
        raise UsageError(
            f"{text.strip()!r} is not a condition; expected FIELD=VALUE, or !=, <, <=, >, >=, ~, !~"
        )
    name, operator, value = found.groups()
    if value.endswith(";") and number(value[:-1]) is not None:
        value = value[:-1].rstrip()
    if operator in ORDER and number(value) is None:
        raise UsageError(f"{text.strip()!r}: {operator} compares numbers, and {value!r} is not one")
    if operator in ("~", "!~"):
        try:
            re.compile(value)
        except re.error as error:
            raise UsageError(f"{value!r} is not a regular expression: {error}") from None
    return Condition(name, operator, value)


def limits(text: str) -> tuple[int, int] | None:
    """The two ends of a range of numbers `a..b`; None for anything else."""
    found = _RANGE.match(text)
    low, high = (number(found[1]), number(found[2])) if found else (None, None)
    return None if low is None or high is None else (low, high)


def number(text: object) -> int | None:
    """An integer literal with its base prefix; None for anything else."""
    try:
        return int(str(text), 0)
    except ValueError:
        return None
