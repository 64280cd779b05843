"""Everything the devices did, as columns: kernels, communication kernels, copies and sets of all streams, by begin.

Analyses of time (utilisation, gaps, states, …) start here. Rows count when they lie in or reach into the time asked for, and
are cut at its ends. A stream is known by process, device, context and stream: equal numbers on two devices are two streams.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis import collective_names, intervals
from warpsight.analysis.result import Finding
from warpsight.analysis.selection import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from warpsight.trace import Trace

Column = NDArray[Any]
#: Kinds of device work; `Work.kind` is an index into it. A communication kernel is no kernel here: each row has one kind.
KINDS = ("kernel", "communication", "copy", "set")
KERNEL, COMMUNICATION, COPY, SET = range(4)
_ALL = Rows()
#: How names of copies and sets look to a name filter.
_TEXT = {"memcpy": "'memcpy ' || kind", "memset": "'memset'"}


@dataclass(frozen=True)
class Queue:
    """A stream: where work is done in order. `device` is None where the trace does not tell."""

    process: int
    device: int | None
    context: int
    stream: int
    name: str | None = None


@dataclass(frozen=True)
class Work:
    """Columns of equal length, sorted by `start` (ns); `kind` indexes :data:`KINDS`, `queue` indexes `queues`.

    Attributes:
        name_id: Kernel name, 0 for copies and sets.
        correlation: -1 where none was recorded.
        begin: Begin of the time looked at: asked for, else the first begin of any work.
        finish: End of the time looked at: asked for, else the last end of any work.
        unfinished: Kernels that were launched and never seen to run; they are not among the rows.
        reversed: Rows that ended before they began; they count as empty.
    """

    start: Column
    end: Column
    kind: Column
    queue: Column
    name_id: Column
    process: Column
    correlation: Column
    stack: Column
    queues: tuple[Queue, ...]
    begin: int
    finish: int
    unfinished: int = 0
    reversed: int = 0
    #: Device (None: unknown) → indices of its queues.
    devices: dict[int | None, list[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def window(self) -> int:
        """Length of the time looked at, ns."""
        return max(self.finish - self.begin, 0)

    def device_index(self) -> tuple[list[int | None], Column]:
        """The devices in order, and for each row the place of its device in that list."""
        ids = list(self.devices)
        place = np.zeros(max(len(self.queues), 1), np.int16)
        for i, device in enumerate(ids):
            place[self.devices[device]] = i
        return ids, place[self.queue]

    def of_kind(self, *kinds: int, among: Column | None = None) -> intervals.Intervals:
        """The union of the work of some kinds (none given: all), among rows chosen by a mask or index."""
        rows = (
            np.arange(len(self)) if among is None else np.flatnonzero(among) if among.dtype == bool else among
        )
        if kinds:
            rows = rows[np.isin(self.kind[rows], kinds)]
        return intervals.union(self.start[rows], self.end[rows])

    def per_device(self) -> Iterator[tuple[int | None, Column]]:
        """Each device with the indices of its rows, by begin."""
        ids, place = self.device_index()
        yield from zip(ids, split(place, len(ids)), strict=True)

    def per_queue(self) -> Iterator[tuple[Queue, Column]]:
        """Each stream with the indices of its rows, by begin."""
        yield from zip(self.queues, split(self.queue, len(self.queues)), strict=True)

    def doubts(self) -> tuple[Finding, ...]:
        """What every analysis of this work has to say about it: kernels without times, times that run backwards."""
        out = []
        if self.unfinished:
            text = f"{self.unfinished:,} kernels were launched and no GPU record of them arrived; their time is not counted"
            out.append(Finding("loss", text, {"kernels": self.unfinished}))
        if self.reversed:
            text = f"{self.reversed:,} rows end before they begin; they count as empty"
            out.append(Finding("warning", text, {"rows": self.reversed}))
        return tuple(out)


def load(trace: Trace, rows: Rows = _ALL, *, cut: bool = True) -> Work:
    """The device work of a trace that the conditions select; `rows.name` selects kernels, `memcpy KIND` and `memset`.

    With `cut`, work that reaches into the time asked for counts with the part that lies in it: for questions about time.
    Without, rows count whole when they begin in it: for questions about rows.
    """
    parts = [_read(trace, table, rows) for table in ("kernel_ids", "memcpy", "memset")]
    columns = [np.concatenate([part[i] for part in parts]) for i in range(9)]
    start, duration, process, device, context, stream, name, correlation, stack = columns
    kind = np.repeat(np.array([KERNEL, COPY, SET], np.int8), [len(p[0]) for p in parts])
    kernels = kind[: len(parts[0][0])]
    kernels[_communication(trace, parts[0][6])] = COMMUNICATION
    queue, queues = _queues(trace, process, device, context, stream)
    backwards = int((duration < 0).sum())
    end = start + np.maximum(duration, 0)
    begin, finish = _window(rows, start, end)
    order = np.argsort(start, kind="stable")
    keep = None if rows.begin is None else (start >= begin) | (cut & (end > begin))
    chosen = order if keep is None else order[keep[order]]
    if cut and rows != _ALL:
        start, end = (np.clip(c, begin, max(finish, begin)) for c in (start, end))
    columns = [start, end, kind, queue, name, process, correlation, stack]
    if not (keep is None and bool((start[1:] >= start[:-1]).all())):
        columns = [c[chosen] for c in columns]
    at, until, kind, queue, name, process, correlation, stack = columns
    devices: dict[int | None, list[int]] = {}
    for i in sorted(range(len(queues)), key=lambda i: (queues[i].device is None, queues[i].device or 0)):
        devices.setdefault(queues[i].device, []).append(i)
    return Work(at, until, kind, queue, name, process, correlation, stack, queues, begin, finish,
                _unfinished(trace, rows), backwards, devices)  # fmt: skip


def split(group: Column, groups: int) -> list[Column]:
    """The indices of each group's rows, in their order; groups are numbers from 0 to `groups` - 1."""
    if groups == 1:
        return [np.arange(len(group))]
    small = group.astype(np.int16) if groups < 32_768 else group
    order = np.argsort(small, kind="stable")
    return np.split(order, np.searchsorted(small[order], np.arange(1, groups))) if groups else []


