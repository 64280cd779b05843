"""All device work as columns: kernels, communication kernels, copies and sets of all streams, by start.

Analyses of time (utilization, gaps, states, …) start here. Rows count when they are in or reach into the requested time, and are
cut at its ends. A stream is identified by process, device, context and stream, so equal numbers on two devices are two streams.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model import intervals
from warpsight.model.naming import collective_names
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Kinds of device work; `Work.kind` is an index into it. A communication kernel is not a kernel here: each row has one kind.
KINDS = ("kernel", "communication", "copy", "set")
KERNEL, COMMUNICATION, COPY, SET = range(4)
_ALL = Rows()
#: Up to this many groups, one pass per group is faster than sorting.
_FEW = 16
#: Up to this many groups, rows are summed in blocks.
_FEW_SUMS = 4096
#: Placeholder for a time that was not recorded.
NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Queue:
    """A stream: a place where work is done in order. `device` is None if unknown."""

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
        begin: Start of the analyzed time: as requested, otherwise the first start of any work.
        finish: End of the analyzed time: as requested, otherwise the last end of any work.
        unfinished: Kernels that were launched but never seen running; they are not among the rows.
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
    #: The place of each row among all work of the trace; None: these are all.
    source: Column | None = None
    #: Device (None: unknown) → indices of its queues.
    devices: dict[int | None, list[int]] = field(default_factory=dict)
    #: The rows of each device and of each queue, once they were requested.
    _parts: dict[str, list[Column]] = field(default_factory=dict, repr=False, compare=False)
    #: The call of each row, without and with table api, once it was requested (:func:`warpsight.model.calls.of_work`).
    calls: dict[bool, Column] = field(default_factory=dict, repr=False, compare=False)
    #: Protects results computed later about the rows: threads share work.
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def window(self) -> int:
        """Length of the analyzed time, ns."""
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
        if among is None or among.dtype == bool:
            rows = np.ones(len(self), bool) if among is None else among
            if kinds:
                rows = rows & any_of(self.kind, kinds)
            if rows.all():
                return intervals.union(self.start, self.end)
        else:
            rows = among[any_of(self.kind[among], kinds)] if kinds else among
        return intervals.union(self.start[rows], self.end[rows])

    def per_device(self) -> Iterator[tuple[int | None, Column]]:
        """Each device with the indices of its rows, by start."""
        with self.lock:
            if "device" not in self._parts:
                ids, place = self.device_index()
                self._parts["device"] = _small(split(place, len(ids)), len(self))
        yield from zip(self.devices, self._parts["device"], strict=True)

    def per_queue(self) -> Iterator[tuple[Queue, Column]]:
        """Each stream with the indices of its rows, by start."""
        with self.lock:
            if "queue" not in self._parts:
                self._parts["queue"] = _small(split(self.queue, len(self.queues)), len(self))
        yield from zip(self.queues, self._parts["queue"], strict=True)


def any_of(column: Column, values: Sequence[int]) -> Column:
    """Which numbers of a column are among some values; no number may be below 0."""
    if len(values) > _FEW:
        wanted = np.zeros(max(int(column.max(initial=0)), *values) + 1, bool)
        wanted[values] = True
        found: Column = wanted[column]
        return found
    out = np.zeros(len(column), bool)
    for value in values:
        out |= column == value
    return out


def load(trace: StoredTrace, rows: Rows = _ALL, *, cut: bool = True) -> Work:
    """The device work of a trace that the conditions select; `rows.name` selects kernels, `memcpy KIND` and `memset`.

    With `cut`, for questions about time, work that reaches into the requested time counts with the part inside it. Without, for
    questions about rows, rows that begin inside it count as a whole. The result is kept while the trace is open and shared by
    everyone who asks for the same rows; its columns are read-only.
    """
    if rows.key() == _ALL.key():
        return everything(trace).work
    timed = rows.begin is not None or rows.end is not None
    key = ("device work", rows.key(), cut and timed)
    return trace.kept.get(key, lambda: _selected(trace, everything(trace), rows, cut and timed))


@dataclass(frozen=True)
class Everything:
    """All device work of a trace, with the columns that other filters use.

    Attributes:
        work: The work.
        reversed: Rows that ended before they began.
        copies: Rows that are copies, by start, and the row of table memcpy for each.
        sets: The same for sets and table memset.
        unfinished: Kernels without times: process, device (-1 unknown), stream, name.
    """

    work: Work
    reversed: Column
    copies: tuple[Column, Column]
    sets: tuple[Column, Column]
    unfinished: dict[str, Column]
    _order: Column | None
    _finished: Column | None

    @property
    def kernels(self) -> tuple[Column, Column]:
        """The rows that are kernels, by start, and the row of table kernel for each."""
        rows = np.flatnonzero(self.work.kind <= COMMUNICATION)
        return rows, self.kernel_rows(rows)

    def kernel_rows(self, rows: Column) -> Column:
        """The row of table kernel for each of some rows, all of them kernels."""
        source = rows if self._order is None else self._order[rows]
        return source if self._finished is None else self._finished[source]


def everything(trace: StoredTrace) -> Everything:
    """All device work of a trace, kept while it is open."""
    return trace.kept.get("device work", lambda: _everything(trace))


_WHERE = {"process": 0, "device": -1, "context": 0, "stream": 0}
_NUMBERS = {"start": NO_TIME, "duration": NO_TIME, **_WHERE, "correlation": -1, "stack": 0}


def _everything(trace: StoredTrace) -> Everything:
    columns, unfinished, finished, kind = _read(trace)
    where = (columns["process"], *(columns.pop(name) for name in ("device", "context", "stream")))
    queue, queues = _queues(trace, where)
    del where
    duration, start = columns.pop("duration"), columns.pop("start")
    backwards = np.flatnonzero(duration < 0)
    end = np.maximum(duration, 0, out=duration)
    end += start
    order = None
    if not bool((start[1:] >= start[:-1]).all()):
        order = np.argsort(start, kind="stable")
        columns |= {"start": start, "end": end, "kind": kind, "queue": queue}
        del start, end, duration, kind, queue
        for name in columns:  # one at a time: both orders of all columns are twice the memory
            columns[name] = columns[name][order]
        start, end, kind, queue = (columns.pop(name) for name in ("start", "end", "kind", "queue"))
        backwards = np.flatnonzero(np.isin(order, backwards)) if len(backwards) else backwards
        order = order.astype(np.int32) if len(order) < 1 << 31 else order
    begin, finish = _window(_ALL, start, end)
    work = Work(start, end, kind, queue, columns["name_id"], columns["process"], columns["correlation"], columns["stack"],
                queues, begin, finish, len(unfinished["process"]), len(backwards), devices=_devices(queues))  # fmt: skip
    protect(work)
    moved = [_moved(kind, order, number) for number in (COPY, SET)]
    return Everything(work, backwards, moved[0], moved[1], unfinished, order, finished)


def _moved(kind: Column, order: Column | None, number: int) -> tuple[Column, Column]:
    """The rows of a kind, and the row of its table that each is: the rows of a table were read in one piece."""
    rows = np.flatnonzero(kind == number)
    source = rows if order is None else order[rows].astype(np.int64)
    return rows, source - (int(source.min()) if len(source) else 0)


def _read(trace: StoredTrace) -> tuple[dict[str, Column], dict[str, Column], Column | None, Column]:
    """Kernels with times, copies and sets, one after another; kernels without times; rows with times; kinds.

    Rows with times are those of table kernel, None where all have times; kinds are those of the rows returned first.
    """
    tables = ("kernel", "memcpy", "memset")
    columns, _ = trace.columns(tables, {**_NUMBERS, "name_id": 0}, narrow=["correlation"])
    kernels, *others = (trace.count(table) for table in tables)
    start, duration = columns["start"][:kernels], columns["duration"][:kernels]
    never = np.flatnonzero((start == NO_TIME) | (duration == NO_TIME))
    unfinished = {name: columns[name][never] for name in ("process", "device", "stream", "name_id")}
    finished = None
    if len(never):
        there = np.ones(len(columns["start"]), bool)
        there[never] = False
        finished = np.flatnonzero(there[:kernels])
        kernels = len(finished)
        columns = {name: column[there] for name, column in columns.items()}
    kind = np.repeat(np.array([KERNEL, COPY, SET], np.int8), [kernels, *others])
    kind[:kernels][_communication(trace, columns["name_id"][:kernels])] = COMMUNICATION
    return columns, unfinished, finished, kind


def _selected(trace: StoredTrace, whole: Everything, rows: Rows, cut: bool) -> Work:
    """The rows of all work that conditions select. Queues are those with rows before the end of the requested time."""
    work = whole.work
    keep = np.array([wanted(rows, queue) for queue in work.queues], bool)[work.queue]
    if rows.end is not None:
        keep &= work.start < rows.end
    if rows.name is not None:
        keep &= _named_rows(trace, whole, rows.name)
    used = np.flatnonzero(np.bincount(work.queue[keep], minlength=len(work.queues)))
    number = np.zeros(len(work.queues) + 1, work.queue.dtype)
    number[used] = np.arange(len(used))
    queues = tuple(work.queues[i] for i in used.tolist())
    begin, finish = _window(rows, work.start[keep], work.end[keep])
    backwards = int(keep[whole.reversed].sum())
    if rows.begin is not None:
        keep &= (work.start >= begin) | (cut & (work.end > begin))
    chosen = np.flatnonzero(keep)
    start, end = work.start[chosen], work.end[chosen]
    if cut:
        start, end = (np.clip(c, begin, max(finish, begin)) for c in (start, end))
    found = Work(start, end, work.kind[chosen], number[work.queue[chosen]], work.name_id[chosen], work.process[chosen],
                 work.correlation[chosen], work.stack[chosen], queues, begin, finish, _unfinished(trace, whole, rows),
                 backwards, chosen, _devices(queues))  # fmt: skip
    protect(found)
    return found


def wanted(rows: Rows, queue: Queue) -> bool:
    """Whether conditions select the work of a queue."""
    pairs = ((rows.processes, queue.process), (rows.devices, queue.device), (rows.streams, queue.stream))
    return all(not chosen or value in chosen for chosen, value in pairs)


def _named_rows(trace: StoredTrace, whole: Everything, pattern: str) -> Column:
    """Which rows have a name that matches: kernels by id, copies by their direction, and sets."""
    work = whole.work
    out = (work.kind <= COMMUNICATION) & np.isin(work.name_id, matching(trace, pattern))
    copies, source = whole.copies
    if len(copies):
        columns, texts = trace.columns("memcpy", {}, ["kind"])
        kinds = texts["kind"]
        fits = np.array([matches(trace, f"memcpy {kind}", pattern) for kind in kinds] + [False])
        out[copies] = fits[columns["kind"][source]]
    if (work.kind == SET).any() and matches(trace, "memset", pattern):
        out |= work.kind == SET
    return out


def matches(trace: StoredTrace, label: str, pattern: str) -> bool:
    """Whether SQL finds a pattern in a string. Every filter uses this kind of regular expression."""
    found = trace.sql("SELECT regexp_matches($label, $pattern)", label=label, pattern=pattern).fetchall()
    return bool(found[0][0])


def _unfinished(trace: StoredTrace, whole: Everything, rows: Rows) -> int:
    """Kernels without times that the conditions, except for the time, select."""
    found = whole.unfinished
    keep = np.ones(len(found["process"]), bool)
    for name, values in (("process", rows.processes), ("device", rows.devices), ("stream", rows.streams)):
        if values:
            keep &= np.isin(found[name], list(values))
    if rows.name is not None:
        keep &= np.isin(found["name_id"], matching(trace, rows.name))
    return int(keep.sum())


def _devices(queues: Sequence[Queue]) -> dict[int | None, list[int]]:
    devices: dict[int | None, list[int]] = {}
    for i in sorted(range(len(queues)), key=lambda i: (queues[i].device is None, queues[i].device or 0)):
        devices.setdefault(queues[i].device, []).append(i)
    return devices


def protect(found: object) -> None:
    """Make an object's columns read-only, because they are shared."""
    for column in vars(found).values():
        if isinstance(column, np.ndarray):
            column.flags.writeable = False


