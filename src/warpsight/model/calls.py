"""Host calls that made device work: which call each kernel, copy or set came from, by (process, correlation)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model import intervals, work
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace
    from warpsight.model.work import Work

Column = NDArray[Any]
#: Rows of table sync of this kind make a stream wait, not the host.
STREAM_WAIT = "stream wait event"
#: Placeholder for the duration of a call that had not returned.
NO_DURATION = np.iinfo(np.int64).min
_ALL = Rows()


@dataclass(frozen=True)
class Calls:
    """Calls as columns (ns): all rows of table launch, then all of table api where it was requested.

    `end` is the last moment of the trace's calls and device work for calls that had not returned (`unreturned` lists them);
    `correlation` and `thread` are as recorded, -1 and 0 where unknown; `function` indexes `functions`.
    """

    start: Column
    end: Column
    thread: Column
    process: Column
    correlation: Column
    stack: Column
    function: Column
    functions: list[str]
    unreturned: Column
    launches: int

    def __len__(self) -> int:
        return len(self.start)

    #: What :meth:`of` found out about each process's correlations, kept for the next time.
    places: dict[int, _KeyPlaces] = field(default_factory=dict, repr=False, compare=False)

    def of(self, process: Column, correlation: Column) -> Column:
        """For each (process, correlation) the index of its call, or -1."""
        return _found(process, correlation, self._processes, self.process, self.correlation, self.places)

    @cached_property
    def _processes(self) -> list[int]:
        return _processes(self.process)


_NUMBERS = {"start": 0, "duration": NO_DURATION, "thread": 0, "process": 0, "correlation": -1, "stack": 0}


def load(trace: StoredTrace, *, api: bool = False) -> Calls:
    """The launch calls of a trace, and with `api` the other calls; kept while the trace is open, and read-only."""
    if api:
        return trace.kept.get("calls", lambda: _all(trace))
    return trace.kept.get("launch calls", lambda: _launches(load(trace, api=True)))


@dataclass(frozen=True)
class ByThread:
    """Calls in order of thread and start; at equal starts those of table api come first.

    Attributes:
        call: Index of the call at each place.
        thread: Number of the thread at each place, ascending.
        threads: Process and thread id of each number.
    """

    call: Column
    thread: Column
    threads: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.call)

    @property
    def edges(self) -> Column:
        """The first call of each thread, and the end of the last."""
        return np.searchsorted(self.thread, np.arange(len(self.threads) + 1, dtype=self.thread.dtype))

    def places(self, calls: int) -> Column:
        """The place of each call, -1 for others; `calls` is the number of all calls."""
        out = np.full(calls, -1, self.call.dtype)
        out[self.call] = np.arange(len(self.call), dtype=self.call.dtype)
        return out


def by_thread(trace: StoredTrace, rows: Rows = _ALL) -> ByThread:
    """The calls that began in the requested time, of the requested processes; kept while the trace is open."""
    key = Rows(rows.begin, rows.end, processes=rows.processes).key()
    return trace.kept.get(("calls by thread", key), lambda: _by_thread(load(trace, api=True), rows))


def _by_thread(found: Calls, rows: Rows) -> ByThread:
    index = None
    process, thread = found.process, found.thread
    if rows != _ALL:
        keep = np.ones(len(found), bool)
        if rows.begin is not None:
            keep &= found.start >= rows.begin
        if rows.end is not None:
            keep &= found.start < rows.end
        if rows.processes:
            keep &= np.isin(found.process, list(rows.processes))
        index = np.flatnonzero(keep)
        process, thread = process[index], thread[index]
    small = np.int32 if len(found) < 1 << 31 else np.int64
    number, distinct = work.numbered([process, thread])
    threads = tuple(zip(*(column.tolist() for column in distinct), strict=True)) if len(number) else ()
    parts: list[Column] = [np.zeros(0, small)]
    for own in work.split(number, len(threads)):
        mine = own if index is None else index[own]
        launches = np.searchsorted(mine, found.launches)
        mine = np.concatenate([mine[launches:], mine[:launches]], dtype=small, casting="same_kind")
        if not intervals.ascending(moments := found.start[mine]):
            mine = mine[np.argsort(moments, kind="stable")]
        parts.append(mine)
    counts = [len(part) for part in parts[1:]]
    kind = np.int16 if len(threads) < (1 << 15) - 1 else np.int32
    return ByThread(np.concatenate(parts), np.repeat(np.arange(len(threads), dtype=kind), counts), threads)


def of_work(trace: StoredTrace, rows: Work, *, api: bool = False) -> tuple[Calls, Column]:
    """The calls, and for each row of work the index of its call or -1. Cached for as long as the work."""
    issued = load(trace, api=api)
    with rows.lock:
        if api not in rows.calls:
            found = issued.of(rows.process, rows.correlation)
            found.flags.writeable = False
            rows.calls[api] = found
    return issued, rows.calls[api]


def _all(trace: StoredTrace) -> Calls:
    columns, texts = trace.columns(("launch", "api"), _NUMBERS, ["function"], narrow=["correlation"])
    functions, count = texts["function"] or ["?"], trace.count("launch")
    duration = columns.pop("duration")
    unreturned = np.flatnonzero(duration == NO_DURATION)
    end = np.maximum(duration, 0, out=duration)
    end += columns["start"]
    if len(unreturned):
        end[unreturned] = max(int(end.max()), int(work.everything(trace).work.end.max(initial=0)))
    kind = np.int16 if len(functions) < 1 << 15 else np.int32
    found = Calls(columns["start"], end, columns["thread"], columns["process"], columns["correlation"], columns["stack"],
                  columns["function"].astype(kind), functions, unreturned, count)  # fmt: skip
    work.protect(found)
    return found


def _launches(found: Calls) -> Calls:
    """The launches among all calls, which come first."""
    first = slice(0, found.launches)
    found = Calls(
        found.start[first], found.end[first], found.thread[first], found.process[first], found.correlation[first],
        found.stack[first], found.function[first], found.functions,
        found.unreturned[found.unreturned < found.launches], found.launches,
    )  # fmt: skip
    work.protect(found)
    return found


def joined(process: Column, key: Column, other_process: Column, other_key: Column) -> Column:
    """For each (process, key) the index of the first equal pair among the others, or -1.

    Keys below 0 match nothing. Correlations are dense, so a pair is found by its place in a table, not by hashing.
    """
    return _found(process, key, _processes(other_process), other_process, other_key, {})


class _KeyPlaces:
    """Where each key of a column is first: a table when the keys are close together, else the sorted keys."""

    def __init__(self, keys: Column, rows: Column | None) -> None:
        """Prepare `keys`; `rows` are their indices in the whole column, None: they are the whole column."""
        least, high = int(keys.min()), int(keys.max())
        self._low = max(least, 0)
        self._dense = high - self._low <= 8 * len(keys) + 4096
        if rows is None:
            rows = np.arange(len(keys), dtype=np.int32 if len(keys) < 1 << 31 else np.int64)
        if self._dense:
            if least < 0:
                real = keys >= 0
                keys, rows = keys[real], rows[real]
            self._table = np.full(max(high - self._low + 1, 0), -1, rows.dtype)
            self._table[(keys - self._low)[::-1]] = rows[::-1]  # of equal keys the first is written last
        else:
            order = np.argsort(keys, kind="stable")
            self._keys, self._rows = keys[order], rows[order]

    def __call__(self, wanted: Column) -> Column:
        """The index of the first row with each key, -1 none."""
        if self._dense:
            place, found = np.subtract(wanted, self._low, dtype=np.int64), self._table
            hit = (place >= 0) & (place < len(found))
        else:
            place, found = np.searchsorted(self._keys, wanted, "left"), self._rows
            np.minimum(place, len(self._keys) - 1, out=place)
            hit = (self._keys[place] == wanted) & (wanted >= 0)
        out: Column
        if hit.all():
            out = found[place]
            return out
        out = np.full(len(wanted), -1, found.dtype)
        out[hit] = found[place[hit]]
        return out


def _found(
    process: Column,
    key: Column,
    have: list[int],
    other_process: Column,
    other_key: Column,
    places: dict[int, _KeyPlaces],
) -> Column:
    out = np.full(len(key), -1, np.int32 if len(other_key) < 1 << 31 else np.int64)
    wanted = _processes(process)
    for number in wanted:
        if number not in have:
            continue
        if number not in places:
            rows = None
            if len(have) > 1:
                rows = np.flatnonzero(other_process == number).astype(out.dtype)
            places[number] = _KeyPlaces(other_key if rows is None else other_key[rows], rows)
        if len(wanted) == 1:
            return places[number](key)
        mine = np.flatnonzero(process == number)
        out[mine] = places[number](key[mine])
    return out


def _processes(column: Column) -> list[int]:
    found: list[int] = work.values_in(column).tolist()
    return found