def numbered(columns: Sequence[Column]) -> tuple[Column, list[Column]]:
    """Number of each distinct row of some integer columns, from 0 in their order, and the distinct rows' columns."""
    rows = len(columns[0])
    code, span, limit = np.zeros(rows, np.int64), 1, 4 * rows + 1024
    for column in columns:
        low, width = (int(column.min()), int(column.max()) - int(column.min()) + 1) if rows else (0, 1)
        if width == 1:
            continue
        if width > limit:
            values, column = distinct(column)
            low, width = 0, len(values)
        if span * width > limit and span > 1:
            values, code = distinct(code)
            span = len(values)
        code = code * np.int64(width) + np.subtract(column, low, dtype=np.int64)
        span *= width
    _, code = distinct(code)
    first = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(rows)[::-1]
    return code, [c[first] for c in columns]


def distinct(column: Column) -> tuple[Column, Column]:
    """As numpy.unique with inverse, without a sort where the values lie close together."""
    if not len(column):
        return column, np.empty(0, np.int32)
    low, high = int(column.min()), int(column.max())
    if low == high:
        return column[:1], np.zeros(len(column), np.int32)
    if high - low > 4 * len(column) + 1024:
        values, place = np.unique(column, return_inverse=True)
        return values, place.astype(np.int32)
    shifted = np.subtract(column, low, dtype=np.promote_types(column.dtype, np.int32))
    there = np.zeros(high - low + 1, bool)
    there[shifted] = True
    return np.flatnonzero(there) + low, (np.cumsum(there, dtype=np.int32) - np.int32(1))[shifted]


def _read(trace: Trace, table: str, rows: Rows) -> list[Column]:
    name = "coalesce(name_id, 0)" if table == "kernel_ids" else "0::INTEGER"
    where, parameters = _condition(trace, table, rows)
    sql = f"""SELECT start, duration, process, coalesce(device, -1)::SMALLINT, context, stream, {name},
        coalesce(correlation, -1), coalesce(stack, 0) FROM {table} WHERE start IS NOT NULL AND duration IS NOT NULL AND {where}"""
    data = trace.sql(sql, **parameters).to_arrow_table()
    return [column.to_numpy() for column in data.columns]


def _condition(trace: Trace, table: str, rows: Rows) -> tuple[str, dict[str, Any]]:
    """SQL for all but the begin of the time: a row that began before it may reach into it."""
    where = Rows(None, rows.end, rows.devices, rows.streams, rows.processes).where()
    if rows.name is None:
        return where, {}
    if table == "kernel_ids":
        return where + named(trace, rows.name), {}
    return f"{where} AND regexp_matches({_TEXT[table]}, $pattern)", {"pattern": rows.name}


def named(trace: Trace, pattern: str | None) -> str:
    """The condition that a kernel's name matches, as a list of ids: names are matched once each, not once per row."""
    if pattern is None:
        return ""
    sql = "SELECT id FROM name WHERE regexp_matches(name, $pattern) OR regexp_matches(demangled, $pattern)"
    ids = ", ".join(str(i) for (i,) in trace.sql(sql, pattern=pattern).fetchall())
    return f" AND name_id IN ({ids or 'NULL'})"


def _communication(trace: Trace, name_id: Column) -> Column:
    """Whether each kernel is a communication kernel; every name is looked at once."""
    names = trace.sql("SELECT id, name, demangled FROM name").fetchall()
    flags = np.zeros(max(int(name_id.max(initial=0)), max((row[0] for row in names), default=0)) + 1, bool)
    for number, *texts in names:
        flags[number] = any(collective_names.parse(text) for text in texts)
    return flags[name_id]


def _queues(trace: Trace, *columns: Column) -> tuple[Column, tuple[Queue, ...]]:
    code, distinct = numbered(columns)
    sql = "SELECT process, context, stream, any_value(name) FROM stream GROUP BY ALL"
    names = {(p, c, s): name for p, c, s, name in trace.sql(sql).fetchall()}
    keys = zip(*(c.tolist() for c in distinct), strict=True)
    return code, tuple(Queue(p, None if d < 0 else d, c, s, names.get((p, c, s))) for p, d, c, s in keys)


def _window(rows: Rows, start: Column, end: Column) -> tuple[int, int]:
    begin = rows.begin if rows.begin is not None else int(start.min()) if len(start) else rows.end or 0
    finish = rows.end if rows.end is not None else int(end.max()) if len(end) else begin
    return begin, finish


def _unfinished(trace: Trace, rows: Rows) -> int:
    where = Rows(None, None, rows.devices, rows.streams, rows.processes).where() + named(trace, rows.name)
    sql = f"SELECT count(*) FROM kernel_ids WHERE (start IS NULL OR duration IS NULL) AND {where}"
    return int(trace.sql(sql).fetchall()[0][0])
