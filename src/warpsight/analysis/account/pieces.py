"""Idle stretches cut into pieces, each with the class it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account import calls_held
from warpsight.analysis.account.calls_held import HeldTime
from warpsight.analysis.account.classes import (
    BLOCKED_CALL,
    HOST,
    LAUNCH,
    OTHER_STREAM,
    RECORDER,
    UNKNOWN,
)
from warpsight.analysis.account.copies import migrations
from warpsight.analysis.account.gaps import Gaps
from warpsight.model import intervals
from warpsight.model import waits as model_waits
from warpsight.model.calls import Calls
from warpsight.model.naming import api_names
from warpsight.model.work import Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Name of idle time without a call: before work of a program that was already running when the trace began, and before the
#: driver's own copies.
NO_CALL = "work whose launch is not in the trace"
#: Prefix of the names of idle time after a returned launch; the launching function follows.
AFTER = "after "
MIGRATION = "migrations of managed memory, which no call launches"
#: Name of idle time in which the stream of the next work is recorded as waiting, by a profiler that times waits on the device.
SEEN_WAIT = "waits of streams"
#: Name of the time taken by the recorder's callbacks, sampled in the recording, including CUPTI's part.
CALLBACKS = "the recorder's work in GPU calls and ranges"


@dataclass(frozen=True)
class Pieces:
    """Pieces of idle stretches as columns (ns).

    Attributes:
        gap: Place of the stretch in :class:`~warpsight.analysis.account.gaps.Gaps`.
        kind: Place of the class in :data:`~warpsight.analysis.account.classes.CLASSES`.
        name: Index into `names`.
    """

    gap: Column
    begin: Column
    end: Column
    kind: Column
    name: Column
    names: list[str]
    _held: dict[int, tuple[Column, Column]] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.gap)

    @property
    def length(self) -> Column:
        """Length of each piece in ns. Computed on each access, because caching it would take as much memory as the pieces."""
        out: Column = self.end - self.begin
        return out

    def length_of(self, rows: Column) -> Column:
        """Length of some pieces, ns."""
        out: Column = self.end[rows] - self.begin[rows]
        return out

    def held(self, kind: int) -> tuple[Column, Column]:
        """Indices and lengths (ns) of the pieces of a class; the last requested class is cached."""
        found = self._held.get(kind)
        if found is None:
            mine = self.of(kind)
            found = mine, self.length_of(mine)
            self._held.clear()
            self._held[kind] = found
        return found

    def of(self, *kinds: int) -> Column:
        """Indices of the pieces of some classes."""
        chosen = np.zeros(len(self), bool)
        for kind in kinds:
            chosen |= self.kind == kind
        return np.flatnonzero(chosen)


def cut(trace: StoredTrace, work: Work, calls: Calls, gaps: Gaps) -> Pieces:
    """Cut all idle time into pieces by class. Host pieces get their names later, all at once."""
    names = [*calls.functions, "", NO_CALL, MIGRATION]
    small = np.int32 if len(gaps) < 1 << 31 else np.int64
    known = np.flatnonzero(gaps.known).astype(small)
    before = _of_the_thread(trace, work, calls, gaps, known, names)
    after = [_afterwards(trace, work, calls, gaps, known, names)]
    lost = np.flatnonzero(~gaps.known)
    unlaunched = np.where(
        migrations(trace, work, gaps.row[lost]), names.index(MIGRATION), names.index(NO_CALL)
    )
    after.append((lost, gaps.begin[lost], gaps.end[lost], np.full(len(lost), UNKNOWN, np.int8), unlaunched))
    parts = [*before, *_seen_waits(trace, work, calls, gaps, after, names)]
    del before, after
    for place, part in enumerate(parts):
        real = np.flatnonzero(part[2] > part[1])
        if len(real) < len(part[2]):
            parts[place] = tuple(column[real] for column in part)
    del part
    kinds = iter((small, np.int64, np.int64, np.int8, np.int32))
    columns = list(zip(*parts, strict=True))
    del parts
    joined = []
    while columns:  # one at a time: both forms of all columns are twice the memory
        joined.append(np.concatenate(columns.pop(0)).astype(next(kinds), copy=False))
    gap, begin, end, kind, name = joined
    return Pieces(gap, begin, end, kind, name, names)


def _of_the_thread(
    trace: StoredTrace, work: Work, calls: Calls, gaps: Gaps, known: Column, names: list[str]
) -> list[tuple[Column, ...]]:
    """From the moment the device becomes idle to the call's return, by what the launching thread was doing.

    The recorder's own work comes first, then the call itself, then calls that hold the host; the rest is the host's own code.
    """
    rows = known[gaps.returned[known] > gaps.begin[known]]
    if not len(rows):
        return []
    call = gaps.call[rows]
    process, thread = calls.process[call], calls.thread[call]
    on = calls_held.axis(process, thread, int(gaps.begin[rows].min()), int(gaps.returned[rows].max()))
    number = on.number(process, thread)
    begin, issued, returned = (
        on.at(number, moment) for moment in (gaps.begin[rows], gaps.issued(calls, rows), gaps.returned[rows])
    )
    recorders = calls_held.recorder_work(trace, on)
    inside, in_call = _split((rows, issued, returned), recorders)
    before, left = _split((rows, begin, issued), recorders)
    blocking = calls_held.blocking_calls(trace, work, calls, on)
    blocked, left = _split(left, blocking)
    own = calls_held.own_time(trace, calls, on)
    ends = np.sort(np.concatenate([blocking.end, returned])) if len(own[0]) else blocking.end
    callbacks, left = _callbacks(left, ends, own, on.width, len(recorders.names))
    late, in_call = _callbacks(in_call, ends, own, on.width, len(recorders.names), callbacks)
    recorded = [np.concatenate(pieces) for pieces in zip(inside, before, callbacks, late, strict=True)]
    recorder = np.array([_numbered(names, text) for text in (*recorders.names, CALLBACKS)], np.int64)
    waits = np.array([_numbered(names, text) for text in calls_held.names(calls)] or [0], np.int64)
    unnamed = np.full(len(left[0]), names.index(""))
    function = calls.function[gaps.call[in_call[0]]].astype(np.int64)
    out: list[tuple[Column, ...]] = []
    for gap, start, stop, name, kind in (
        (*recorded[:3], recorder[recorded[3]], RECORDER),
        (*in_call, function, LAUNCH),
        (*blocked[:3], waits[blocked[3]], BLOCKED_CALL),
        (*left, unnamed, HOST),
    ):
        where = start // on.width * on.width - on.origin
        out.append((gap, start - where, stop - where, np.full(len(gap), kind, np.int8), name))
    return out


def _callbacks(
    pieces: tuple[Column, Column, Column],
    ends: Column,
    own: tuple[Column, Column],
    width: int,
    name: int,
    already: tuple[Column, Column, Column, Column] | None = None,
) -> tuple[tuple[Column, Column, Column, Column], tuple[Column, Column, Column]]:
    """The parts of pieces spent in the recorder's callbacks, cut off at their start, and the remainder.

        the device  ████████|                    gap                    |███
        the host  ──┬─ call ─┬┬─ host ──┬┬─ host ──┬┬─ call ─┬─ latency ─
                  since     callbacks  callbacks   callbacks

    A gap is longer by all that the recorder did since the host has been on its way to the call that ends the gap, also while the
    device still worked. It is on its way since the last of `ends` before the piece: ends of calls that held the host, and of
    calls that ended an earlier gap; where its thread (a stretch of `width`) has none, since the piece begins. `own` is when the
    callbacks ran and for how long (ns), `already` what was cut off pieces before these of the same gaps.
    """
    gap, begin, end = pieces
    at, took = own
    if not len(at) or not len(ends):  # nothing of it was recorded
        return (gap[:0], begin[:0], begin[:0], gap[:0]), pieces
    place = np.searchsorted(ends, begin, "right") - 1
    last = ends[np.maximum(place, 0)]
    since = np.where((place >= 0) & (last // width == begin // width), last, begin)
    total = np.concatenate([np.zeros(1), np.cumsum(took)])
    inside = total[np.searchsorted(at, end, "left")] - total[np.searchsorted(at, since, "left")]
    if already is not None and len(gap):
        order = np.argsort(gap)
        mine = order[np.minimum(np.searchsorted(gap, already[0], sorter=order), len(gap) - 1)]
        counts = (gap[mine] == already[0]) & (already[1] >= since[mine])
        inside -= np.bincount(mine[counts], (already[2] - already[1])[counts], len(gap))
    cut = np.clip(begin + np.rint(inside).astype(np.int64), begin, end)
    return (gap, begin, cut, np.full(len(gap), name)), (gap, cut, end)


def _numbered(names: list[str], text: str) -> int:
    if text not in names:
        names.append(text)
    return names.index(text)


def _split(
    pieces: tuple[Column, Column, Column], held: HeldTime
) -> tuple[tuple[Column, Column, Column, Column], tuple[Column, Column, Column]]:
    """The parts of pieces (gap, begin, end) that held stretches cover, with the stretch's name, and the parts that are left.

    Pieces may overlap each other, as those of two devices that one thread feeds do; held stretches may not.
    """
    gap, begin, end = pieces
    first = np.searchsorted(held.end, begin, "right")
    count = np.maximum(np.searchsorted(held.start, end, "left") - first, 0)
    mine = np.repeat(np.arange(len(gap)), count)
    nth = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count)
    theirs = nth + first[mine]
    start, stop = np.maximum(begin[mine], held.start[theirs]), np.minimum(end[mine], held.end[theirs])
    covered = (gap[mine], start, stop, held.name[theirs])
    # The rest of a piece: before its first covered part, between two parts, and after the last.
    touched = np.flatnonzero(count)
    whose = np.concatenate([mine, touched])
    order = np.argsort(whose, kind="stable")
    whose, until = whose[order], np.concatenate([start, end[touched]])[order]
    then = np.concatenate([stop, end[touched]])[order]
    fresh = np.append(True, whose[1:] != whose[:-1])[: len(whose)]
    since = np.where(fresh, begin[whose], np.concatenate([then[:1], then[:-1]]))
    real = until > since
    whole = np.flatnonzero((count == 0) & (end > begin))
    if not real.any():
        return covered, (gap[whole], begin[whole], end[whole])
    whose, since, until = whose[real], since[real], until[real]
    at = np.searchsorted(whole, whose)
    left_gap = np.insert(gap[whole], at, gap[whose])
    return covered, (left_gap, np.insert(begin[whole], at, since), np.insert(end[whole], at, until))


def _afterwards(
    trace: StoredTrace, work: Work, calls: Calls, gaps: Gaps, known: Column, names: list[str]
) -> tuple[Column, ...]:
    """From the call's return to the start of the work: latency up to the usual length, beyond that waiting for something."""
    rows = known[gaps.end[known] > gaps.returned[known]]
    took = gaps.end[rows] - gaps.returned[rows]
    kind = np.full(len(rows), LAUNCH, np.int8)
    name = calls.function[gaps.call[rows]].astype(np.int32)
    late = np.flatnonzero(took > gaps.limit[name])
    if len(late):
        function = _stream_wait(trace, work, calls, gaps.row[rows[late]], gaps.call[rows[late]])
        waited = function >= 0
        kind[late] = np.where(waited, OTHER_STREAM, UNKNOWN)
        after = np.array([_numbered(names, AFTER + text) for text in calls.functions], np.int64)
        name[late] = np.where(waited, function, after[name[late]])
    begin, end = gaps.returned[rows], gaps.end[rows]
    later = calls_held.stamping_time(trace)
    if not later:
        return rows, begin, end, kind, name
    # The device's clock is read around each kernel that a recorder asks for.
    stamped = np.minimum(begin + later, end)
    own = np.full(len(rows), _numbered(names, CALLBACKS))
    recorder = np.full(len(rows), RECORDER, np.int8)
    columns = (rows, rows), (begin, stamped), (stamped, end), (recorder, kind), (own, name)
    return tuple(np.concatenate(pair) for pair in columns)


