"""The critical path: the chain of work, calls and waits that the length of the recording is made of.

Every point of the dependency graph (begin and end of a call, end of device work) was released by the last of the things it
waited for. Followed backwards from the last moment, these releases partition the recorded time: each nanosecond belongs to
exactly one segment, with the cause why nothing could go on earlier. With an edge weighing the time it really took where it
was the last, and nothing where it was not, the chain is the longest path of the graph (docs/explanation/critical-path.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.analysis.base.frames import user_frames
from warpsight.analysis.base.result import Finding, Result, with_units
from warpsight.analysis.path import dependencies as dependency
from warpsight.analysis.path.dependencies import DependencyGraph
from warpsight.analysis.path.rows import NODE_KINDS, WAIT
from warpsight.analysis.steps import iterations
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
_ALL = Rows()
#: What a segment can be, in words; the first three are work on the device.
CAUSES = (
    "kernel", "copy", "fill", "launch latency", "gap in the stream", "waiting for an event",
    "waiting for the default stream", "gap in a graph", "waiting for a listed event", "host call", "host between calls",
    "wake-up after a wait", "return of a blocking call", "hand-over between threads", "nothing known before",
)  # fmt: skip
_OF_EDGE = {
    dependency.LAUNCH: 3, dependency.STREAM: 4, dependency.EVENT: 5, dependency.DEFAULT: 6, dependency.GRAPH: 7,
    dependency.LISTED: 8, dependency.CALL: 9, dependency.HOST: 10, dependency.SYNC: 11, dependency.BLOCKING: 12,
    dependency.HANDOVER: 13, dependency.START: 14,
}  # fmt: skip
#: Causes that mean the device worked, that the host was in the way, or that both waited for the other's news.
ON_DEVICE, ON_HOST = frozenset((0, 1, 2)), frozenset((9, 10, 13, 14))


#: Segments whose names are made at once: as Python objects and texts they take more than all else that is known of them.
_PIECE = 1 << 20


@dataclass(frozen=True)
class CriticalPath:
    """The path in order of time: segment i is from ``begin[i]`` to ``end[i]``, ends at ``point[i]`` and is of ``cause[i]``.

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
    none = np.zeros(0, np.int64)
    if not len(graph):
        return CriticalPath(graph, none, none, none, none)
    points = chain(graph.parent, int(np.argmax(graph.time)))
    base = 2 * len(graph.calls)
    device = points >= base
    node = np.where(device, points - base, 0)
    starts = graph.start[node] if len(graph.start) else np.zeros(len(points), np.int64)
    # Times backwards along the path: end of the point, begin of its work, end of the one before it, …
    edges: Column = np.empty(2 * len(points) + 1, np.int64)
    edges[0:-1:2] = graph.time[points]
    edges[1::2] = np.where(device, starts, graph.time[points])
    first = [int(column.min()) for column in (graph.time, graph.start) if len(column)]
    edges[-1] = min(first)
    edges = np.minimum.accumulate(edges)
    of_edge = np.array([_OF_EDGE[edge] for edge in range(len(dependency.EDGES))])
    cause: Column = np.empty(2 * len(points), np.int64)
    cause[0::2] = np.where(device, graph.kind[node] if len(graph.kind) else 0, 0)
    cause[1::2] = of_edge[graph.cause[points]]
    cause[-1] = of_edge[dependency.START]
    where = np.repeat(points, 2)
    # A begin's segment leads to it, and so does that of an end; both are named after the point they lead to.
    kept = (edges[:-1] > edges[1:])[::-1]
    return CriticalPath(
        graph, edges[1:][::-1][kept], edges[:-1][::-1][kept], cause[::-1][kept], where[::-1][kept]
    )


def chain(parent: Column, last: int) -> Column:
    """A point and its ancestors. Runs in which each parent is the place before are taken in one step."""
    heads = np.flatnonzero(
        parent != np.arange(-1, len(parent) - 1, dtype=parent.dtype)
    )  # parent[0] is -1 too: a root, not the place before
    heads = heads if len(heads) and heads[0] == 0 else np.append(0, heads)
    above = parent[heads]
    run_above = np.searchsorted(heads, above, side="right") - 1
    firsts, afters, runs = heads.tolist(), above.tolist(), run_above.tolist()
    run = int(np.searchsorted(heads, last, side="right")) - 1
    begins, ends = [], []
    while last >= 0:
        begins.append(last)
        ends.append(firsts[run])
        last, run = afters[run], runs[run]
    del firsts, afters, runs
    begin = np.array(begins)
    lengths = begin - np.array(ends) + 1
    # The place in the chain and the point add up to the same number all along a run.
    sums = begin + np.cumsum(lengths) - lengths
    out: Column = np.repeat(sums, lengths)
    out -= np.arange(len(out), dtype=parent.dtype)
    return out.astype(parent.dtype)


