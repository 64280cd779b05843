"""`sass query --count`: how many records have each value of a field.

Distinct values (with the fields of the conditions: distinct combinations) are counted first, and conditions are tested on what
was counted, so neither Arrow nor NumPy is needed where there are no conditions. What reads files is loaded for files only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.sass.filters import Filter
from warpsight.sass.origin import is_trace

if TYPE_CHECKING:
    from warpsight.formats.cutracer.fold import Folded
    from warpsight.formats.cutracer.header import Header
    from warpsight.formats.source import Source

#: More distinct combinations than this are columns' business.
MOST_DISTINCT = 200_000
#: Fields that differ from record to record.
_DISTINCT = frozenset({"trace_index", "timestamp"})
#: Field → the fields of a record that it is made from.
_MADE_FROM = {"sass": ("sass", "opcode_id"), "caller": ("callstack_id",)}


def counts(
    path: Path | str, conditions: Filter, group_by: str, top: int | None = None
) -> tuple[list[tuple[Any, int]], list[str]]:
    """How many records have each value of a field: largest first, equal ones by their text, all or `top`; and notes on losses.

    Lists count as their JSON text; None stands for records without the field.

    Raises:
        FormatError: when the file does not exist or is damaged inside.
        UsageError: for a field that an imported trace does not hold.
    """
    if is_trace(path):
        from warpsight.sass.imported import Imported

        with Imported(path) as opened:
            return opened.counts(group_by, conditions, top), []
    from warpsight.formats.cutracer.clp import source_of

    fields = tuple(dict.fromkeys((group_by, *conditions.fields)))
    with source_of(path) as source:
        found = _folded(source, fields)
    if found is None:
        from warpsight.sass.query import counts_by_columns

        totals, notes = counts_by_columns(path, conditions, group_by)
        return ordered(totals)[:top], notes
    total = sum(found.states[1:], found.states[0])
    return _totals(_made(total, fields, found.header), fields, conditions)[:top], found.notes


_Counted = list[tuple[tuple[Any, ...], int]]


def _totals(counted: _Counted, fields: Sequence[str], conditions: Filter) -> list[tuple[Any, int]]:
    """Counts by the first field of the combinations that fulfil the conditions."""
    totals: dict[Any, int] = {}
    for values, count in _fulfilling(counted, fields, conditions) if conditions.groups else counted:
        key = str(list(values[0])) if isinstance(values[0], tuple) else values[0]
        totals[key] = totals.get(key, 0) + count
    return ordered(totals)


def ordered(totals: dict[Any, int]) -> list[tuple[Any, int]]:
    """Counts, largest first, equal ones by the text of their key."""
    return sorted(totals.items(), key=lambda item: (-item[1], str(item[0])))


def _raw(fields: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(raw for name in fields for raw in _MADE_FROM.get(name, (name,))))


def _folded(source: Source, fields: Sequence[str]) -> Folded[Counter[Any]] | None:
    """Counts of the combinations of the raw fields; None where the columns have to do it."""
    from warpsight.formats.cutracer import fold

    raw = _raw(fields)
    if not _DISTINCT.isdisjoint(raw):
        return None
    value = attrgetter(*raw)

    def take(state: Counter[Any], rows: Sequence[Any]) -> None:
        state.update(map(value, rows))
        if len(state) > MOST_DISTINCT:
            raise fold.Unusual

    return fold.fold(source, raw, Counter, lambda _: take)


def _made(total: Counter[Any], fields: Sequence[str], header: Header) -> _Counted:
    """Values of the fields from those of the raw fields, each combination with its count."""
    raw = _raw(fields)
    places = {name: place for place, name in enumerate(raw)}
    out = []
    for values, count in total.items():
        row = values if len(raw) > 1 else (values,)
        made = tuple(_value(name, row, places, header) for name in fields)
        out.append((made, count))
    return out


def _value(name: str, row: tuple[Any, ...], places: dict[str, int], header: Header) -> Any:
    if name == "sass":
        text = row[places["sass"]]
        return header.sass.get(row[places["opcode_id"]]) if text is None else text
    if name == "caller":
        return header.stacks.get(row[places["callstack_id"]])
    return row[places[name]]


def _fulfilling(made: _Counted, fields: Sequence[str], conditions: Filter) -> _Counted:
    import pyarrow as pa

    from warpsight.formats.cutracer.trace_file import column
    from warpsight.sass import masks

    columns = {name: column(name, [values[place] for values, _ in made]) for place, name in enumerate(fields)}
    kept = masks.rows(conditions, pa.table(columns)).to_pylist()
    return [row for row, keep in zip(made, kept, strict=True) if keep]