def _seen_waits(
    trace: StoredTrace,
    work: Work,
    calls: Calls,
    gaps: Gaps,
    parts: list[tuple[Column, ...]],
    names: list[str],
) -> list[tuple[Column, ...]]:
    """Cut pieces without a cause at the waits in which the stream of the next work was seen.

        stream 3  ████|        |-- waits for stream 7 --|  |████
                  unknown      other_stream             unknown

    The times of such a wait are the device's. Other waits have only the times of their calls, which say nothing about these.
    """
    if not any(bool((part[3] == UNKNOWN).any()) for part in parts):
        return parts
    waits = model_waits.load(trace)
    mine = waits.of_streams
    mine = mine[(waits.queue[mine] >= 0) & (waits.end[mine] > waits.start[mine])]
    issued = waits.call[mine]
    if (issued >= 0).any():
        mine = mine[(issued < 0) | (waits.start[mine] >= calls.end[issued])]
    place = {queue: number for number, queue in enumerate(work.queues)}
    queue = np.array([*(place.get(one, -1) for one in waits.queues), -1], np.int64)[waits.queue[mine]]
    mine, queue = mine[queue >= 0], queue[queue >= 0]
    if not len(mine) or not len(gaps):
        return parts
    on = calls_held.axis(np.zeros_like(queue), queue, int(gaps.begin.min()), int(gaps.end.max()))
    number = on.number(np.zeros_like(queue), queue)
    covered = intervals.union(on.at(number, waits.start[mine]), on.at(number, waits.end[mine]))
    seen = HeldTime(
        covered.start, covered.end, np.full(len(covered.start), _numbered(names, SEEN_WAIT)), names
    )
    out: list[tuple[Column, ...]] = []
    for part in parts:
        gap, begin, end, kind, name = part
        unknown = np.flatnonzero(kind == UNKNOWN)
        waiting = work.queue[gaps.row[gap[unknown]]]
        number = on.number(np.zeros_like(waiting), waiting)
        on_queue = (number >= 0) & (end[unknown] > begin[unknown])
        open_, number = unknown[on_queue], number[on_queue]
        if not len(open_):
            out.append(part)
            continue
        shift = on.at(number, begin[open_]) - begin[open_]
        found, left = _split((open_, begin[open_] + shift, end[open_] + shift), seen)
        back = np.zeros(len(gap), np.int64)
        back[open_] = shift
        closed = np.delete(np.arange(len(gap)), open_)
        kinds: Column = np.full(len(found[0]), OTHER_STREAM, np.int8)
        out.append(tuple(np.concatenate(columns) for columns in zip(
            (gap[closed], begin[closed], end[closed], kind[closed], name[closed]),
            (gap[found[0]], found[1] - back[found[0]], found[2] - back[found[0]], kinds, found[3]),
            (gap[left[0]], left[1] - back[left[0]], left[2] - back[left[0]], kind[left[0]], name[left[0]]),
            strict=True,
        )))  # fmt: skip
    return out


