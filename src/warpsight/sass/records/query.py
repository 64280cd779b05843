"""Records of an instruction trace that match conditions, listed, grouped or counted, with values of any type."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.sass.records import filters, masks
from warpsight.sass.records.selection import RecordSelection, SelectedRecords
from warpsight_plugins.cutracer import records
from warpsight_plugins.cutracer.lines import Chunk
from warpsight_plugins.cutracer.trace_file import TraceFile


def counts_by_columns(
    path: Path | str, conditions: filters.Filter, group_by: str
) -> tuple[dict[Any, int], list[str]]:
    """How many records of a file have each value of a field, with values of any type; and notes on losses."""
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


def _fixed(values: pa.Array) -> npt.NDArray[Any] | None:
    """Lists of equal length as a matrix, None if lengths differ."""
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


def select(path: Path | str, selection: RecordSelection) -> SelectedRecords:
    """Complete records of a file, in file order; reading stops as soon as nothing more can match.

    Raises:
        FormatError: for a damaged line inside the file.
    """
    trace = TraceFile(path)
    grouped = selection.group_by
    fields = tuple(dict.fromkeys((*selection.conditions.fields, *([grouped] if grouped else []))))
    found = SelectedRecords({}, {}, trace.notes)
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


def _keys(table: pa.Table, grouped: str | None, rows: npt.NDArray[np.intp]) -> list[Any]:
    if grouped is None:
        return [None] if len(rows) else []
    values = table[grouped].combine_chunks().take(pa.array(rows)).to_pylist()
    return [str(v) if isinstance(v, list) else v for v in values]


def _add(
    found: SelectedRecords,
    key: object,
    rows: npt.NDArray[np.intp],
    chunk: Chunk,
    count: int,
    trace: TraceFile,
    selection: RecordSelection,
) -> None:
    """Keep the records of a group that the selection asks for, in one chunk."""
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
    """Records with the reader's additions: the instruction's text, the caller of a launch."""
    return map(trace.header.complete, trace.records(chunk, rows, count))
