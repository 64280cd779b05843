"""`sass query --count`: how many records have each value of a field.

Distinct values are counted in the records that meet the conditions on plain fields; each distinct value of such a field is tested
once. Conditions on fields made from several others are tested on the counted values (in this case distinct combinations). Neither
Arrow nor NumPy is needed, and file readers load only for files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.formats.errors import decodes
from warpsight.sass.records.filters import Filter
from warpsight.sass.records.origin import is_trace

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight_plugins.cutracer.fold import Folded
    from warpsight_plugins.cutracer.header import CutracerHeader

#: More distinct combinations than this are columns' business.
_MOST_DISTINCT = 200_000
#: Fields that differ from record to record.
_DISTINCT = frozenset({"trace_index", "timestamp"})
#: Field → the fields of a record that it is made from.
_MADE_FROM = {"sass": ("sass", "opcode_id"), "caller": ("callstack_id",)}


@decodes
def counts(
    path: Path | str, conditions: Filter, group_by: str, top: int | None = None
) -> tuple[list[tuple[Any, int]], list[str]]:
    """The number of records per value of a field, largest first, ties by value, all or `top`; and notes on losses.

    Lists count as their JSON text; None stands for records without the field.

    Raises:
        FormatError: when the file does not exist or is damaged inside.
        UsageError: for a field that an imported trace does not hold.
    """
    if is_trace(path):
        from warpsight.sass.records.imported import ImportedRecords

        with ImportedRecords(path) as opened:
            return opened.counts(group_by, conditions, top), []
    from warpsight.formats.writing.clp import source_of

    early, late = _parted(conditions)
    fields = tuple(dict.fromkeys((group_by, *late.fields)))
    with source_of(path) as source:
        found = _folded(source, fields, early)
    if found is None:
        from warpsight.sass.records.query import counts_by_columns

        totals, notes = counts_by_columns(path, conditions, group_by)
        return ordered(totals)[:top], notes
    made = _made(sum(found.states[1:], found.states[0]), fields, found.header)
    return _totals(made, fields, late)[:top], found.notes


_Counted = list[tuple[tuple[Any, ...], int]]


def _parted(conditions: Filter) -> tuple[Filter, Filter]:
    """Conditions on a single raw field, which each record is tested by, and the others."""
    alone = (g for g in conditions.groups if len({c.field for c in g}) == 1)
    early = tuple(g for g in alone if g[0].field not in _MADE_FROM)
    return Filter(early), Filter(tuple(g for g in conditions.groups if g not in early))


def _totals(counted: _Counted, fields: Sequence[str], conditions: Filter) -> list[tuple[Any, int]]:
    """Counts by the first field of the combinations that match the conditions."""
    totals: dict[Any, int] = {}
    chosen = compress(counted, _fulfilling(counted, fields, conditions)) if conditions.groups else counted
    for values, count in chosen:
        key = str(list(values[0])) if isinstance(values[0], tuple) else values[0]
        totals[key] = totals.get(key, 0) + count
    return ordered(totals)


def ordered(totals: dict[Any, int]) -> list[tuple[Any, int]]:
    """Counts, largest first, ties sorted by key."""
    return sorted(totals.items(), key=lambda item: (-item[1], str(item[0])))


def _raw(fields: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(raw for name in fields for raw in _MADE_FROM.get(name, (name,))))


def _folded(source: Source, fields: Sequence[str], conditions: Filter) -> Folded[Counter[Any]] | None:
    """Counts of the combinations of raw fields in records that match; None if the column reader must do it."""
    from warpsight.sass.records.values import verdicts
    from warpsight_plugins.cutracer import fold

    counted = _raw(fields)
    read = tuple(dict.fromkeys((*counted, *conditions.fields)))
    if not _DISTINCT.isdisjoint(read):
        return None
    value = attrgetter(*counted)
    known: list[dict[Any, bool]] = [{} for _ in conditions.groups]

    def take(state: Counter[Any], rows: Sequence[Any], _: object) -> None:
        for group, decided in zip(conditions.groups, known, strict=True):
            values = list(map(attrgetter(group[0].field), rows))
            if new := set(values).difference(decided):
                decided.update(verdicts(group, new))
            rows = list(compress(rows, map(decided.__getitem__, values)))
        state.update(map(value, rows))
        if len(state) > _MOST_DISTINCT:
            raise fold.Unusual

    return fold.fold(source, read, Counter, lambda _: take)


def _made(total: Counter[Any], fields: Sequence[str], header: CutracerHeader) -> _Counted:
    """Field values computed from those of the raw fields, each combination with its count."""
    raw = _raw(fields)
    places = {name: place for place, name in enumerate(raw)}
    out = []
    for values, count in total.items():
        row = values if len(raw) > 1 else (values,)
        made = tuple(_value(name, row, places, header) for name in fields)
        out.append((made, count))
    return out


def _value(name: str, row: tuple[Any, ...], places: dict[str, int], header: CutracerHeader) -> object:
    if name == "sass":
        text = row[places["sass"]]
        return header.sass.get(row[places["opcode_id"]]) if text is None else text
    if name == "caller":
        return header.stacks.get(row[places["callstack_id"]])
    return row[places[name]]


def _fulfilling(made: _Counted, fields: Sequence[str], conditions: Filter) -> Iterator[bool]:
    """Whether each combination fulfils the conditions."""
    from warpsight.sass.records.values import verdicts

    places = {name: place for place, name in enumerate(fields)}
    groups = []
    for group in conditions.groups:
        tests = []
        for condition in group:
            place = places[condition.field]
            tests.append((place, verdicts([condition], {values[place] for values, _ in made})))
        groups.append(tests)
    for values, _ in made:
        yield all(any(decided[values[place]] for place, decided in tests) for tests in groups)