def summed(group: Column, values: Column, groups: int) -> Column:
    """The sum of the values (not below 0) of each group, exact; groups are numbers from 0 to `groups` - 1."""
    out: Column = np.zeros(groups, np.int64)
    if int(values.max(initial=0)) * len(values) >= 1 << 53:
        np.add.at(out, group, values)
        return out
    # Floats are exact then, and much quicker.
    for block in blocks(len(values)) if groups <= _FEW_SUMS else (slice(None),):
        out += np.bincount(group[block], values[block], groups).astype(np.int64)
    return out


def split(group: Column, groups: int) -> list[Column]:
    """The indices of each group's rows, in their order; groups are numbers from 0 to `groups` - 1."""
    if groups == 1:
        return [np.arange(len(group))]
    if groups <= _FEW:
        return [np.flatnonzero(group == number) for number in range(groups)]
    small = group.astype(np.int16) if groups < 32_768 else group
    order = np.argsort(small, kind="stable")
    return np.split(order, np.searchsorted(small[order], np.arange(1, groups))) if groups else []


def _small(parts: list[Column], rows: int) -> list[Column]:
    """Indices of rows, in 32 bits if that is enough, because they are kept as long as the work."""
    return [part.astype(np.int32) for part in parts] if rows < 1 << 31 else parts


