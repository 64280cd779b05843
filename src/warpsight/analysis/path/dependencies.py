"""Builds the dependency graph of a recording: points on host threads, device work, and what each waited for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path import host, order, rows
from warpsight.analysis.path.order import Edges, Streams
from warpsight.analysis.path.rows import WAIT, CallIndex, Calls, Work
from warpsight.analysis.path.stream_ids import StreamIds
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
_ALL = Rows()
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

    Point 2i is the begin of call i, point 2i + 1 its end, and point ``2 * len(calls) + j`` the end of device node j.
    Device nodes are the rows of `work` and, after them, waits of one stream for another's event.

    Attributes:
        start: Begin of each device node, ns.
        end: End of each device node, ns.
        stream: Number of each device node's stream, which `stream_ids` explains.
        kind: Kind of each device node (:data:`rows.NODE_KINDS`).
        time: Time of each point, ns.
        parent: The point that released each point last (for device work: its begin), -1 for none.
        cause: Kind of the edge from the parent (:data:`EDGES`).
        clamped: Edges whose source lies after its target by the clocks; their length counts as 0.
        unplaced: Waits of the host whose call is not in the trace.
        floor: Time between a launch call's begin and the begin of its kernel when nothing else holds it back, ns.
    """

    calls: Calls
    work: Work
    start: Column
    end: Column
    stream: Column
    kind: Column
    time: Column
    parent: Column
    cause: Column
    clamped: int
    unplaced: int
    floor: int
    stream_ids: StreamIds
    _parts: list[tuple[Column, Column, Column]]

    @property
    def edges(self) -> tuple[Column, Column, Column]:
        """Source point, target point and kind of every edge; edges into device work are into its begin.

        Raises:
            ValueError: The graph was built without its edges.
        """
        if not self._parts:
            raise ValueError("this graph was built without its edges")
        source, target, kind = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return source, target, kind

    def __len__(self) -> int:
        return len(self.time)


def build(trace: Trace, chosen: Rows = _ALL, *, edges: bool = True) -> DependencyGraph:
    """Build the graph of the chosen rows; near-linear in their number (sorting is all that is not linear).

    Without `edges` only the parents are kept, which is what a path needs: the edges are a third of the graph's memory.
    """
    builder = _Builder(trace, chosen, edges)
    builder.streams()
    builder.device()
    builder.forget()
    builder.threads()
    return builder.finish()


