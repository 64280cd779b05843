"""Makes a program from a recording: the times between its events, and the part that nothing explains.

What something waited for last (its *binding* dependency) gets the time that was recorded in between; everything else it waited
for gets the usual time. What is far longer than usual is kept as a delay of its own, whatever comes last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path import dependencies as path
from warpsight.analysis.path.dependencies import DependencyGraph
from warpsight.analysis.retime import engines, meetings, polls, queue, usual, waiting
from warpsight.analysis.retime.program import Links, Meetings, Program
from warpsight.model.naming.api_names import is_gpu_api
from warpsight.model.selection import Rows
from warpsight.model.work import values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_ALL = Rows()
_NEVER = np.iinfo(np.int64).min // 4
#: Defaults if a trace shows none (ns): from a launch call's end to its kernel, between two pieces of work on a stream.
_LATENCY, _GAP = 5_000, 1_000
_BETWEEN_NODES = (path.EVENT, path.DEFAULT, path.GRAPH, path.LISTED)


def build(trace: StoredTrace, rows: Rows = _ALL, host_rows: Rows | None = None) -> Program:
    """The program of some rows; solved as it is, it gives the recorded times.

    `host_rows` chooses calls if their window differs from that of the device work.
    """
    graph = path.build(trace, rows, host_rows=host_rows)
    program = _Building(graph).made()
    program = waiting.with_waits(program)
    program = polls.with_polls(program)
    program = meetings.with_meetings(program)
    program = engines.with_copy_engines(trace, program)
    return queue.with_launch_queue(program, queue.marked(trace, program))


class _Building:
    """The device's side: launches, streams, and dependencies between device nodes."""

    def __init__(self, graph: DependencyGraph) -> None:
        self.graph = graph
        self.base = graph.base
        self.begun, self.returned = graph.time[0 : self.base : 2], graph.time[1 : self.base : 2]
        self.edges = graph.edges
        self.count = len(graph.start)

    def made(self) -> Program:
        """The program without its threads' waits."""
        graph, base = self.graph, self.base
        self._launches()
        self._streams()
        self._others()
        arrival, gap, lag, delay = self._lags()
        before = np.full(base, -1, np.int64)
        source, target, kind = self.edges
        chained = np.flatnonzero((kind == path.HOST) | (kind == path.CALL))
        before[target[chained]] = source[chained]
        time = graph.time[:base]
        steps = np.where(before >= 0, time - time[before], 0)
        origin = min((int(column.min()) for column in (graph.time, graph.start) if len(column)), default=0)
        links = Links(
            base + self.other_source, base + self.other_target, lag, self.other_kind.astype(np.int8)
        )
        nothing = Meetings(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Program(
            graph=graph, origin=origin, before=before, lag=steps, after=np.zeros(base, np.int64), place=self.place,
            arrival=arrival, from_begin=self.from_begin, previous=self.previous, gap=gap, delay=delay,
            duration=graph.end - graph.start, links=links, meetings=nothing,
        )  # fmt: skip

    def _launches(self) -> None:
        """The call of each node; calls that return after their own work are followed from their start."""
        graph, base = self.graph, self.base
        source, target, kind = self.edges
        self.place = np.full(self.count, -1, np.int64)
        launched = np.flatnonzero(kind == path.LAUNCH)
        self.place[target[launched] - base] = source[launched] >> 1
        waited = np.flatnonzero((kind == path.SYNC) | (kind == path.BLOCKING))
        node, call = source[waited] - base, target[waited] >> 1
        self.from_begin = np.zeros(self.count, bool)
        self.from_begin[node[self.place[node] == call]] = True
        self.is_wait = graph.kind == path.WAIT

    def _streams(self) -> None:
        """The node before each in its stream.

        Where work begins before the one before it has ended (programmatic launches), it follows that one all the same, so
        much earlier than its end.
        """
        graph, base = self.graph, self.base
        source, target, kind = self.edges
        self.previous = np.full(self.count, -1, np.int64)
        queued = np.flatnonzero(kind == path.STREAM)
        self.previous[target[queued] - base] = source[queued] - base
        order = graph.order
        assert order is not None
        one, two = order[:-1], order[1:]
        beside = (graph.queue[one] == graph.queue[two]) & (graph.end[one] > graph.start[two])
        beside &= (graph.start[one] <= graph.start[two]) & (self.previous[two] >= 0)
        beside &= (self.place[one] != self.place[two]) | (
            self.place[one] < 0
        )  # not side by side in one graph
        self.previous[two[beside]] = one[beside]

    def _others(self) -> None:
        """Dependencies between nodes; a node without a predecessor in its stream takes the first one as its predecessor."""
        source, target, kind = self.edges
        chosen = np.flatnonzero(np.isin(kind, _BETWEEN_NODES))
        one, two = source[chosen].astype(np.int64) - self.base, target[chosen].astype(np.int64) - self.base
        lone = np.flatnonzero(self.previous[two] < 0)
        node, first = np.unique(two[lone], return_index=True)
        taken = lone[first]
        self.previous[node] = one[taken]
        keep = np.ones(len(chosen), bool)
        keep[taken] = False
        self.other_source, self.other_target, self.other_kind = one[keep], two[keep], kind[chosen][keep]

    def _lags(self) -> tuple[Column, Column, Column, Column]:
        """Arrival, gap, lags of the other dependencies, and delay."""
        graph = self.graph
        start, end, place = graph.start, graph.end, self.place
        called, queued = place >= 0, self.previous >= 0
        came = (
            np.where(self.from_begin, self.begun[place], self.returned[place]) if len(self.begun) else start
        )
        ended = np.where(queued, end[self.previous], _NEVER)
        last = ended.copy()
        if len(self.other_source):
            np.maximum.at(last, self.other_target, end[self.other_source])
        reach, wait = start - came, start - ended
        function = (
            2 * self._functions() + self.from_begin
        )  # from the end and from the begin are different times
        latency = usual.by_code(
            reach, function, self._unhindered(called, last), int(function.max(initial=0)) + 1, _LATENCY
        )
        arrival = np.minimum(latency[function], reach)
        arrival[self.is_wait] = np.minimum(0, reach[self.is_wait])
        gap = self._gaps(wait, called, came + arrival)
        other_wait = start[self.other_target] - end[self.other_source]
        lag = np.minimum(self.usual_gap, other_wait)
        lag[self.is_wait[self.other_target]] = 0
        ready = np.maximum(np.where(called, came + arrival, _NEVER), np.where(queued, ended + gap, _NEVER))
        by_launch = called & (came + arrival >= np.where(queued, ended + gap, _NEVER))
        by_stream = queued & ~by_launch
        if len(lag):
            over = end[self.other_source] + lag
            np.maximum.at(ready, self.other_target, over)
            binding = over >= ready[self.other_target]
            by_launch[self.other_target[binding]] = by_stream[self.other_target[binding]] = False
        rest = np.where(ready > _NEVER, start - ready, 0)
        small = rest <= usual.longest(latency)[function]
        arrival[by_launch & small] += rest[by_launch & small]
        gap[by_stream & small] += rest[by_stream & small]
        if len(lag):
            chosen = np.flatnonzero(binding & small[self.other_target])
            lag[chosen] += rest[self.other_target[chosen]]
        left = ~(by_launch | by_stream) & small
        if len(lag):
            left[self.other_target[chosen]] = False
        delay = np.where(small & ~left, 0, rest)
        self._lost_launches(arrival, delay, ~called & ~self.is_wait & (~queued | ~small))
        return arrival, gap, lag, delay

    def _unhindered(self, called: Column, last: Column) -> Column:
        """The nodes that began when their launch had reached the device: nothing before them was left to wait for.

        A stream that is empty does not show that: its work may wait for another stream by a wait that is not in the trace. Where
        a device was never idle when a launch came, the launches into empty streams that were quick have to do.
        """
        if not len(self.begun):
            return np.zeros(0, np.int64)
        begun = self.begun[self.place]
        empty = called & ~self.is_wait & (last <= begun)
        idle = np.flatnonzero(empty & (self._busy_until() <= begun))
        if len(idle):
            return idle
        found: Column = np.flatnonzero(empty & (self.graph.start - begun <= usual.MOST))
        return found

    def _busy_until(self) -> Column:
        """For each node, the end of earlier-started work on its device."""
        graph = self.graph
        work = np.flatnonzero(~self.is_wait)
        order = work[np.argsort(graph.start[work], kind="stable")]
        _, device = graph.work.device_index()
        out = np.full(self.count, _NEVER, np.int64)
        for number in values_in(device[order]).tolist():
            mine = order[device[order] == number]
            out[mine[1:]] = np.maximum.accumulate(graph.end[mine])[:-1]
        return out

    def _functions(self) -> Column:
        """The function of each node's call, 0 for none."""
        graph = self.graph
        if not len(graph.by_thread):
            return np.zeros(self.count, np.int64)
        function = graph.calls.function[graph.by_thread.call].astype(np.int64) + 1
        return np.where(self.place >= 0, function[self.place], 0)

    def _gaps(self, wait: Column, called: Column, arrived: Column) -> Column:
        """The usual gap after each node's predecessor, by the kinds of both; never longer than the recorded one."""
        kind = self.graph.kind.astype(np.int64)
        pair = kind * 8 + np.where(self.previous >= 0, kind[self.previous], 0)
        queued = (self.previous >= 0) & ~self.is_wait
        busy = queued & (wait >= 0) & (wait < usual.longest(np.array(_GAP * 10)))
        busy &= ~called | (arrived <= self.graph.start - wait)
        chosen = np.flatnonzero(busy)
        medians = usual.by_code(wait, pair, chosen, 64, _GAP)
        self.usual_gap = int(np.median(wait[chosen])) if len(chosen) else _GAP
        gap = np.minimum(medians[pair], wait)
        gap[self.is_wait] = 0
        return gap

    def _launchers(self) -> Column:
        """By process, the number of the thread that launched most of its work, -1 for none."""
        graph, thread = self.graph, self.graph.by_thread.thread
        out = np.full(int(graph.work.process.max(initial=0)) + 1, -1, np.int64)
        for number, times in enumerate(np.bincount(thread[self.place[self.place >= 0]]).tolist()):
            process = graph.by_thread.threads[number][0]
            if times and process < len(out):
                out[process] = max(out[process], times << 32 | number)
        return np.where(out >= 0, out & 0xFFFFFFFF, -1)

    def _lost_launches(self, arrival: Column, delay: Column, lost: Column) -> None:
        """Work whose launch is not in the trace, and which began long after its stream was free: after the last call.

        The call is the last one before it on the thread that launched the stream's work before it, else most of the work of
        its process: such as the pages that a kernel's managed memory sends back when the host reads it.
        """
        graph = self.graph
        order = graph.order
        if not lost.any() or order is None or not len(self.begun):
            return
        known = np.where(self.place[order] >= 0, np.arange(len(order)), -1)
        fresh = np.r_[True, graph.queue[order[1:]] != graph.queue[order[:-1]]]
        last = np.maximum.accumulate(known)
        first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
        thread = graph.by_thread.thread
        gpu = np.array([is_gpu_api(name) for name in graph.calls.functions] or [True], bool)
        own = gpu[graph.calls.function[graph.by_thread.call]]
        own[self.place[self.place >= 0]] = True
        before = np.where(last >= first, thread[self.place[order[last]]], -1)
        at = np.flatnonzero(lost[order])
        launcher = np.where(before[at] >= 0, before[at], self._launchers()[graph.work.process[order[at]]])
        for number in values_in(launcher[launcher >= 0]).tolist():
            mine = order[at[launcher == number]]
            a, b = np.searchsorted(thread, [number, number + 1]).tolist()
            # Excludes time after calls made inside it, such as asking the system whether the device is done.
            calls = a + np.flatnonzero(own[a:b])
            ends = np.maximum.accumulate(self.returned[calls])
            at_call = np.searchsorted(ends, graph.start[mine], "right") - 1
            place = calls[np.maximum(at_call, 0)]
            good = (at_call >= 0) & (self.returned[place] <= graph.start[mine])
            mine, place = mine[good], place[good]
            self.place[mine] = place
            arrival[mine] = graph.start[mine] - self.returned[place]
            delay[mine] = 0