def by_group(group: Column, time: Column) -> Column:
    """The stable order by (group, time); fast for rows already in that order within each group. Groups are numbers from 0."""
    small = np.int32 if len(time) < 1 << 31 else np.int64
    parts = [np.zeros(0, small)]
    for rows in split(group, int(group.max(initial=-1)) + 1):
        moments = time[rows]
        own = rows if intervals.ascending(moments) else rows[np.argsort(moments, kind="stable")]
        parts.append(own.astype(small))
    return np.concatenate(parts)


def numbered(columns: Sequence[Column]) -> tuple[Column, list[Column]]:
    """Number of each distinct row of some integer columns, from 0 in their order, and the distinct rows' columns."""
    rows = len(columns[0])
    span, limit = 1, 4 * rows + 1024
    code = np.zeros(rows, np.int32)
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
        span *= width
        code = code.astype(np.int32 if span < 1 << 31 else np.int64, copy=False)
        for block in blocks(rows):
            part = code[block]
            part *= width
            np.add(part, np.subtract(column[block], low, dtype=np.int64), out=part, casting="unsafe")
    values, code = distinct(code)
    first = np.zeros(len(values), np.int64)
    for block in reversed(blocks(rows)):
        part = code[block]
        first[part[::-1]] = np.arange(block.start + len(part) - 1, block.start - 1, -1)
    return code, [c[first] for c in columns]


