"""The fields of records and conditions on them as SQL over an imported trace's tables.

Values and conditions mean what they mean in a file (:mod:`warpsight.sass.records.masks`): DuckDB's regular expressions are RE2
as Arrow's are, and a record without the field meets no condition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpsight.errors import UsageError
from warpsight.sass.records.filters import Condition, Filter, limits, number

#: The columns that identify an event, in their order.
KEY = ("process", "grid_launch", "event")
#: Tables that hold what an event only refers to, joined to events `w` where a value needs them.
_JOINS = {
    "i": ' LEFT JOIN "instruction" i ON i.process = w.process AND i.opcode = w.opcode '
    "AND i.name_id IS NOT DISTINCT FROM w.name_id",
    "n": ' LEFT JOIN "name" n ON n.id = w.name_id',
}
_HEX = re.compile(r"0x(0|[1-9a-f][0-9a-f]*)")


@dataclass(frozen=True)
class _RecordField:
    """One field: `kind` is number, text, hex or list; `value` an expression over `columns` of events `w` and joined tables."""

    kind: str
    columns: tuple[str, ...]
    value: str
    #: Joins that it needs.
    joins: str = ""
    #: Minimum digits of a hexadecimal string.
    digits: int = 1


def _number(column: str) -> _RecordField:
    return _RecordField("number", (column,), f"w.{column}")


#: Field of a record → where it is.
FIELDS = {
    "type": _RecordField("text", ("kind",), "w.kind"),
    "trace_index": _number("event"),
    "timestamp": _number("time"),
    "grid_launch_id": _number("grid_launch"),
    "cta": _RecordField("list", ("cta_x", "cta_y", "cta_z"), "[w.cta_x::BIGINT, w.cta_y::BIGINT, w.cta_z::BIGINT]"),
    "warp": _number("warp"),
    "opcode_id": _number("opcode"),
    "pc": _RecordField("hex", ("pc",), "'0x' || lower(hex(w.pc))"),
    "sass": _RecordField("text", ("process", "opcode", "name_id"), "i.sass", "i"),
    "kernel": _RecordField("text", ("name_id",), "n.name", "n"),
    "active_mask": _RecordField("hex", ("active_mask",), "'0x' || lpad(lower(hex(w.active_mask)), 8, '0')", digits=8),
}  # fmt: skip


def field(name: str) -> _RecordField:
    """A field by its name.

    Raises:
        UsageError: for an unknown field.
    """
    if name not in FIELDS:
        raise UsageError(
            f"an imported trace has no field {name!r}; fields: {', '.join(FIELDS)}; SQL reaches the rest"
        )
    return FIELDS[name]


def text(name: str) -> str:
    """A field's value as a string, used to group, sort and match values."""
    found = field(name)
    if found.kind == "list":
        parts = ", ', ', ".join(f"w.{column}" for column in found.columns)
        return f"concat('[', {parts}, ']')"
    return found.value if found.kind != "number" else f"{found.value}::VARCHAR"


def counts(group_by: str, conditions: Filter, top: int | None) -> str:
    """How many events have each value of a field, lists as strings: largest first, ties by value."""
    early, late = _parted(conditions)
    chosen = field(group_by)
    names = {group_by, *late.fields}
    columns = sorted({column for name in names for column in field(name).columns})
    inner = f'SELECT {", ".join(columns)}, count(*) AS c FROM "warp_event" w{_where(early)} GROUP BY ALL'
    key = text(group_by) if chosen.kind == "list" else chosen.value
    limit = f" LIMIT {int(top)}" if top is not None else ""
    return (
        f"SELECT {key} AS k, sum(c)::BIGINT AS n FROM ({inner}) w{joined(names)}{_where(late)} "
        f"GROUP BY 1 ORDER BY 2 DESC, coalesce(k::VARCHAR, 'None'){limit}"
    )


def ends(conditions: Filter, head: int | None, tail: int | None) -> str:
    """The fields of the first or last events that match conditions, or of all if both are None, in order."""
    down = " DESC" if tail is not None else ""
    order = ", ".join(f"w.{name}{down}" for name in KEY)
    count = tail if tail is not None else head
    limit = f" LIMIT {int(count)}" if count is not None else ""
    names = conditions.fields
    inner = f'SELECT w.* FROM "warp_event" w{joined(names)}{_where(conditions)} ORDER BY {order}{limit}'
    return f"SELECT {_listed()} FROM ({inner}) w{joined(FIELDS)} ORDER BY {', '.join(f'w.{n}' for n in KEY)}"


def grouped(conditions: Filter, group_by: str, head: int | None, tail: int | None) -> str:
    """For each group, its key, its size, and the fields of its first, last or all events."""
    chosen = field(group_by)
    key = text(group_by) if chosen.kind == "list" else chosen.value
    order = ", ".join(f"w.{name}{' DESC' if tail is not None else ''}" for name in KEY)
    count = tail if tail is not None else head
    limit = (
        f" QUALIFY row_number() OVER (PARTITION BY k ORDER BY {order}) <= {int(count)}"
        if count is not None
        else ""
    )
    names = {group_by, *conditions.fields}
    inner = (
        f"SELECT w.*, {key} AS k, count(*) OVER (PARTITION BY {key}) AS size "
        f'FROM "warp_event" w{joined(names)}{_where(conditions)}{limit}'
    )
    return (
        f"SELECT w.k, w.size, {_listed()} FROM ({inner}) w{joined(FIELDS)} "
        f"ORDER BY {', '.join(f'w.{n}' for n in KEY)}"
    )  # fmt: skip