def critical_path(trace: Trace, rows: Rows = _ALL) -> Result:
    """What the recorded time was spent on, along the chain of what released what.

    Tables:
        causes: per cause (:data:`CAUSES`) the time and share of the path, and its segments.
        steady: the same within the steady state of the main loop, without start-up; empty without iterations.
        on_path: per kernel, copy or call the time it was on the path, and the time it took altogether.
        path: every segment in order of time, with what it was and what it led to.
        host: where the threads' samples were in segments between calls, by the innermost frame of the user's own code (samples,
            and their share of that time); empty without samples.
    """
    graph = dependency.build(trace, rows, edges=False)
    path = trace_back(graph)
    labels = Labels(trace, graph)
    tables = {
        "causes": _causes(path),
        "steady": _causes(_steady(trace, rows, path)),
        "on_path": _on_path(path, labels),
        "host": _host(trace, path),
        "path": segments(path, labels),
    }
    return Result(tables, tuple(_findings(path, graph)))


def _steady(trace: Trace, rows: Rows, path: CriticalPath) -> CriticalPath:
    """The part of a path within the steady state of the main loop."""
    windows = [w for w in (one.window() for one in iterations.find(trace, rows)) if w is not None]
    begin, end = min((w[0] for w in windows), default=0), max((w[1] for w in windows), default=0)
    first, last = np.clip(path.begin, begin, end), np.clip(path.end, begin, end)
    kept = last > first
    return CriticalPath(path.graph, first[kept], last[kept], path.cause[kept], path.point[kept])