def blocks(rows: int) -> list[slice]:
    """Split rows into pieces whose intermediate results fit the processor's cache."""
    return [slice(first, first + 65_536) for first in range(0, rows, 65_536)]


def distinct(column: Column) -> tuple[Column, Column]:
    """Like numpy.unique with inverse, but without a sort if the values are close together."""
    if not len(column):
        return column, np.empty(0, np.int32)
    low, high = int(column.min()), int(column.max())
    if low == high:
        return column[:1], np.zeros(len(column), np.int32)
    if high - low > 4 * len(column) + 1024:
        values, place = np.unique(column, return_inverse=True)
        return values, place.astype(np.int32)
    there = _occurring(column, low, high)
    out = np.empty(len(column), np.int32)
    number = np.cumsum(there, dtype=np.int32) - np.int32(1)
    for block in blocks(len(column)):
        number.take(np.subtract(column[block], low, dtype=np.int64), out=out[block], mode="clip")
    return np.flatnonzero(there) + low, out


def values_in(column: Column) -> Column:
    """The distinct values of a column of integers, ascending; like :func:`distinct` without the places, in half the time."""
    if not len(column):
        return column
    low, high = int(column.min()), int(column.max())
    if low == high:
        return column[:1]
    if high - low > 4 * len(column) + 1024:
        return np.unique(column)
    return np.flatnonzero(_occurring(column, low, high)) + low