#: The kernels and launches that a trace holds.
LAUNCHES = 'SELECT DISTINCT process, name_id, grid_launch FROM "warp_event"'
#: An instruction that pads a program's end, with or without a predicate.
_PADDING = r"regexp_matches(i.sass, '^(@\S+ )?NOP')"


def last_opcodes(process: int, name_id: int | None) -> str:
    """For a trace of one launch: each warp with its last executed instruction other than padding."""
    kernel = f"i.process = {int(process)} AND i.name_id IS NOT DISTINCT FROM {'NULL' if name_id is None else int(name_id)}"
    pads = f'SELECT i.opcode FROM "instruction" i WHERE {kernel} AND {_PADDING}'
    return f'SELECT warp, arg_max(opcode, event) FROM "warp_event" WHERE opcode NOT IN ({pads}) GROUP BY warp'


def last_instructions() -> str:
    """For any trace, each warp with the text of its last executed instruction other than padding."""
    return (
        f"SELECT w.warp, arg_max(coalesce(i.sass, ''), ({', '.join(f'w.{n}' for n in KEY)})) FROM \"warp_event\" w"
        f"{joined(['sass'])} WHERE i.sass IS NULL OR NOT {_PADDING} GROUP BY w.warp"
    )


def _listed() -> str:
    return ", ".join(f'{found.value} AS "{name}"' for name, found in FIELDS.items())


def joined(names: Iterable[str]) -> str:
    """The joins that some fields need."""
    return "".join(_JOINS[join] for join in dict.fromkeys(field(name).joins for name in names) if join)


def _parted(conditions: Filter) -> tuple[Filter, Filter]:
    """Conditions on events alone, which are tested on events, and the rest, which are tested on the counts."""
    early = tuple(g for g in conditions.groups if not any(field(c.field).joins for c in g))
    return Filter(early), Filter(tuple(g for g in conditions.groups if g not in early))


def _where(conditions: Filter) -> str:
    groups = ["(" + " OR ".join(map(_holds, group)) + ")" for group in conditions.groups]
    return f" WHERE {' AND '.join(groups)}" if groups else ""


def _holds(condition: Condition) -> str:
    """A condition as SQL; never true for a null."""
    found = field(condition.field)
    operator, wanted = condition.operator, condition.text
    there = f"{found.value if found.joins else 'w.' + found.columns[0]} IS NOT NULL"
    if operator in ("~", "!~"):
        matches = f"regexp_matches({text(condition.field)}, {quote(wanted)})"
        return f"({there} AND {'' if operator == '~' else 'NOT '}{matches})"
    if operator not in ("=", "!="):
        return f"coalesce({_numeric(found)} {operator} {_literal(number(wanted))}, false)"
    any_of = " OR ".join(_is(found, part) for part in wanted.split("|"))
    return f"({there} AND {'' if operator == '=' else 'NOT '}({any_of}))"


def _is(found: _RecordField, wanted: str) -> str:
    between = limits(wanted)
    if between is not None:
        low, high = map(_literal, between)
        return f"coalesce({_numeric(found)} BETWEEN {low} AND {high}, false)"
    if found.kind == "list":
        return _is_list(found.columns, wanted)
    if found.kind == "text":
        return f"{found.value} = {quote(wanted)}"
    if found.kind == "hex":
        digits = wanted[2:] if wanted.startswith("0x") else ""
        if found.digits > 1 and len(digits) != found.digits:
            return "false"  # leading zeros are part of the string
        plain = f"0x{digits.lstrip('0') or '0'}" if found.digits > 1 else wanted
        return f"w.{found.columns[0]} = {_literal(int(plain, 16))}" if _HEX.fullmatch(plain) else "false"
    value = number(wanted)
    return "false" if value is None else f"{found.value} = {_literal(value)}"


def _is_list(columns: Sequence[str], wanted: str) -> str:
    try:
        values = json.loads(wanted)
    except ValueError:
        return "false"
    whole = isinstance(values, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if not whole or len(values) != len(columns):
        return "false"
    return "(" + " AND ".join(f"w.{c} = {_literal(v)}" for c, v in zip(columns, values, strict=True)) + ")"


def _numeric(found: _RecordField) -> str:
    """The value to sort by: strings count if they are integer literals."""
    if found.kind in ("number", "hex"):
        return f"w.{found.columns[0]}"
    if found.kind == "list":
        return "NULL::BIGINT"
    return f"CASE WHEN regexp_full_match(trim({found.value}), '[+-]?(0+|[1-9][0-9]*)') THEN TRY_CAST({found.value} AS BIGINT) END"


def _literal(value: int | None) -> str:
    """A number as SQL; out-of-range numbers are clipped to values that are still out of range for every column."""
    assert value is not None
    return f"{max(min(value, 1 << 100), -(1 << 100))}::HUGEINT" if abs(value) >= 1 << 63 else str(value)


def quote(wanted: str) -> str:
    """A string as an SQL literal."""
    return "'" + wanted.replace("'", "''") + "'"
