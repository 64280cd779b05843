"""The host's side of a dependency graph: the begins and ends of calls as points on the lines of their threads.

Points 2i and 2i + 1 are the start and the end of the call at place i of :class:`warpsight.model.calls.ByThread`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path.lines import NEVER, Lines
from warpsight.model.calls import ByThread, Calls
from warpsight.model.naming import api_names
from warpsight.model.waits import Waits
from warpsight.model.work import Queue, values_in

Column = npt.NDArray[Any]
#: A thread that was silent for less than this was not waiting for another thread (ns).
HANDOVER_SILENCE = 20_000
#: Calls that wait for the device implicitly; only work that ended during the call counts.
_IMPLICIT = re.compile(r"Free|DeviceReset")
_NOT_IMPLICIT = re.compile(r"Async|FreeArrayAsync|FreeNode")
#: A call this long (ns) waited if it returned this soon after the device's work, as a share of its length or in ns.
_LONG, _SOON, _WAKING = 500_000, 0.02, 100_000
#: Calls that wait explicitly, for files without wait records; those on one stream or event wait for one piece of work.
_SYNCHRONIZE, _ONE = re.compile(r"Synchronize$"), re.compile(r"(Stream|Event)Synchronize$")


def index_type(count: int) -> type[np.signedinteger[Any]]:
    """The narrowest integers that can index this many items: indices are half of a large graph."""
    return np.int32 if count < 1 << 31 else np.int64


@dataclass
class Points:
    """The points of calls on threads. `previous` is the point before each on its thread, -1 at the first.

    `sequence` has the points in the order of their threads, None where that is 0, 1, 2 and so on.
    """

    time: Column
    previous: Column
    sequence: Column | None = None

    def following(self) -> Callable[[Column], Column]:
        """A function from points to their successors on the threads, -1 at the last."""
        if self.sequence is not None:
            after = np.full(len(self.time), -1, self.previous.dtype)
            known = np.flatnonzero(self.previous >= 0)
            after[self.previous[known]] = known
            return after.__getitem__
        firsts = np.append(np.flatnonzero(self.previous < 0), len(self.time))  # one after another
        return lambda point: np.where(firsts[np.searchsorted(firsts, point + 1)] == point + 1, -1, point + 1)

    @classmethod
    def of(cls, start: Column, end: Column, thread: Column) -> Points:
        """Order the points of every thread, of calls in order of thread and start.

        Calls may be nested. An end that precedes its begin is moved to the begin.
        """
        count = len(start)
        time = np.empty(2 * count, np.int64)
        time[0::2] = start
        np.maximum(end, start, out=time[1::2])
        same = thread[1:] == thread[:-1]
        nested = bool((same & (time[1:-1:2] > time[2::2])).any())
        kind = index_type(2 * count)
        if not nested:  # already in order
            previous = np.arange(-1, 2 * count - 1, dtype=kind)
            previous[2 * np.flatnonzero(~same) + 2] = -1  # starts of the first calls of further threads
            return cls(time, previous)
        order = _nested_order(time, thread)
        owner = np.repeat(thread, 2)[order]
        linked = np.r_[False, owner[1:] == owner[:-1]]
        previous = np.full(2 * count, -1, kind)
        at = np.flatnonzero(linked)
        previous[order[at]] = order[at - 1]
        return cls(time, previous, order)


def _nested_order(time: Column, thread: Column) -> Column:
    """Points by thread and time; at equal times ends come before begins, but never before their own start."""
    rank = np.empty(len(time), np.int8)
    rank[0::2] = 1
    rank[1::2] = np.where(time[1::2] == time[0::2], 2, 0)
    return np.lexsort((np.arange(len(time)), rank, time, np.repeat(thread, 2)))


def handovers(by_thread: ByThread, points: Points) -> tuple[Column, Column]:
    """Begins of calls that another thread of the process made possible, and the point of that thread.

    Nothing records how threads wake each other, so this is inferred: a thread that had been silent goes on (or begins)
    right after the last point of another thread, outside its calls, and that thread is silent while this one makes its
    next calls. A call into an autograd engine, a queue or a pool looks like this.
    """
    none = np.zeros(0, np.int64)
    if len(by_thread.threads) < 2:
        return none, none
    time, previous, following = points.time, points.previous, points.following()
    before = previous[0::2]
    silent = time[0::2] - time[np.maximum(before, 0)]
    waiting = (before < 0) | (silent >= HANDOVER_SILENCE)
    if points.sequence is not None:  # inside of a call a thread waits for what that call does
        waiting &= ~_inside(by_thread, time)
    target = 2 * np.flatnonzero(waiting)
    target = target[np.argsort(time[target], kind="stable")]
    source = _last_of_others(by_thread, time, target)
    target, source = target[source >= 0], source[source >= 0]
    before = previous[target]
    first = before < 0
    later = first | (time[source] >= time[np.maximum(before, 0)])
    onward = target
    for _ in range(3):  # its end, the start and the end of its next call
        after = following(onward)
        onward = np.where(after >= 0, after, onward)
    resumes = following(source)
    quiet = (resumes < 0) | (time[np.maximum(resumes, 0)] >= time[onward])
    chosen = first | (later & quiet & (source % 2 == 1))
    return target[chosen], source[chosen]


def _inside(by_thread: ByThread, time: Column) -> Column:
    """Which calls are inside another call of their thread."""
    begin, end = time[0::2], time[1::2]
    # Threads follow each other: a later one begins beyond every moment of those before.
    beyond = by_thread.thread.astype(np.int64) * (int(end.max()) - int(begin.min()) + 1)
    reach = np.maximum.accumulate(end + beyond)
    found: Column = np.r_[False, reach[:-1] > (begin + beyond)[1:]]
    return found


def _last_of_others(by_thread: ByThread, time: Column, target: Column) -> Column:
    """For each point in time order, the latest point at or before it on the process's other threads; -1 if none."""
    owner = by_thread.thread[target >> 1]
    processes = np.array([process for process, _ in by_thread.threads])
    bounds = 2 * by_thread.edges
    out = np.full(len(target), -1, np.int64)
    best = np.full(len(target), NEVER, np.int64)
    for number, process in enumerate(processes.tolist()):
        if int((processes == process).sum()) < 2:
            continue
        mine = np.flatnonzero((processes[owner] == process) & (owner != number))
        a, b = bounds[number], bounds[number + 1]
        own = time[a:b]
        if not bool((own[1:] >= own[:-1]).all()):  # nested calls
            order = np.argsort(own, kind="stable")
            own = own[order]
        else:
            order = None
        at = np.searchsorted(own, time[target[mine]], side="right") - 1
        found = np.where(at >= 0, own[np.maximum(at, 0)], NEVER)
        place = np.maximum(at, 0) if order is None else order[np.maximum(at, 0)]
        better = (at >= 0) & (found > best[mine])
        best[mine[better]] = found[better]
        out[mine[better]] = a + place[better]
    return out


