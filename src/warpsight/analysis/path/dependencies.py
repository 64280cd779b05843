"""Builds the dependency graph of a recording: points on host threads, device work, and their dependencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path import edges as other_edges
from warpsight.analysis.path import host
from warpsight.analysis.path.edges import Edges
from warpsight.analysis.path.lines import NEVER, Lines, issued, settle
from warpsight.model import calls as host_calls
from warpsight.model import waits as model_waits
from warpsight.model import work as device_work
from warpsight.model.calls import ByThread, Calls
from warpsight.model.selection import Rows
from warpsight.model.waits import BLOCKING_CALL, OF_CONTEXT, OF_EVENT, OF_STREAM
from warpsight.model.work import Queue, Work, values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_ALL = Rows()
#: The kind of a stream's wait for an event, beside those of device work (:data:`warpsight.model.work.KINDS`).
WAIT = len(device_work.KINDS)
#: Kinds of edges, in the order of their numbers.
EDGES = (
    "start", "host", "call", "launch", "stream", "event", "default stream", "graph", "wait list", "sync",
    "blocking call", "hand-over",
)  # fmt: skip
START, HOST, CALL, LAUNCH, STREAM, EVENT, DEFAULT, GRAPH, LISTED, SYNC, BLOCKING, HANDOVER = range(len(EDGES))
_FEW = 10


@dataclass
class DependencyGraph:
    """Points and what released each.

    Points 2i and 2i + 1 are the start and the end of the call at place i of `by_thread`; point ``base + j`` is the end of
    device node j. Device nodes are the rows of `work` and, after them, waits of one stream for another's event.

    Attributes:
        queues: Streams; the first are those of `work`.
        start: Start of each device node, ns.
        end: End of each device node, ns.
        queue: Stream of each device node.
        kind: Kind of each device node (those of device work, and :data:`WAIT`).
        time: Time of each point, ns.
        parent: The point that released each point last (for device work: its start), -1 for none.
        cause: Kind of the edge from the parent (:data:`EDGES`).
        clamped: Edges whose source is later than their target according to the clocks; their length counts as 0.
        unplaced: Waits of the host whose call is not in the trace.
        floor: Time between a launch call's start and the start of its kernel when nothing else holds it back, ns.
        order: Device nodes in order of (queue, issue); None when the graph was built without its edges.
        sequence: Points of threads in the order of their threads, None where that is 0, 1, 2 and so on.
        recorded: The device node whose end each recorded event (:func:`warpsight.model.waits.records`) stands for, -1 for none;
            None when the graph was built without its edges.
    """

    calls: Calls
    by_thread: ByThread
    work: Work
    queues: tuple[Queue, ...]
    start: Column
    end: Column
    queue: Column
    kind: Column
    time: Column
    parent: Column
    cause: Column
    clamped: int
    unplaced: int
    floor: int
    order: Column | None
    sequence: Column | None
    recorded: Column | None
    _parts: list[tuple[Column, Column, Column]]

    @property
    def base(self) -> int:
        """The point of the first device node."""
        return 2 * len(self.by_thread)

    @property
    def edges(self) -> tuple[Column, Column, Column]:
        """Source point, target point and kind of every edge; edges into device work are into its start.

        Raises:
            ValueError: when the graph was built without its edges.
        """
        if not self._parts:
            raise ValueError("this graph was built without its edges")
        source, target, kind = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return source, target, kind

    def __len__(self) -> int:
        return len(self.time)


def build(
    trace: StoredTrace, chosen: Rows = _ALL, *, edges: bool = True, host_rows: Rows | None = None
) -> DependencyGraph:
    """Build the graph of the chosen rows; the cost is linear in their number except for sorting.

    Without `edges` only the parents are kept, which is what a path needs: the edges are a third of the graph's memory.
    `host_rows` chooses calls and waits if their window differs from that of the device work.
    """
    builder = _Builder(trace, chosen, host_rows or chosen, edges)
    builder.line_up()
    builder.device()
    builder.threads()
    return builder.finish()


class _Builder:
    """The state of one build; the steps run in the order in which they are written."""

    def __init__(self, trace: StoredTrace, chosen: Rows, of_host: Rows, edges: bool) -> None:
        self.trace = trace
        self.with_edges = edges
        self.calls = host_calls.load(trace, api=True)
        self.by_thread = host_calls.by_thread(trace, of_host)
        named = Rows(chosen.begin, chosen.end, chosen.devices, chosen.streams, chosen.processes)
        self.work = device_work.load(trace, named, cut=False)
        self.waits, self.records = _waits(trace, of_host, self.work)
        self.queues = self.waits.queues
        self.places = self.by_thread.places(len(self.calls))
        call = self.by_thread.call
        self.points = host.Points.of(self.calls.start[call], self.calls.end[call], self.by_thread.thread)
        self.edges = Edges()
        self.clamped = 0
        self.place = host.index_type(2 * len(call) + len(self.work) + len(self.waits))
        self.parts: list[tuple[Column, Column, Column]] = []

    def _placed(self, call: Column) -> Column:
        """The position of each call on the threads, -1 for none."""
        if not len(self.places):
            return np.full(len(call), -1, self.place)
        found: Column = self.places[call].astype(self.place, copy=False)
        found[call < 0] = -1
        return found

    def _called(self, place: Column, otherwise: Column) -> Column:
        """The start of the call at each place, with a substitute where there is none."""
        if not len(self.by_thread):
            return otherwise
        begun: Column = self.points.time[2 * place]  # of -1: anything, replaced
        np.copyto(begun, otherwise, where=place < 0)
        return begun

    # -- device nodes and their order

    def line_up(self) -> None:
        """Arrange the nodes per stream, including the waits of streams."""
        work, waits = self.work, self.waits
        self.call = self._placed(host_calls.of_work(self.trace, work, api=True)[1])
        issue = issued(work.queue, self._called(self.call, work.start), self.call >= 0)
        self.waiting = self._placed(waits.call)
        self.when = self._called(self.waiting, waits.start)
        virtual = waits.of_streams
        virtual = virtual[waits.queue[virtual] >= 0]
        self.recorded = self._called(self._placed(self.records.call), self.records.time)
        self.record_of = other_edges.matched(waits, self.when, self.records, self.recorded)
        self.node = len(work) + np.arange(len(virtual))
        self.start, self.end, self.queue, self.kind, self.node_call = (
            work.start, work.end, work.queue, work.kind, self.call,
        )  # fmt: skip
        if len(virtual):
            self.start = np.concatenate([work.start, self.when[virtual]])
            self.end = np.concatenate([work.end, np.full(len(virtual), NEVER)])
            self.queue = np.concatenate([work.queue, waits.queue[virtual]])
            self.kind = np.concatenate([work.kind, np.full(len(virtual), WAIT, np.int8)])
            self.node_call = np.concatenate([self.call, self.waiting[virtual]])
            issue = np.concatenate([issue, self.when[virtual]])
        self.clamped += work.reversed
        self.lines = Lines.of(self.queue, issue, self.end, len(self.queues))
        self._settle(virtual)

    def _settle(self, virtual: Column) -> None:
        if not len(virtual):
            return
        record = self.record_of[virtual]
        safe = np.maximum(record, 0)
        queue = np.where(record >= 0, self.records.queue[safe], -1) if len(self.records) else record
        when = self.recorded[safe] if len(self.recorded) else np.zeros(len(virtual), np.int64)
        source = settle(self.lines, self.end, self.node, queue, when)
        never = self.end[self.node] == NEVER  # nothing before it: over as soon as it was issued
        self.end[self.node[never]] = self.start[self.node[never]]
        self.start[self.node] = self.end[self.node]
        self.lines.ends = self.end[self.lines.order]
        self.lines.resolve()
        self.edges.add(source, self.node, EVENT)

    # -- what released device nodes

    def device(self) -> None:
        """Find the dependencies of each node, and the one that ended last."""
        work = self.work
        kinds = other_edges.stream_kinds(self.trace, self.queues)
        graphs = other_edges.graphs(self.trace, device_work.everything(self.trace), work)
        in_graph: Column | None = None
        if graphs is not None:
            in_graph = np.zeros(len(self.start), bool)
            in_graph[: len(work)] = graphs[0] != 0
        previous, overlapping = self.lines.previous(self.start, in_graph, self.node_call)
        for queue in kinds.unordered:
            previous[self.queue == queue] = -1
        other_edges.default_stream_edges(self.lines, kinds, self.queues, len(work), self.edges, DEFAULT)
        if graphs is not None:
            first, second, contradicting = other_edges.graph_edges(self.trace, work, graphs[1])
            previous[second] = -1  # its graph determines what it waited for
            self.edges.add(first, second, GRAPH)
            self.clamped += contradicting
        one, two, process, correlation = other_edges.listed_edges(self.trace, work)
        self.edges.add(one, two, LISTED)
        self.listed = (one, self._placed(self.calls.of(process, correlation)))
        self.clamped += len(overlapping) if in_graph is None else int((~in_graph[overlapping]).sum())
        self._release(previous)

    def _release(self, previous: Column) -> None:
        """The parent of each device node: of everything it waited for, the last to finish."""
        count, base = len(self.start), self.place(2 * len(self.by_thread))
        called = self.node_call >= 0
        begun = (
            self._called(self.node_call, np.full((), NEVER)) if len(self.by_thread) else np.full(count, NEVER)
        )
        ended = self.end[previous]  # of -1: anything, replaced
        ended[previous < 0] = NEVER
        np.minimum(ended, self.start, out=ended)
        self.floor = _floor(self.start, begun, ended, called)
        self.clamped += int((called & (begun > self.start) & (self.kind != WAIT)).sum())
        ready = begun
        ready[called] += self.floor
        parent = np.where(called, 2 * self.node_call, self.place(-1)).astype(self.place, copy=False)
        cause = np.where(called, np.int8(LAUNCH), np.int8(0))
        queued = (previous >= 0) & (ended >= ready)
        np.copyto(parent, base + previous, where=queued)
        cause[queued] = STREAM
        source, target, kind = self.edges.joined()
        self.clamped += int((self.end[source] > self.start[target]).sum())
        if len(source):
            np.maximum(ready, ended, out=ready)
            reached = np.minimum(self.end[source], self.start[target])
            last = np.lexsort((reached, target))
            last = last[np.r_[target[last][1:] != target[last][:-1], True]]
            better = last[reached[last] >= ready[target[last]]]
            parent[target[better]], cause[target[better]] = base + source[better], kind[better]
        self.parent_of_node, self.cause_of_node = parent, cause
        if self.with_edges:
            at, line = np.flatnonzero(called), np.flatnonzero(previous >= 0)
            self._add(2 * self.node_call[at], base + at, LAUNCH)
            self._add(base + previous[line], base + line, STREAM)
            self._add(base + source, base + target, kind)

    def _add(self, source: Column, target: Column, kind: Column | int) -> None:
        """Store requested edges, in the narrowest integers that fit."""
        if not self.with_edges:
            return
        kinds = kind if isinstance(kind, np.ndarray) else np.full(len(source), kind, np.int8)
        self.parts.append((source.astype(self.place), target.astype(self.place), kinds))

    # -- what released the host

    def threads(self) -> None:
        """Chain the points of each thread, and release waiting calls by the work that they waited for."""
        points = self.points
        time, parent = points.time, points.previous
        cause = np.empty(len(time), np.int8)
        cause[0::2], cause[1::2] = HOST, CALL
        cause[0::2][parent[0::2] < 0] = START
        cause[0::2][(parent[0::2] >= 0) & (parent[0::2] & 1 == 0)] = (
            CALL  # after a start: still inside that call
        )
        base = 2 * len(self.by_thread)
        if self.with_edges:
            chained = np.flatnonzero(parent >= 0)
            self._add(parent[chained], chained, cause[chained])
        target, source = host.handovers(self.by_thread, points)
        self._add(source, target, HANDOVER)
        found = self._host_waits()
        node, call, kind = found.node, found.call, found.kind
        self._add(base + node, 2 * call + 1, kind)
        reached = np.minimum(self.end[node], time[2 * call + 1])
        self.clamped += int((self.end[node] > time[2 * call + 1]).sum())
        last = np.lexsort((reached, call))
        last = last[np.r_[call[last][1:] != call[last][:-1], True]] if len(last) else last
        before = time[np.maximum(parent[2 * call[last] + 1], 0)]
        last = last[reached[last] > before]
        parent = parent.copy() if self.with_edges else parent
        parent[target], cause[target] = source, HANDOVER
        parent[2 * call[last] + 1], cause[2 * call[last] + 1] = base + node[last], kind[last]
        self.unplaced = found.unplaced
        self.parent_of_point, self.cause_of_point = parent, cause

    def _host_waits(self) -> host.HostWaits:
        waits, when, waiting = self.waits, self.when, self.waiting
        parts: list[tuple[Column, Column, Column]] = []
        one = waits.of(*OF_STREAM)
        parts += host.waits_of_streams(self.lines, waits.queue[one], waiting[one], when[one], SYNC)
        everything = waits.of(*OF_CONTEXT)
        parts += host.waits_of_contexts(
            self.lines, self.queues, waits, everything, waiting[everything], when[everything], SYNC
        )
        for_event = waits.of(*OF_EVENT)
        record = self.record_of[for_event]
        # A wait for an event that was never recorded adds no dependency.
        unknown = np.zeros(len(waits), bool)
        unknown[for_event[record < 0]] = True
        known = waits.of_the_host[~unknown[waits.of_the_host]]
        blocks = self._blocking()
        told = np.concatenate([waiting[known], self.call[blocks]])
        parts += host.implicit_waits(
            self.lines, self.queues, self.calls, self.by_thread, self.end, SYNC, told
        )
        for_event, record = for_event[record >= 0], record[record >= 0]
        for queue in values_in(self.records.queue[record]).tolist():
            mine = self.records.queue[record] == queue
            node = self.lines.before(queue, self.recorded[record[mine]])
            parts.append((node, waiting[for_event[mine]], np.full(len(node), SYNC, np.int8)))
        listed, called = self.listed
        parts.append((listed, called, np.full(len(listed), SYNC, np.int8)))
        parts.append((blocks, self.call[blocks], np.full(len(blocks), BLOCKING, np.int8)))
        node, call, kind = (np.concatenate(column) for column in zip(*parts, strict=True))
        good = (node >= 0) & (call >= 0)
        unplaced = int((waiting[waits.of_the_host] < 0).sum())
        return host.HostWaits(node[good].astype(np.int64), call[good].astype(np.int64), kind[good], unplaced)

    def _blocking(self) -> Column:
        """Work whose call returned after it: copies that blocked their caller, and calls that the recorder saw blocking."""
        held = model_waits.held_copies(self.trace, self.work)
        calls = self.waiting[self.waits.of(*BLOCKING_CALL)]
        calls = calls[calls >= 0]
        if not len(calls):
            return held
        return np.unique(np.concatenate([held, np.flatnonzero(np.isin(self.call, calls))]))

    def _recorded_nodes(self) -> Column:
        out = np.full(len(self.records), -1, np.int64)
        for queue in values_in(self.records.queue).tolist():
            mine = np.flatnonzero(self.records.queue == queue)
            out[mine] = self.lines.before(queue, self.recorded[mine])
        return out

    def finish(self) -> DependencyGraph:
        """Combine both sides."""
        time = self.points.time
        order = self.lines.order if self.with_edges else None
        recorded = self._recorded_nodes() if self.with_edges else None
        sequence = self.points.sequence
        del self.points, self.lines, self.call, self.places
        return DependencyGraph(
            calls=self.calls, by_thread=self.by_thread, work=self.work, queues=self.queues, start=self.start,
            end=self.end, queue=self.queue, kind=self.kind, time=np.concatenate([time, self.end]),
            parent=np.concatenate([self.parent_of_point, self.parent_of_node]),
            cause=np.concatenate([self.cause_of_point, self.cause_of_node]),
            clamped=self.clamped, unplaced=self.unplaced, floor=self.floor, order=order, sequence=sequence, recorded=recorded,
            _parts=self.parts,
        )  # fmt: skip


def _waits(trace: StoredTrace, rows: Rows, work: Work) -> tuple[model_waits.Waits, model_waits.EventRecords]:
    """The waits and event records of the selected time and processes, with streams numbered as those of some work."""
    waits, records = model_waits.load(trace), model_waits.records(trace)
    keep = np.ones(len(waits), bool)
    if rows.begin is not None:
        keep &= waits.start >= rows.begin
    if rows.end is not None:
        keep &= waits.start < rows.end
    if rows.processes:
        keep &= np.isin(waits.process, list(rows.processes))
    kept = np.isin(records.process, list(rows.processes)) if rows.processes else np.ones(len(records), bool)
    if work.source is None and keep.all() and kept.all():
        return waits, records
    return model_waits.renumbered(waits, records, np.flatnonzero(keep), np.flatnonzero(kept), work.queues)


def _floor(start: Column, begun: Column, ended: Column, called: Column) -> int:
    """The usual time from the start of a launch call to its kernel's start on an idle stream: the median of such launches."""
    idle = np.flatnonzero(called & (ended <= begun) & (start >= begun))
    if len(idle) >= _FEW:
        return int(np.median(start[idle] - begun[idle]))
    latencies = (start - begun)[called & (start >= begun)]
    return int(min(latencies.min(), 10_000)) if len(latencies) else 0