class _Builder:
    """The state of one build; the steps run in the order in which they are written."""

    def __init__(self, trace: Trace, chosen: Rows, edges: bool) -> None:
        self.trace = trace
        self.with_edges = edges
        self.calls = rows.calls(trace, chosen)
        self.ids = StreamIds()
        self.work = rows.work(trace, chosen, self.ids)
        self.waits = rows.waits(trace, chosen, self.ids)
        self.records = rows.records(trace, chosen, self.ids)
        self.index = CallIndex(self.calls)
        self.points = host.Points.of(self.calls)
        self.edges = Edges()
        self.clamped = 0
        self.place = host.index_type(2 * len(self.calls) + len(self.work) + len(self.waits.start))
        self.parts: list[tuple[Column, Column, Column]] = []
        self.wait_kind = {name: i for i, name in enumerate(self.waits.kinds)}

    # -- device nodes and their order

    def streams(self) -> None:
        """Lay the nodes out per stream, with the waits of streams among them."""
        calls, work, waits = self.calls, self.work, self.waits
        self.call = self.index.find(work.process, work.correlation).astype(self.place)
        issue = self._called(self.call, work.start)
        self.waiting, self.when = host.call_times(waits, calls, self.index)
        virtual = self._chosen_waits("stream wait event")
        record_call = self.index.find(self.records.process, self.records.correlation)
        self.recorded = self._called(record_call, self.records.time)
        self.record_of = order.matched(waits, self.when, self.records, self.recorded, self._chosen_all())
        self.node = len(work) + np.arange(len(virtual))
        self.start = np.concatenate([work.start, self.when[virtual]])
        self.end = np.concatenate([work.end, np.full(len(virtual), order.NEVER)])
        self.clamped += work.reversed
        self.stream = np.concatenate([work.stream, waits.stream[virtual]])
        self.kind = np.concatenate([work.kind, np.full(len(virtual), WAIT, np.int8)]).astype(np.int8)
        self.node_call = np.concatenate([self.call, self.waiting[virtual].astype(self.place)])
        issue = np.concatenate([issue, self.when[virtual]])
        self.lines = Streams.of(self.stream, issue, self.end)
        del issue
        self._settle(virtual)

    def _called(self, call: Column, otherwise: Column) -> Column:
        if not len(self.calls):
            return otherwise
        begun = self.calls.start[np.maximum(call, 0)]
        np.copyto(begun, otherwise, where=call < 0)
        return begun

    def _chosen_all(self) -> Column:
        return np.arange(len(self.waits.start))

    def _chosen_waits(self, *kinds: str) -> Column:
        codes = [self.wait_kind[kind] for kind in kinds if kind in self.wait_kind]
        return np.flatnonzero(np.isin(self.waits.kind, codes)) if len(self.waits.kind) else self._chosen_all()

    def _settle(self, virtual: Column) -> None:
        if not len(virtual):
            return
        record = self.record_of[virtual]
        safe = np.maximum(record, 0)
        stream = np.where(record >= 0, self.records.stream[safe], -1) if len(self.records.stream) else record
        when = self.recorded[safe] if len(self.recorded) else np.zeros(len(virtual), np.int64)
        source = order.settle(self.lines, self.end, self.node, stream, when)
        never = self.end[self.node] == order.NEVER  # nothing before it: over as soon as it was issued
        self.end[self.node[never]] = self.start[self.node[never]]
        self.start[self.node] = self.end[self.node]
        self.lines.ends = self.end[self.lines.order]
        self.lines.resolve()
        self.edges.add(source, self.node, EVENT)

    # -- what released device nodes

    def device(self) -> None:
        """Find what each node waited for, and which of it was the last."""
        work = self.work
        kinds = order.stream_kinds(self.trace, self.ids)
        in_graph = np.zeros(len(self.start), bool)
        in_graph[: len(work)] = work.graph != 0
        previous, overlap = self.lines.previous(self.start, in_graph)
        if kinds.unordered:
            previous[np.isin(self.stream, list(kinds.unordered))] = -1
        order.default_stream_edges(self.lines, self.ids, kinds, self.kind != WAIT, self.edges, DEFAULT)
        first, second, contradicting = order.graph_edges(self.trace, work)
        inside = np.zeros(len(self.start), bool)
        inside[second] = True
        previous[inside] = -1  # its graph says what it waited for
        self.edges.add(first, second, GRAPH)
        one, two, called = order.listed_edges(self.trace, work, self.call, self.index)
        self.edges.add(one, two, LISTED)
        self.listed = (one, called)
        self.clamped += contradicting + int((overlap & ~in_graph).sum())
        self._release(previous)

    def _release(self, previous: Column) -> None:
        """The parent of each device node: of all it waited for, what came last."""
        count, base = len(self.start), self.place(2 * len(self.calls))
        parent, cause = np.full(count, -1, self.place), np.zeros(count, np.int8)
        called = self.node_call >= 0
        never: Column = np.full((), order.NEVER)
        begun = self._called(self.node_call, never) if len(self.calls) else np.broadcast_to(never, count)
        ended = self.end[np.maximum(previous, 0)]
        np.minimum(ended, self.start, out=ended)
        ended[previous < 0] = order.NEVER
        self.floor = _floor(self.start, begun, ended, called)
        self.clamped += int((called & (begun > self.start) & (self.kind != WAIT)).sum())
        ready = begun + self.floor
        ready[~called] = order.NEVER
        del begun
        parent[called], cause[called] = 2 * self.node_call[called], LAUNCH
        queued = (previous >= 0) & (ended >= ready)
        parent[queued], cause[queued] = base + previous[queued], STREAM
        np.maximum(ready, ended, out=ready)
        del ended, queued
        source, target, kind = self.edges.joined()
        self.clamped += int((self.end[source] > self.start[target]).sum())
        if len(source):
            told = np.minimum(self.end[source], self.start[target])
            last = np.lexsort((told, target))
            last = last[np.r_[target[last][1:] != target[last][:-1], True]]
            better = last[told[last] >= ready[target[last]]]
            parent[target[better]], cause[target[better]] = base + source[better], kind[better]
        self.parent_of_node, self.cause_of_node = parent, cause
        if not self.with_edges:
            return
        at, line = np.flatnonzero(called), np.flatnonzero(previous >= 0)
        self._add(2 * self.node_call[at], base + at, LAUNCH)
        self._add(base + previous[line], base + line, STREAM)
        self._add(base + source, base + target, kind)

    def _add(self, source: Column, target: Column, kind: Column | int) -> None:
        """Keep edges where they are wanted, as narrow as their numbers allow."""
        if not self.with_edges:
            return
        kinds = kind if isinstance(kind, np.ndarray) else np.full(len(source), kind, np.int8)
        self.parts.append((source.astype(self.place), target.astype(self.place), kinds))

    def forget(self) -> None:
        """Let go of columns that were only there to join rows."""
        none = np.zeros(0, np.int64)
        self.work.correlation = self.work.graph = self.work.graph_node = self.node_call = none
        self.calls = replace(self.calls, correlation=none)
        self.edges = Edges()

    # -- what released the host

    def threads(self) -> None:
        """Chain the points of each thread, and let calls that waited be released by what they waited for."""
        calls, points = self.calls, self.points
        time = points.time
        parent = points.previous.copy()
        cause = np.full(len(time), HOST, np.int8)
        cause[1::2] = CALL
        cause[parent < 0] = START
        inside = (parent >= 0) & (parent % 2 == 0)  # after a begin: still inside that call
        cause[inside] = CALL
        del inside
        base = 2 * len(calls)
        if self.with_edges:
            chained = np.flatnonzero(parent >= 0)
            self._add(parent[chained], chained, cause[chained])
            del chained
        target, source = host.handovers(calls, points)
        self._add(source, target, HANDOVER)
        parent[target], cause[target] = source, HANDOVER
        found = self._host_waits()
        node, call, kind = found.node, found.call, found.kind
        self._add(base + node, 2 * call + 1, kind)
        told = np.minimum(self.end[node], time[2 * call + 1])
        self.clamped += int((self.end[node] > time[2 * call + 1]).sum())
        last = np.lexsort((told, call))
        last = last[np.r_[call[last][1:] != call[last][:-1], True]] if len(last) else last
        before = time[np.maximum(points.previous[2 * call[last] + 1], 0)]
        last = last[told[last] > before]
        parent[2 * call[last] + 1], cause[2 * call[last] + 1] = base + node[last], kind[last]
        self.unplaced = found.unplaced
        self.parent_of_point, self.cause_of_point = parent, cause

    def _host_waits(self) -> host.HostWaits:
        waits, when = self.waits, self.when
        parts: list[tuple[Column, Column, Column]] = []
        one = self._chosen_waits("stream", "finish")
        parts += host.waits_of_streams(self.lines, waits, self.waiting, when, one, SYNC)
        all_streams = self._chosen_waits("context")
        context = waits.context
        parts += host.waits_of_contexts(self.lines, self.ids, context, self.waiting, when, all_streams, SYNC)
        parts += host.implicit_waits(self.lines, self.ids, self.calls, self.end, SYNC)
        for_event = self._chosen_waits("event")
        record = self.record_of[for_event]
        for_event, record = for_event[record >= 0], record[record >= 0]
        for stream in np.unique(self.records.stream[record]).tolist():
            mine = self.records.stream[record] == stream
            node = self.lines.before(stream, self.recorded[record[mine]])
            call = self.waiting[for_event[mine]]
            parts.append((node, call, np.full(len(node), SYNC, np.int8)))
        listed, called = self.listed
        parts.append((listed, called, np.full(len(listed), SYNC, np.int8)))
        blocks = np.flatnonzero(self.work.blocking.astype(bool) | self._said_to_block())
        parts.append((blocks, self.call[blocks], np.full(len(blocks), BLOCKING, np.int8)))
        node, call, kind = (np.concatenate(column) for column in zip(*parts, strict=True))
        good = (node >= 0) & (call >= 0)
        host_kinds = self._chosen_waits("stream", "finish", "context", "event", "wait for events")
        unplaced = int((self.waiting[host_kinds] < 0).sum())
        return host.HostWaits(node[good].astype(np.int64), call[good].astype(np.int64), kind[good], unplaced)

    def _said_to_block(self) -> Column:
        """Work of calls that the recorder saw blocking (OpenCL's blocking reads and writes)."""
        chosen = self._chosen_waits("blocking call")
        calls = self.waiting[chosen]
        return np.isin(self.call, calls[calls >= 0]) if len(calls) else np.zeros(len(self.work), bool)

    def finish(self) -> DependencyGraph:
        """Put both sides together."""
        time = self.points.time
        del self.points, self.lines, self.index, self.call
        return DependencyGraph(
            calls=self.calls, work=self.work, start=self.start, end=self.end, stream=self.stream, kind=self.kind,
            time=np.concatenate([time, self.end]),
            parent=np.concatenate([self.parent_of_point, self.parent_of_node]),
            cause=np.concatenate([self.cause_of_point, self.cause_of_node]),
            clamped=self.clamped, unplaced=self.unplaced, floor=self.floor, stream_ids=self.ids,
            _parts=self.parts,
        )  # fmt: skip


def _floor(start: Column, begun: Column, ended: Column, called: Column) -> int:
    """The usual time from a launch call's begin to its kernel's on an idle stream: the median over such launches."""
    idle = called & (ended <= begun) & (start >= begun)
    latencies = start[idle] - begun[idle]
    if len(latencies) >= _FEW:
        return int(np.median(latencies))
    latencies = (start - begun)[called & (start >= begun)]
    return int(min(latencies.min(), 10_000)) if len(latencies) else 0