def _stream_wait(trace: StoredTrace, work: Work, calls: Calls, row: Column, call: Column) -> Column:
    """The function by which the stream of each row was made to wait since the work before it was launched, -1 none.

    A wait counts when it was issued after the call of the stream's previous work and before the row's own call: for the row's
    stream, or, where the trace does not have the wait's stream, by the launching thread.
    """
    index = np.flatnonzero(
        np.array([api_names.makes_stream_wait(f) for f in calls.functions], bool)[calls.function]
    )
    out = np.full(len(row), -1, np.int64)
    if not len(index):
        return out
    stream = _streams_of_waits(trace, calls, index)
    previous = _previous_issue(work, calls, row)
    order = np.argsort(calls.start[index], kind="stable")
    index, stream = index[order], stream[order]
    times = calls.start[index]
    low = np.searchsorted(times, previous, "left")
    high = np.searchsorted(times, calls.start[call], "right")
    wanted = np.array([queue.stream for queue in work.queues], np.int64)[work.queue[row]]
    for place in range(len(row)):  # only stretches longer than latency come here
        near = index[low[place] : high[place]]
        known = stream[low[place] : high[place]]
        fits = (calls.process[near] == calls.process[call[place]]) & (
            (known == wanted[place]) | ((known == _ANY) & (calls.thread[near] == calls.thread[call[place]]))
        )
        if fits.any():
            out[place] = calls.function[near[np.flatnonzero(fits)[-1]]]
    return out