def _occurring(column: Column, low: int, high: int) -> Column:
    """Which of the integers from `low` to `high` occur in a column."""
    there = np.zeros(high - low + 1, bool)
    for block in blocks(len(column)):
        there[np.subtract(column[block], low, dtype=np.int64)] = True
    return there


def matching(trace: StoredTrace, pattern: str) -> list[int]:
    """Ids of the kernel names that a regular expression matches: names are matched once each, not once per row."""
    sql = "SELECT id FROM name WHERE regexp_matches(name, $pattern) OR regexp_matches(demangled, $pattern)"
    return [int(number) for (number,) in trace.sql(sql, pattern=pattern).fetchall()]


def directions(trace: StoredTrace, work: Work, rows: Column) -> tuple[list[str], Column]:
    """Names of copies and fills (`Memcpy HtoD`, `Memset`), and for each of these rows the place of its name."""
    names, code = ["Memset"], np.zeros(len(rows), np.int64)
    moved = np.flatnonzero(work.kind[rows] == COPY)
    if len(moved):
        columns, texts = trace.columns("memcpy", {}, ["kind"])
        code[moved] = columns["kind"][table_rows(trace, work, rows[moved])] + 2
        names += ["Memcpy", *(f"Memcpy {kind}" for kind in texts["kind"])]
    return names, code


def table_rows(trace: StoredTrace, work: Work, rows: Column) -> Column:
    """For rows of work that are all copies, or all sets, the row of their table that each is."""
    whole = everything(trace)
    among, source = whole.sets if len(rows) and work.kind[rows[0]] == SET else whole.copies
    place = rows if work.source is None else work.source[rows]
    out: Column = source[np.searchsorted(among, place)]
    return out


def named(trace: StoredTrace, pattern: str | None) -> str:
    """The condition that a kernel's name matches, as a list of ids."""
    if pattern is None:
        return ""
    ids = ", ".join(map(str, matching(trace, pattern)))
    return f" AND name_id IN ({ids or 'NULL'})"


def _communication(trace: StoredTrace, name_id: Column) -> Column:
    """Whether each kernel is a communication kernel; every name is looked at once."""
    names = trace.rows("name", "id", "name", "demangled")
    flags = np.zeros(max(int(name_id.max(initial=0)), max((row[0] for row in names), default=0)) + 1, bool)
    for number, *texts in names:
        flags[number] = any(collective_names.parse(text) for text in texts)
    return flags[name_id]


def _queues(trace: StoredTrace, columns: Sequence[Column]) -> tuple[Column, tuple[Queue, ...]]:
    """The number of each row's queue, and the queues, of the columns process, device, context and stream."""
    code, distinct = numbered(columns)
    names = {
        (p, c, s): name
        for p, c, s, name in trace.rows("stream", "process", "context", "stream", "name")
        if name
    }
    keys = zip(*(c.tolist() for c in distinct), strict=True)
    found = tuple(Queue(p, None if d < 0 else d, c, s, names.get((p, c, s))) for p, d, c, s in keys)
    return code.astype(np.int16) if len(found) < 1 << 15 else code, found


def _window(rows: Rows, start: Column, end: Column) -> tuple[int, int]:
    begin = rows.begin if rows.begin is not None else int(start.min()) if len(start) else rows.end or 0
    finish = rows.end if rows.end is not None else int(end.max()) if len(end) else begin
    return begin, finish