class Labels:
    """Names of calls and device nodes."""

    def __init__(self, trace: Trace, graph: DependencyGraph) -> None:
        """Read the names of the kernels."""
        names = dict(trace.sql("SELECT id, short FROM name").fetchall())
        self._graph = graph
        work = graph.work
        low = -len(work.texts)
        high = max(max(names, default=0), int(work.name.max(initial=0)))  # an id may lack its name
        texts = np.full(high + 1 - low, "?", object)
        for number, text in names.items():
            texts[number - low] = text
        for place, text in enumerate(work.texts[1:], 1):
            texts[-place - low] = text
        self._texts, self._low = texts, low

    def nodes(self, node: Column) -> Column:
        """Names of device nodes."""
        count = len(self._graph.work)
        out = np.full(len(node), "wait for another stream", object)
        real = node < count
        out[real] = self._texts[self._graph.work.name[node[real]] - self._low]
        return out

    def calls(self, call: Column) -> Column:
        """Names of calls."""
        functions = np.array([*self._graph.calls.functions, "?"], object)
        return (
            functions[self._graph.calls.function[call].astype(np.int64)] if len(call) else np.zeros(0, object)
        )

    def points(self, point: Column) -> Column:
        """Names of points."""
        base = 2 * len(self._graph.calls)
        out = np.empty(len(point), object)
        device = point >= base
        out[device] = self.nodes(point[device] - base)
        out[~device] = self.calls(point[~device] // 2)
        return out


def _causes(path: CriticalPath) -> pa.Table:
    length = path.end - path.begin
    total = np.zeros(len(CAUSES), np.int64)
    np.add.at(total, path.cause, length)
    count = np.bincount(path.cause, minlength=len(CAUSES))
    order = [i for i in np.argsort(-total, kind="stable").tolist() if count[i]]
    whole = max(int(total.sum()), 1)
    table = pa.table({
        "cause": pa.array([CAUSES[i] for i in order], pa.string()), "time": pa.array(total[order], pa.int64()),
        "share": pa.array(total[order] / whole * 100, pa.float64()), "segments": pa.array(count[order], pa.int64()),
    })  # fmt: skip
    return with_units(table, time="ns", share="%")


def _on_path(path: CriticalPath, labels: Labels) -> pa.Table:
    """Device work and calls by name: time on the path and altogether."""
    graph, base = path.graph, 2 * len(path.graph.calls)
    running = np.isin(path.cause, list(ON_DEVICE)) & (path.point >= base)
    calling = path.cause == 9
    out: dict[str, list[Any]] = {"name": [], "kind": [], "time": [], "total": [], "count": []}
    work = graph.work
    ids, inverse = device_work.distinct(work.name)
    whole = device_work.summed(inverse, work.end - work.start, len(ids))
    node = path.point[running] - base
    real = node < len(work)
    place = np.searchsorted(ids, work.name[node[real]])
    time, count = np.zeros(len(ids), np.int64), np.bincount(place, minlength=len(ids))
    np.add.at(time, place, (path.end - path.begin)[running][real])
    first = np.zeros(len(ids), np.int64)
    first[inverse] = np.arange(len(work))
    for i in np.flatnonzero(count).tolist():
        kind = NODE_KINDS[int(work.kind[first[i]])]
        _row(out, labels.nodes(first[i : i + 1])[0], kind, int(time[i]), int(whole[i]), int(count[i]))
    functions = graph.calls.functions
    of_call = graph.calls.function[path.point[calling] // 2].astype(np.int64)
    spent = np.zeros(len(functions), np.int64)
    np.add.at(spent, of_call, (path.end - path.begin)[calling])
    all_calls = np.zeros(len(functions), np.int64)
    np.add.at(all_calls, graph.calls.function.astype(np.int64), graph.calls.end - graph.calls.start)
    met = np.bincount(of_call, minlength=len(functions))
    for i in np.flatnonzero(met).tolist():
        _row(out, functions[i], "call", int(spent[i]), int(all_calls[i]), int(met[i]))
    types = (pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    table = pa.table({n: pa.array(v, t) for (n, v), t in zip(out.items(), types, strict=True)})
    return with_units(table.sort_by([("time", "descending"), ("name", "ascending")]), time="ns", total="ns")


def _row(out: dict[str, list[Any]], *values: Any) -> None:
    for column, value in zip(out.values(), values, strict=True):
        column.append(value)


def segments(path: CriticalPath, labels: Labels) -> pa.Table:
    """Every segment: when, what, the name of what ran or of what it led to, and where."""
    graph, base = path.graph, 2 * len(path.graph.calls)
    device = path.point >= base
    node = np.where(device, path.point - base, 0)
    call = np.where(device, 0, path.point // 2)
    stream = np.array(graph.stream_ids.stream, np.int64)[graph.stream[node]] if len(graph.stream) else node
    thread = graph.calls.thread[call] & 0xFFFFFFFF if len(graph.calls) else call
    pieces = [
        pa.array(labels.points(path.point[at : at + _PIECE]), pa.string()).dictionary_encode()
        for at in range(0, max(len(path.point), 1), _PIECE)
    ]
    names = pa.chunked_array(pieces).unify_dictionaries().combine_chunks()
    causes = pa.DictionaryArray.from_arrays(pa.array(path.cause.astype(np.int8)), pa.array(CAUSES))
    table = pa.table({
        "start": pa.array(path.begin, pa.int64()), "duration": pa.array(path.end - path.begin, pa.int64()), "cause": causes,
        "name": names, "stream": pa.array(stream, pa.int64(), mask=~device), "thread": pa.array(thread, pa.int64(), mask=device),
    })  # fmt: skip
    return with_units(table, start="ns", duration="ns")


def _host(trace: Trace, path: CriticalPath) -> pa.Table:
    """What host threads did on the path outside of calls."""
    chosen = np.flatnonzero(path.cause == CAUSES.index("host between calls"))
    found: dict[str, int] = {}
    if len(chosen) and trace.count("sample"):
        rows = trace.sql("SELECT time, thread, coalesce(stack, 0) AS stack FROM sample").fetchnumpy()
        time, thread, stack = (np.ma.getdata(rows[name]) for name in ("time", "thread", "stack"))
        at = np.searchsorted(path.begin[chosen], time, side="right") - 1
        segment = chosen[np.maximum(at, 0)]
        owner = path.graph.calls.thread[path.point[segment] // 2] & 0xFFFFFFFF
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
        text = f"{graph.clamped:,} dependencies ended after what waited for them began; they count as no time"
        found.append(Finding("note", text, {"dependencies": graph.clamped}))
    if graph.unplaced:
        text = f"{graph.unplaced:,} waits of the host have no recorded call, so no thread; they are not on the path"
        found.append(Finding("note", text, {"waits": graph.unplaced}))
    unknown = int((path.end - path.begin)[path.cause == 14].sum())
    if path.length and unknown > path.length // 20:
        text = f"nothing is known of the first {unknown / path.length:.0%} of the path: no call or work before it released it"
        found.append(Finding("note", text, {"time": unknown}))
    waits = int((graph.kind == WAIT).sum())
    if not waits and not len(graph.calls) and len(graph.work):
        text = "no host calls were recorded: the path is that of the streams alone"
        found.append(Finding("note", text, {}))
    return found