#: Placeholder for an unknown stream.
_ANY = np.iinfo(np.int64).min


def _streams_of_waits(trace: StoredTrace, calls: Calls, index: Column) -> Column:
    """The stream that each stream-wait call names, where table sync has it."""
    out = np.full(len(index), _ANY, np.int64)
    waits = model_waits.load(trace)
    mine = waits.of_streams
    mine = mine[(waits.call[mine] >= 0) & (waits.queue[mine] >= 0)]
    place = np.full(len(calls), -1, np.int64)
    place[index] = np.arange(len(index))
    mine = mine[place[waits.call[mine]] >= 0]
    streams = np.array([queue.stream for queue in waits.queues] or [0], np.int64)
    out[place[waits.call[mine]]] = streams[waits.queue[mine]]
    return out


def _previous_issue(work: Work, calls: Calls, row: Column) -> Column:
    """When the work before each row on its stream was issued; long ago where there is none or its call is not known."""
    queue = work.queue[row]
    out = np.full(len(row), np.iinfo(np.int64).min, np.int64)
    call = work.calls[True]
    for number, rows in enumerate(work.per_queue()):
        mine = np.flatnonzero(queue == number)
        if not len(mine):
            continue
        place = np.searchsorted(rows[1], row[mine]) - 1
        before = rows[1][np.maximum(place, 0)]
        good = (place >= 0) & (call[before] >= 0)
        out[mine[good]] = calls.start[call[before[good]]]
    return out
