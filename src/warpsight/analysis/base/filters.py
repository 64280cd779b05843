"""Simple filters as SQL: `duration>=10us`, `name~gemm`, `stream=7|stream=9`, `start=1s..2s`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches

from warpsight.errors import UsageError

_TERM = re.compile(r"^\s*([A-Za-z_][A-Za-z_0-9]*)\s*(!=|<=|>=|!~|=|<|>|~)\s*(.*?)\s*$", re.DOTALL)
_NUMBER = re.compile(r"^([+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ]*)$")
_UNITS = {"": 1, "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9,
          "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}  # fmt: skip


def condition(filters: Sequence[str], columns: Mapping[str, str], origin: int) -> str:
    """The SQL condition that combines all filters with AND; `|` within a filter means OR.

    Args:
        filters: The expressions.
        columns: Column names and SQL types of the table.
        origin: What times of column `start` or `time` with a unit are relative to.

    Raises:
        UsageError: for an invalid expression or an unknown column.
    """
    terms = []
    for text in filters:
        alternatives = [_term(part, columns, origin) for part in _alternatives(text)]
        terms.append("(" + " OR ".join(alternatives) + ")")
    return " AND ".join(terms) or "true"


def column(name: str, columns: Mapping[str, str]) -> str:
    """A quoted column name that exists.

    Raises:
        UsageError: when it does not exist; the message names similar columns.
    """
    if name in columns:
        return f'"{name}"'
    near = get_close_matches(name, columns, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"columns: {', '.join(columns)}"
    raise UsageError(f"there is no column {name!r}; {hint}")


def _alternatives(text: str) -> list[str]:
    """Split at `|`, but inside a regular expression only where a new comparison begins."""
    parts: list[str] = []
    for piece in text.split("|"):
        if parts and not _TERM.match(piece):
            parts[-1] += "|" + piece
        else:
            parts.append(piece)
    return parts


def _term(text: str, columns: Mapping[str, str], origin: int) -> str:
    match = _TERM.match(text)
    if match is None:
        raise UsageError(
            f"{text!r} is not a filter: write column=value, with = != < <= > >= ~ !~, or column=low..high"
        )
    name, operator, value = match.groups()
    quoted = column(name, columns)
    if operator in ("~", "!~"):
        try:
            re.compile(value)
        except re.error as error:
            raise UsageError(f"{value!r} is not a regular expression: {error}") from None
        found = f"regexp_matches({quoted}::VARCHAR, {_text(value)})"
        return found if operator == "~" else f"NOT {found}"
    if value == "" and operator in ("=", "!="):
        return f"{quoted} IS {'NOT ' if operator == '!=' else ''}NULL"
    if ".." in value and columns[name] != "VARCHAR":
        low, high = value.split("..", 1)
        bounds = [_literal(low, name, columns, origin), _literal(high, name, columns, origin)]
        return f"{'NOT ' if operator == '!=' else ''}{quoted} BETWEEN {bounds[0]} AND {bounds[1]}"
    return f"{quoted} {operator} {_literal(value, name, columns, origin)}"


def _literal(value: str, name: str, columns: Mapping[str, str], origin: int) -> str:
    kind = columns[name]
    if kind == "VARCHAR":
        return _text(value)
    if kind == "BOOLEAN":
        if value.lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise UsageError(f"column {name} must be true or false, not {value!r}")
        return str(value.lower() in ("true", "yes", "1")).lower()
    match = _NUMBER.match(value.strip())
    if match is None or match[2] not in _UNITS:
        raise UsageError(
            f"column {name} holds numbers; {value!r} is not a quantity (write 10us, 1.5ms or 64KiB)"
        )
    number = Decimal(match[1]) * _UNITS[match[2]]
    if match[2].endswith("s") and name in ("start", "time", "queued", "submitted"):
        number += origin
    return format(number.normalize(), "f")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
