"""The critical path: the chain of work, calls and waits that determines the length of the recording.

Every point of the dependency graph (start and end of a call, end of device work) was released by the last of the things it waited
for. Followed backwards from the last moment, these releases partition the recorded time: each nanosecond belongs to exactly one
segment, with the reason why nothing could continue earlier. If an edge weighs the time it took where it was the last dependency,
and nothing elsewhere, this chain is the longest path of the graph (docs/explanation/critical-path.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.analysis.base import words
from warpsight.analysis.base.frames import user_frames
from warpsight.analysis.base.result import Finding, Result, with_units
from warpsight.analysis.path import dependencies as dependency
from warpsight.analysis.path.dependencies import WAIT, DependencyGraph
from warpsight.analysis.steps import iterations
from warpsight.model import calls as host_calls
from warpsight.model import work as device_work
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.workers import workers

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_ALL = Rows()
#: Possible segments, in words; device work comes first.
CAUSES = (
    "kernel", "copy", "fill", "launch latency", "gap in the stream", "waiting for an event",
    "waiting for the default stream", "gap in a graph", "waiting for a listed event", "host call", "host between calls",
    "wake-up after a wait", "return of a blocking call", "hand-over between threads", "nothing known before",
)  # fmt: skip
#: The cause of a segment by the kind of its device node; a communication kernel is a kernel.
_OF_NODE = np.array([0, 0, 1, 2, 5], np.int8)
#: Names of the node kinds in tables.
_KINDS = ("kernel", "kernel", "copy", "set", "wait")
#: The cause of a segment by the kind of its edge.
_OF_EDGE = np.zeros(len(dependency.EDGES), np.int8)
for _edge, _cause in {
    dependency.LAUNCH: 3, dependency.STREAM: 4, dependency.EVENT: 5, dependency.DEFAULT: 6, dependency.GRAPH: 7,
    dependency.LISTED: 8, dependency.CALL: 9, dependency.HOST: 10, dependency.SYNC: 11, dependency.BLOCKING: 12,
    dependency.HANDOVER: 13, dependency.START: 14,
}.items():  # fmt: skip
    _OF_EDGE[_edge] = _cause
#: Number of chain points whose segments are computed together, so that intermediate results stay in the cache.
_PIECE = 1 << 18
#: Causes that mean the device worked.
ON_DEVICE = frozenset((0, 1, 2))
_CALL, _BETWEEN = CAUSES.index("host call"), CAUSES.index("host between calls")


@dataclass(frozen=True)
class CriticalPath:
    """The path in time order: segment i runs from ``begin[i]`` to ``end[i]``, ends at ``point[i]`` and has ``cause[i]``.

    The segments of one path follow each other without gaps; together they are the time from the first to the last moment.
    """

    graph: DependencyGraph
    begin: Column
    end: Column
    cause: Column
    point: Column

    @property
    def length(self) -> int:
        """Time from the first to the last moment, ns."""
        return int(self.end[-1] - self.begin[0]) if len(self.begin) else 0


def trace_back(graph: DependencyGraph) -> CriticalPath:
    """The path that ends at the last moment of a graph."""
    if not len(graph):
        none = np.zeros(0, np.int64)
        return CriticalPath(graph, none, none, none.astype(np.int8), none)
    points = chain(graph.parent, int(np.argmax(graph.time)))
    first = min(int(column.min()) for column in (graph.time, graph.start) if len(column))
    reached = int(graph.time[points[0]])
    pieces = []
    for at in range(0, len(points), _PIECE):
        before = int(graph.time[points[at + _PIECE]]) if at + _PIECE < len(points) else first
        piece = _segments(graph, points[at : at + _PIECE], before, reached, at + _PIECE >= len(points))
        reached = int(piece[0][0]) if len(piece[0]) else reached
        pieces.append(piece)
    begin, end, cause, point = (np.concatenate(column) for column in zip(*pieces[::-1], strict=True))
    return CriticalPath(graph, begin, end, cause, point)


def _segments(
    graph: DependencyGraph, points: Column, before: int, reached: int, last: bool
) -> tuple[Column, Column, Column, Column]:
    """Begin, end, cause and point of the segments of a piece of a chain, in time order; `points` go backwards.

    Times backwards along the path: end of the point, start of its work, end of the one before it, …

        point       c                 b                 a
        edges       c.time, c.begin,  b.time, b.begin,  a.time, a.begin,  before
        causes      work of c, edge b → c, work of b, edge a → b, work of a, edge to a

    `before` is the end of the point before the piece, or the first moment of all where the piece is the `last`; no time of
    the piece is after `reached`.
    """
    device = points >= graph.base
    node = points[device] - graph.base
    edges: Column = np.empty(2 * len(points) + 1, np.int64)
    edges[0:-1:2] = edges[1::2] = graph.time[points]
    edges[1::2][device] = graph.start[node]
    edges[-1] = before
    edges[0] = min(reached, int(edges[0]))
    if bool((edges[1:] > edges[:-1]).any()):
        np.minimum.accumulate(edges, out=edges)
    cause: Column = np.zeros(2 * len(points), np.int8)
    cause[0::2][device] = _OF_NODE[graph.kind[node]]
    cause[1::2] = _OF_EDGE[graph.cause[points]]
    if last:
        cause[-1] = _OF_EDGE[dependency.START]
    # A begin's segment leads to it, and so does that of an end; both are named after the point they lead to.
    kept = np.flatnonzero(edges[:-1] > edges[1:])[::-1]
    return edges[kept + 1], edges[kept], cause[kept], points[kept >> 1]


def chain(parent: Column, last: int) -> Column:
    """A point and its ancestors; runs of adjacent parents are taken in one step."""
    place = np.arange(len(parent), dtype=parent.dtype)
    head = np.where(parent == place - 1, 0, place)
    head[0] = 0  # a root: its parent is -1 too
    np.maximum.accumulate(head, out=head)
    heads, parents = head.data, parent.data
    begins, ends = [], []
    while last >= 0:
        first = heads[last]
        begins.append(last)
        ends.append(first)
        last = parents[first]
    begin, end = np.array(begins), np.array(ends)
    del begins, ends, head, heads, place
    lengths = begin - end + 1
    # The place in the chain and the point add up to the same number all along a run.
    sums = begin + np.cumsum(lengths) - lengths
    out: Column = np.repeat(sums, lengths)
    out -= np.arange(len(out), dtype=parent.dtype)
    return out.astype(parent.dtype)


def critical_path(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """How the recorded time was spent, along the chain of events that released each other.

    Tables:
        causes: per cause (:data:`CAUSES`) the time and share of the path, and its segments.
        steady: the same within the steady state of the main loop, without start-up; empty without iterations.
        on_path: per kernel, copy or call the time it was on the path, and its total time.
        path: every segment in time order, with what it was and what it led to.
        host: where the threads' samples were in segments between calls, by the innermost frame of the user's own code (samples,
            and their share of that time); empty without samples.
    """
    with workers(
        2, "path"
    ) as pool:  # NumPy lets go of Python's lock: what needs nothing of each other keeps two cores busy
        pool.submit(host_calls.load, trace, api=True)
        device_work.load(trace)
        window = pool.submit(_steady, trace, rows)
        graph = dependency.build(trace, rows, edges=False)
        path = trace_back(graph)
        labels = Labels(trace, graph)
        host = pool.submit(_host, trace, path)
        listed = pool.submit(segments, path, labels)
        tables = {
            "causes": _causes(path, int(path.begin.min(initial=0)), int(path.end.max(initial=0))),
            "steady": _causes(path, *window.result()),
            "on_path": _on_path(path, labels),
            "host": host.result(),
            "path": listed.result(),
        }
    return Result(tables, tuple(_findings(path, graph)))


def _steady(trace: StoredTrace, rows: Rows) -> tuple[int, int]:
    """Start and end of the steady state of the main loop, ns; equal without one."""
    windows = [w for w in (one.window() for one in iterations.find(trace, rows)) if w is not None]
    return min((w[0] for w in windows), default=0), max((w[1] for w in windows), default=0)


class Labels:
    """Names of calls and device nodes: each string has a number, and each point holds the number of its string."""

    def __init__(self, trace: StoredTrace, graph: DependencyGraph) -> None:
        """Read the names of the kernels, copies and functions."""
        self._graph = graph
        work = graph.work
        rows = names_of.texts(trace, "short").items()
        self.texts = ["?", "wait for another stream", *graph.calls.functions]
        kernels = np.zeros(
            max([0, int(work.name_id.max(initial=0)), *(row[0] for row in rows)]) + 1, np.int32
        )
        for number, text in rows:
            kernels[number] = len(self.texts)
            self.texts.append(text)
        self._kernels = kernels
        self._moved = np.flatnonzero(work.kind >= device_work.COPY)
        names, code = device_work.directions(trace, work, self._moved)
        self._moved_code = code.astype(np.int32) + len(self.texts)
        self.texts += names

    def of_nodes(self, node: Column) -> Column:
        """Numbers of the names of device nodes."""
        work = self._graph.work
        if not len(work):
            return np.ones(len(node), np.int32)
        real = node < len(work)
        row = np.where(real, node, 0)
        out: Column = self._kernels[work.name_id[row]]
        moved = np.flatnonzero(real & (work.kind[row] >= device_work.COPY))
        out[moved] = self._moved_code[np.searchsorted(self._moved, row[moved])]
        out[~real] = 1
        return out

    def of_points(self, point: Column) -> Column:
        """Numbers of the names of points."""
        graph = self._graph
        out = np.empty(len(point), np.int32)
        device = point >= graph.base
        out[device] = self.of_nodes(point[device] - graph.base)
        if not device.all():
            call = graph.by_thread.call[point[~device] >> 1]
            out[~device] = graph.calls.function[call].astype(np.int32) + 2
        return out

    def points(self, point: Column) -> list[str]:
        """Names of points."""
        return [self.texts[number] for number in self.of_points(point).tolist()]


def _causes(path: CriticalPath, begin: int, end: int) -> pa.Table:
    """What the path consisted of from `begin` to `end`."""
    mine = slice(
        int(np.searchsorted(path.end, begin, "right")), int(np.searchsorted(path.begin, end, "left"))
    )
    length, cause = path.end[mine] - path.begin[mine], path.cause[mine]
    if len(length):  # the first and the last segment may reach beyond
        length[0] -= max(begin - int(path.begin[mine][0]), 0)
        length[-1] -= max(int(path.end[mine][-1]) - end, 0)
    total = device_work.summed(cause, length, len(CAUSES))
    count = np.bincount(cause, minlength=len(CAUSES))
    order = [i for i in np.argsort(-total, kind="stable").tolist() if count[i]]
    whole = max(int(total.sum()), 1)
    table = pa.table({
        "cause": pa.array([CAUSES[i] for i in order], pa.string()), "time": pa.array(total[order], pa.int64()),
        "share": pa.array(total[order] / whole * 100, pa.float64()), "segments": pa.array(count[order], pa.int64()),
    })  # fmt: skip
    return with_units(table, time="ns", share="%")


def _on_path(path: CriticalPath, labels: Labels) -> pa.Table:
    """Device work and calls by name: time on the path and in total."""
    graph = path.graph
    work, calls, call = graph.work, graph.calls, graph.by_thread.call
    length = path.end - path.begin
    rows: list[tuple[str, str, int, int, int]] = []
    running = np.flatnonzero((path.cause <= max(ON_DEVICE)) & (path.point >= graph.base))
    node = path.point[running] - graph.base
    running, node = running[node < len(work)], node[node < len(work)]
    if len(node):
        size = len(labels.texts)
        whole = np.zeros(size, np.int64)
        for block in device_work.blocks(len(work)):
            lasted = work.end[block] - work.start[block]
            code = labels.of_nodes(np.arange(block.start, block.start + len(lasted)))
            whole += device_work.summed(code, lasted, size)
        own = labels.of_nodes(node)
        time, count = device_work.summed(own, length[running], size), np.bincount(own, minlength=size)
        kind = np.zeros(size, np.int8)
        kind[own] = work.kind[node]
        rows += [(labels.texts[i], _KINDS[kind[i]], int(time[i]), int(whole[i]), int(count[i]))
                 for i in np.flatnonzero(count).tolist()]  # fmt: skip
    calling = np.flatnonzero(path.cause == _CALL)
    if len(calling):
        size = len(calls.functions)
        own = calls.function[call[path.point[calling] >> 1]]
        time, count = device_work.summed(own, length[calling], size), np.bincount(own, minlength=size)
        if len(call) == len(calls):  # all of them: their order does not matter
            whole = device_work.summed(calls.function, calls.end - calls.start, size)
        else:
            whole = device_work.summed(calls.function[call], (calls.end - calls.start)[call], size)
        rows += [(calls.functions[i], "call", int(time[i]), int(whole[i]), int(count[i]))
                 for i in np.flatnonzero(count).tolist()]  # fmt: skip
    names = ("name", "kind", "time", "total", "count")
    types = (pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    table = pa.table({n: pa.array(v, t) for n, v, t in zip(names, columns, types, strict=True)})
    return with_units(table.sort_by([("time", "descending"), ("name", "ascending")]), time="ns", total="ns")


def segments(path: CriticalPath, labels: Labels) -> pa.Table:
    """Every segment: its times, its kind, the name of the work or its consequence, and its place."""
    graph = path.graph
    device = path.point >= graph.base
    streams = np.array([queue.stream for queue in graph.queues] or [0], np.int64)
    stream, thread = np.zeros((2, len(device)), np.int64)
    stream[device] = streams[graph.queue[path.point[device] - graph.base]]
    threads = np.array([number & 0xFFFFFFFF for _, number in graph.by_thread.threads] or [0], np.int64)
    thread[~device] = threads[graph.by_thread.thread[path.point[~device] >> 1]]
    names = pa.DictionaryArray.from_arrays(
        pa.array(labels.of_points(path.point)), pa.array(labels.texts, pa.string())
    )
    causes = pa.DictionaryArray.from_arrays(pa.array(path.cause), pa.array(CAUSES))
    table = pa.table({
        "start": pa.array(path.begin, pa.int64()), "duration": pa.array(path.end - path.begin, pa.int64()), "cause": causes,
        "name": names, "stream": _where(device, stream), "thread": _where(~device, thread),
    })  # fmt: skip
    return with_units(table, start="ns", duration="ns")


def _where(there: Column, values: Column) -> pa.Array:
    """Integers with nulls elsewhere, without a copy of them."""
    bits = pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(values), [bits, pa.py_buffer(values)])


def _host(trace: StoredTrace, path: CriticalPath) -> pa.Table:
    """What host threads did on the path between calls."""
    chosen = np.flatnonzero(path.cause == _BETWEEN)
    found: dict[str, int] = {}
    if len(chosen) and trace.count("sample"):
        rows = trace.sql("SELECT time, thread, coalesce(stack, 0) AS stack FROM sample").fetchnumpy()
        time, thread, stack = (np.ma.getdata(rows[name]) for name in ("time", "thread", "stack"))
        at = np.searchsorted(path.begin[chosen], time, side="right") - 1
        segment = chosen[np.maximum(at, 0)]
        by_thread = path.graph.by_thread
        owner = np.array([number for _, number in by_thread.threads])[
            by_thread.thread[path.point[segment] >> 1]
        ]
        good = (at >= 0) & (time < path.end[segment]) & (thread == owner)
        ids, counts = np.unique(stack[good], return_counts=True)
        frames = trace.stacks(int(i) for i in ids if i)
        for one, count in zip(ids.tolist(), counts.tolist(), strict=True):
            text = user_frames(frames.get(one, ()), 1) or "no Python frame"
            found[text] = found.get(text, 0) + count
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    whole = max(sum(found.values()), 1)
    table = pa.table({
        "frame": pa.array([text for text, _ in ranked], pa.string()),
        "samples": pa.array([count for _, count in ranked], pa.int64()),
        "share": pa.array([count / whole * 100 for _, count in ranked], pa.float64()),
    })  # fmt: skip
    return with_units(table, share="%")


def _findings(path: CriticalPath, graph: DependencyGraph) -> list[Finding]:
    found = []
    if graph.clamped:
        text = words.counted(
            graph.clamped,
            "dependency ended after what waited for it began; it counts as no time",
            "dependencies ended after what waited for them began; they count as no time",
        )
        found.append(Finding("note", text, {"dependencies": graph.clamped}))
    if graph.unplaced:
        text = words.counted(
            graph.unplaced,
            "wait of the host has no recorded call, so no thread; it is not on the path",
            "waits of the host have no recorded call, so no thread; they are not on the path",
        )
        found.append(Finding("note", text, {"waits": graph.unplaced}))
    unknown = int((path.end - path.begin)[path.cause == CAUSES.index("nothing known before")].sum())
    if path.length and unknown > path.length // 20:
        text = f"nothing is known of the first {unknown / path.length:.0%} of the path: no call or work before it released it"
        found.append(Finding("note", text, {"time": unknown}))
    waits = int((graph.kind == WAIT).sum())
    if not waits and not len(graph.by_thread) and len(graph.work):
        text = "no host calls were recorded: the path is that of the streams alone"
        found.append(Finding("note", text, {}))
    return found