@dataclass
class HostWaits:
    """Device nodes that calls waited for: `call` is a position on the threads, `kind` an edge kind."""

    node: Column
    call: Column
    kind: Column
    #: Number of waits whose call is not in the trace, so that their thread is unknown.
    unplaced: int


def waits_of_streams(
    lines: Lines, queue: Column, call: Column, when: Column, kind: int
) -> list[tuple[Column, Column, Column]]:
    """The waits that concern a single stream."""
    out = []
    for one in values_in(queue).tolist():
        mine = np.flatnonzero(queue == one)
        out.append((lines.before(one, when[mine]), call[mine], np.full(len(mine), kind, np.int8)))
    return out


def waits_of_contexts(
    lines: Lines,
    queues: tuple[Queue, ...],
    waits: Waits,
    chosen: Column,
    call: Column,
    when: Column,
    kind: int,
) -> list[tuple[Column, Column, Column]]:
    """The waits for everything in a context: the latest work of each stream, once until the stream has newer work.

    A context that no stream belongs to stands for its whole process: not every source has contexts.
    """
    out = []
    known = {(queue.process, queue.context) for queue in queues}
    process, context = waits.process[chosen], waits.context[chosen]
    for one in sorted(set(zip(process.tolist(), context.tolist(), strict=True))):
        mine = np.flatnonzero((process == one[0]) & (context == one[1]))
        mine = mine[np.argsort(when[mine], kind="stable")]
        for number in lines.queues:
            queue = queues[number]
            if (queue.process, queue.context) != one and (one in known or queue.process != one[0]):
                continue
            node = lines.before(number, when[mine])
            new = np.r_[True, node[1:] != node[:-1]]
            out.append((np.where(new, node, -1), call[mine], np.full(len(mine), kind, np.int8)))
    return out


def implicit_waits(
    lines: Lines,
    queues: tuple[Queue, ...],
    calls: Calls,
    by_thread: ByThread,
    end: Column,
    kind: int,
    listed: Column,
) -> list[tuple[Column, Column, Column]]:
    """Implicit waits: device work that ended during calls for which no wait is recorded.

    Calls like cudaFree wait, and so do synchronizing calls whose wait is not `listed`. Any other long call counts as a wait if it
    returned as soon as all work launched before it had ended, as loading code does.
    """
    implicit = np.array([waits_implicitly(name) for name in calls.functions], bool)
    synchronizes = np.array([_SYNCHRONIZE.search(name) is not None for name in calls.functions], bool)
    one = np.array([_ONE.search(name) is not None for name in calls.functions], bool)
    gpu = np.array([api_names.is_gpu_api(name) for name in calls.functions], bool)
    function = calls.function[by_thread.call]
    length = (calls.end - calls.start)[by_thread.call]
    told = np.zeros(len(function), bool)
    told[listed[listed >= 0]] = True
    sure = implicit[function] | (synchronizes[function] & ~told)
    at = np.flatnonzero(sure | ((length >= _LONG) & gpu[function] & ~told))
    if not len(at) or not lines.queues:
        return []
    out = []
    call = by_thread.call[at]
    last_end = np.full(len(at), NEVER, np.int64)
    for number in lines.queues:
        of_process = np.flatnonzero(calls.process[call] == queues[number].process)
        row = call[of_process]
        node = lines.before(number, calls.start[row])
        ended = np.where(node >= 0, end[np.maximum(node, 0)], NEVER)
        last_end[of_process] = np.maximum(last_end[of_process], ended)
        good = (ended > calls.start[row]) & (ended <= calls.end[row])
        out.append((node[good], of_process[good]))
    rest = calls.end[call] - last_end
    waited = sure[at] | ((rest >= 0) & (rest <= np.minimum(_SOON * length[at], _WAKING)))
    node, place = (np.concatenate(column) for column in zip(*out, strict=True))
    node, place = node[waited[place]], at[place[waited[place]]]
    order = np.lexsort((end[node], place))
    last = np.r_[place[order][1:] != place[order][:-1], True] if len(order) else np.zeros(0, bool)
    kept = order[last | ~one[function[place[order]]]]
    return [(node[kept], place[kept], np.full(len(kept), kind, np.int8))]


def waits_implicitly(function: str) -> bool:
    """Whether a function waits for the device before doing its work."""
    found = _IMPLICIT.search(function) is not None and _NOT_IMPLICIT.search(function) is None
    return found and api_names.is_gpu_api(function)
