"""A re-timed recording as a trace: every row at its predicted time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.analysis.path.dependencies import DependencyGraph
from warpsight.model import work as device_work
from warpsight.model.schema import TABLES
from warpsight.model.storage.writer import INTERNED, TraceWriter

if TYPE_CHECKING:
    from warpsight.model import StoredTrace
    from warpsight.simulate.simulation import Simulated

Column = npt.NDArray[Any]
_WORK = ("kernel", "memcpy", "memset")
#: Tables of other moments, and of stretches of threads: they move with the calls around them.
_MOMENTS, _STRETCHES = ("time",), ("start", "duration")
#: Manifest entries that the trace writer fills in itself.
_OWN_ENTRIES = ("format", "schema", "warpsight", "rows", "processes", "devices")


def write(trace: StoredTrace, found: Simulated, path: str | os.PathLike[str], force: bool = False) -> None:
    """Write a new trace in which everything happens at its predicted time.

    Rows of threads (ranges, samples, operators) move with the calls around them; counters and other rows of no thread move
    with the calls of the whole process.

    Raises:
        TraceError: when `path` exists and `force` is not set, or it is not a trace.
    """
    clock = _Clock(found)
    with TraceWriter(path, force=force) as writer:
        writer.take_up(trace)
        for table in TABLES:
            if table in INTERNED:
                continue
            rows = trace.arrow(table)
            if len(rows) and table in _WORK:
                rows = _work(trace, table, rows, found)
            elif len(rows):
                rows = clock.moved(rows)
            writer.add(table, rows)
        what = "; ".join(change.text for change in found.changes) or "nothing"
        cause = f"times come from a simulation with this change: {what}"
        writer.add(
            "loss", [{"source": "simulate", "kind": "times", "cause": cause, "count": 0, "severity": "note"}]
        )
        writer.describe(**{k: v for k, v in trace.manifest.items() if k not in _OWN_ENTRIES})


def _work(trace: StoredTrace, table: str, rows: pa.Table, found: Simulated) -> pa.Table:
    """Device work at its new times; rows that were not re-timed keep theirs."""
    whole = device_work.everything(trace)
    graph: DependencyGraph = found.program.graph
    among, source = {"kernel": whole.kernels, "memcpy": whole.copies, "memset": whole.sets}[table]
    place = np.full(len(whole.work), -1, np.int64)
    chosen = np.arange(len(graph.work)) if graph.work.source is None else graph.work.source
    place[chosen] = np.arange(len(graph.work))
    node = place[among]
    known = node >= 0
    start, duration = _numbers(rows, "start"), _numbers(rows, "duration")
    start[source[known]] = found.times.start[node[known]]
    duration[source[known]] = (found.times.end - found.times.start)[node[known]]
    return _replaced(_replaced(rows, "start", start), "duration", duration)


def _numbers(rows: pa.Table, name: str) -> Column:
    out: Column = pc.fill_null(rows[name].cast(pa.int64()), _NULL).to_numpy().copy()
    return out


_NULL = np.iinfo(np.int64).min


def _replaced(rows: pa.Table, name: str, values: Column) -> pa.Table:
    field = rows.schema.field(name)
    column = pa.array(values, pa.int64(), mask=values == _NULL).cast(field.type)
    return rows.set_column(rows.column_names.index(name), field, column)


class _Clock:
    """New times for old ones, per thread: linear between the begins and ends of its calls."""

    def __init__(self, found: Simulated) -> None:
        program = found.program
        graph = program.graph
        old = graph.time[: graph.base]
        new = np.empty(graph.base, np.int64)
        new[0::2], new[1::2] = found.times.begin, found.times.returned
        owner = np.repeat(graph.by_thread.thread, 2)
        self._lines: dict[tuple[int, int] | None, tuple[Column, Column]] = {}
        for number, key in enumerate(graph.by_thread.threads):
            mine = owner == number
            self._lines[key] = _line(old[mine], new[mine])
        nodes = np.argsort(graph.end, kind="stable")
        self._lines[None] = _line(
            np.concatenate([old, graph.end[nodes]]), np.concatenate([new, found.times.end[nodes]])
        )

    def moved(self, rows: pa.Table) -> pa.Table:
        """Rows of a table with its times moved."""
        names = rows.column_names
        if "start" in names:
            start, duration = (
                _numbers(rows, "start"),
                _numbers(rows, "duration") if "duration" in names else None,
            )
            begin = self._at(rows, start)
            rows = _replaced(rows, "start", begin)
            if duration is not None:
                end = self._at(
                    rows, np.where((duration == _NULL) | (start == _NULL), _NULL, start + duration)
                )
                length = np.where(end == _NULL, _NULL, np.maximum(end - begin, 0))
                rows = _replaced(rows, "duration", np.where(duration < 0, duration, length))
        if "time" in names:
            rows = _replaced(rows, "time", self._at(rows, _numbers(rows, "time")))
        return rows

    def _at(self, rows: pa.Table, moment: Column) -> Column:
        known = moment != _NULL
        out: Column = moment.copy()
        if "thread" not in rows.column_names or "process" not in rows.column_names:
            out[known] = self._mapped(None, moment[known])
            return out
        code, keys = device_work.numbered([_numbers(rows, "process"), _numbers(rows, "thread")])
        for number, key in enumerate(zip(*(column.tolist() for column in keys), strict=True)):
            mine = np.flatnonzero((code == number) & known)
            out[mine] = self._mapped(key, moment[mine])
        return out

    def _mapped(self, key: tuple[int, int] | None, moment: Column) -> Column:
        old, new = self._lines.get(key, self._lines[None])
        if not len(old):
            return moment
        at = np.clip(np.searchsorted(old, moment, "right") - 1, 0, len(old) - 1)
        after = np.minimum(at + 1, len(old) - 1)
        width, run = old[after] - old[at], new[after] - new[at]
        part = np.clip(moment - old[at], None, np.maximum(width, 0))
        inside = np.where(width > 0, np.round(part * (run / np.maximum(width, 1))), moment - old[at])
        out: Column = new[at] + inside.astype(np.int64)
        out[moment < old[0]] = moment[moment < old[0]] - old[0] + new[0]
        out[moment > old[-1]] = moment[moment > old[-1]] - old[-1] + new[-1]
        return out


def _line(old: Column, new: Column) -> tuple[Column, Column]:
    """Ascending moments, each with one new moment that is not earlier than those before it."""
    order = np.lexsort((new, old))
    old, new = old[order], np.maximum.accumulate(new[order]) if len(new) else new
    last = np.r_[old[1:] != old[:-1], True] if len(old) else np.zeros(0, bool)
    return old[last], new[last]
