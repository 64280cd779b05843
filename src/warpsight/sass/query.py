"""`sass query`: records of an instruction trace that fulfil conditions, listed, grouped or counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.errors import UsageError
from warpsight.formats.cutracer import records
from warpsight.formats.cutracer.header import caller
from warpsight.formats.cutracer.lines import Chunk
from warpsight.formats.cutracer.trace_file import TraceFile
from warpsight.formats.importing import open_any as open_trace
from warpsight.sass import filters, masks, tables
from warpsight.sass.origin import is_trace

if TYPE_CHECKING:
    from warpsight.trace import Trace


#: Records of an imported trace that one statement names.
FETCHED_AT_ONCE = 2000


@dataclass(frozen=True)
class Selection:
    """Which records, and how many of each group: the first `head`, the last `tail`, or all when both are None."""

    conditions: filters.Filter = field(default_factory=lambda: filters.Filter(()))
    head: int | None = 10
    tail: int | None = None
    group_by: str | None = None
    #: Describing records (kernel, host stacks, completion) are records like others.
    describing: bool = False


@dataclass
class Found:
    """Selected records by group key (one group None without grouping), and how many each group has in all."""

    groups: dict[Any, list[dict[str, Any]]]
    sizes: dict[Any, int]
    notes: list[str]


def counts_by_columns(
    path: Path | str, conditions: filters.Filter, group_by: str
) -> tuple[dict[Any, int], list[str]]:
    """How many records of a file have each value of a field, whatever the types; and notes on losses."""
    trace = TraceFile(path)
    fields = tuple(dict.fromkeys((*conditions.fields, group_by)))
    totals: dict[Any, int] = {}
    for _, table in trace.chunks(fields):
        kept = _kept(table, conditions, describing=False)
        for value, count in _tally(table[group_by].combine_chunks().filter(kept)):
            totals[value] = totals.get(value, 0) + count
    return totals, trace.notes


def _tally(values: pa.Array) -> Iterator[tuple[Any, int]]:
    if pa.types.is_nested(values.type):
        if pa.types.is_list(values.type) and (lists := _fixed(values)) is not None:
            distinct, count = np.unique(lists, axis=0, return_counts=True)
            yield from ((str(v), int(n)) for v, n in zip(distinct.tolist(), count, strict=True))
            if values.null_count:
                yield None, values.null_count
            return
        values = pa.array([None if v is None else str(v) for v in values.to_pylist()], pa.string())
    counted = pc.value_counts(values)
    yield from zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True)


def _fixed(values: pa.Array) -> Any:
    """Lists of one length as a matrix, None when lengths differ."""
    there = values.drop_null()
    if not len(there) or pa.types.is_nested(values.type.value_type):
        return None
    flat = there.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(there), -1) if len(pc.unique(pc.list_value_length(there))) == 1 else None


def _kept(table: pa.Table, conditions: filters.Filter, describing: bool) -> pa.Array:
    kept = masks.rows(conditions, table)
    if describing:
        return kept
    kinds = pa.array(sorted(records.DESCRIBING))
    return pc.and_(kept, pc.invert(pc.is_in(table["type"].combine_chunks(), kinds)))


def select(path: Path | str, selection: Selection) -> Found:
    """Whole records, in the order of the file; reading stops as soon as nothing can be added.

    Raises:
        FormatError: for a damaged line inside the file.
        UsageError: for a head or tail below 0.
    """
    if min(selection.head or 0, selection.tail or 0) < 0:
        raise UsageError("the number of records cannot be negative")
    if is_trace(path):
        return _select_of_tables(path, selection)
    trace = TraceFile(path)
    grouped = selection.group_by
    fields = tuple(dict.fromkeys((*selection.conditions.fields, *([grouped] if grouped else []))))
    found = Found({}, {}, trace.notes)
    if not grouped:
        found.groups[None] = []
    for chunk, table in trace.chunks(fields):
        kept = _kept(table, selection.conditions, selection.describing)
        rows = pc.indices_nonzero(kept).to_numpy()
        keys = _keys(table, grouped, rows)
        for key in dict.fromkeys(keys):
            mine = rows if grouped is None else rows[np.array([k == key for k in keys], bool)]
            found.sizes[key] = found.sizes.get(key, 0) + len(mine)
            _add(found, key, mine, chunk, len(table), trace, selection)
        bounded = not grouped and selection.tail is None and selection.head is not None
        if bounded and len(found.groups[None]) >= (selection.head or 0):
            break
    return found


def _select_of_tables(path: Path | str, selection: Selection) -> Found:
    """The same of an imported trace; its records have the fields that its tables hold."""
    grouped = selection.group_by
    fields = tuple(dict.fromkeys((*selection.conditions.fields, *([grouped] if grouped else []))))
    with open_trace(path) as trace:
        if not fields and (selection.head is not None or selection.tail is not None):
            return Found({None: _ends(trace, selection)}, {}, [])
        table = tables.keyed(trace, fields)
        rows = pc.indices_nonzero(masks.rows(selection.conditions, table)).to_numpy()
        keys = _keys(table, grouped, rows)
        found = Found({} if grouped else {None: []}, {}, [])
        for key in dict.fromkeys(keys):
            mine = rows if grouped is None else rows[np.array([k == key for k in keys], bool)]
            found.sizes[key] = len(mine)
            if selection.tail is not None:
                mine = mine[len(mine) - min(selection.tail, len(mine)) :]
            elif selection.head is not None:
                mine = mine[: selection.head]
            found.groups[key] = _fetched(trace, table.take(pa.array(mine)))
    return found


def _ends(trace: Trace, selection: Selection) -> list[dict[str, Any]]:
    """The first or last records of an imported trace."""
    if selection.tail is None:
        order = f"ORDER BY {', '.join(tables.KEY)} LIMIT {selection.head}"
        return tables.records(tables.columns(trace, tuple(tables.FIELDS), order=order))
    backwards = ", ".join(f"{name} DESC" for name in tables.KEY)
    last = tables.columns(trace, tuple(tables.FIELDS), order=f"ORDER BY {backwards} LIMIT {selection.tail}")
    return tables.records(last)[::-1]


def _fetched(trace: Trace, chosen: pa.Table) -> list[dict[str, Any]]:
    """Whole records of chosen events."""
    out = []
    for piece in chosen.select(["k0", "k1", "k2"]).to_batches(max_chunksize=FETCHED_AT_ONCE):
        listed = ", ".join(
            f"({a}, {b}, {c})"
            for a, b, c in zip(*(column.to_pylist() for column in piece.columns), strict=True)
        )
        where = f"WHERE ({', '.join(tables.KEY)}) IN ({listed})"
        out += tables.records(tables.columns(trace, tuple(tables.FIELDS), where)) if listed else []
    return out


def _keys(table: pa.Table, grouped: str | None, rows: Any) -> list[Any]:
    if grouped is None:
        return [None] if len(rows) else []
    values = table[grouped].combine_chunks().take(pa.array(rows)).to_pylist()
    return [str(v) if isinstance(v, list) else v for v in values]


def _add(
    found: Found, key: Any, rows: Any, chunk: Chunk, count: int, trace: TraceFile, selection: Selection
) -> None:
    """Keep what the selection wants of a group's rows in one chunk."""
    kept = found.groups.setdefault(key, [])
    if selection.tail is not None:
        rows = rows[len(rows) - min(selection.tail, len(rows)) :]
        last = deque(kept, maxlen=selection.tail)
        last.extend(_decoded(rows, chunk, count, trace))
        found.groups[key] = list(last)
    else:
        room = len(rows) if selection.head is None else max(selection.head - len(kept), 0)
        kept.extend(_decoded(rows[:room], chunk, count, trace))


def _decoded(rows: Iterable[int], chunk: Chunk, count: int, trace: TraceFile) -> Iterator[dict[str, Any]]:
    """Records with what the reader adds: the instruction's text, the caller of a launch."""
    for record in trace.records(chunk, rows, count):
        if "sass" not in record and (text := trace.header.sass.get(record.get("opcode_id", -1))):
            record["sass"] = text
        if record.get("type") == "kernel_launch" and "caller" not in record:
            if record.get("cpu_callstack"):
                record["caller"] = caller(record["cpu_callstack"], str(record.get("cpu_callstack_source")))
            elif frame := trace.header.stacks.get(str(record.get("callstack_id"))):
                record["caller"] = frame
        yield record


def field_names(found: Sequence[dict[str, Any]]) -> list[str]:
    """All fields of some records, in the order of their first appearance."""
    return list(dict.fromkeys(name for record in found for name in record))
