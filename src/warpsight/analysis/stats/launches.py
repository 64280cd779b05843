"""From the launch call to the kernel: latency, work waiting in queues, stretches in which launching was the bottleneck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base import distribution, words
from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.stats.utilization import nothing, share
from warpsight.model import calls, intervals
from warpsight.model import work as device_work
from warpsight.model.calls import Calls
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION, Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
#: Kernels shorter than this count as short: about the host cost of a launch. ns
SHORT_NS = 10_000
#: Minimum consecutive launch-bound kernels that make a stretch.
STRETCH_KERNELS = 10
WINDOWS = 50


def launch_latency(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Per device, the time from the start of the launch call to the start of the kernel, and its parts.

    Latency is start of the kernel - start of its launch call. `call` is the length of the call itself, `queue` the part of
    latency during which earlier work of the same stream still ran or waited (the end of the stream's earlier work - start of
    the call, never below 0), `rest` what is left: what launching to an empty stream costs.

    Returns:
        Table `latency`: device, part (latency, call, queue, rest), kernels and the summary of :mod:`distribution`, in ns.
    """
    work, issued, call = _joined(trace, rows)
    found: list[dict[str, Any]] = []
    before = _earlier_end(work)
    negative = 0
    for device, index in work.per_device():
        index = index[(work.kind[index] <= COMMUNICATION) & (call[index] >= 0)]
        begin, start = issued.start[call[index]], work.start[index]
        latency = start - begin
        negative += int((latency < 0).sum())
        queue = np.clip(np.minimum(before[index], start) - begin, 0, np.maximum(latency, 0))
        parts = {
            "latency": latency,
            "call": (issued.end - issued.start)[call[index]],
            "queue": queue,
            "rest": latency - queue,
        }
        found += [
            {"device": device, "part": part, **_summary(values)}
            for part, values in parts.items()
            if len(values)
        ]
    spec = "device:int16 part:string count:int64 " + " ".join(
        f"{c}:float64:ns" for c in distribution.SUMMARY if c not in ("count", "total")
    )
    findings = list(doubts(work) + nothing(work) + _unmatched(work, call))
    if negative:
        early = words.counted(negative, "kernel begins before its", "kernels begin before their")
        text = f"{early} launch call: the clocks of device and host disagree"
        findings.append(Finding("warning", text, {"kernels": negative}))
    return Result({"latency": table(spec, found)}, tuple(findings))


def queue_depth(trace: StoredTrace, rows: Rows = _ALL, *, windows: int = WINDOWS) -> Result:
    """How much launched work waited for the device: per stream, and per device over time.

    Work waits from the start of its launch call to its start on the device. Depth is how many wait at a moment; means are over
    time. `empty` is time of the window in which nothing waited.

    Returns:
        Table `streams`: process, device, context, stream, deepest, mean depth, empty (ns) and its share of the window; table
        `depth`: device, begin, width (ns), mean depth.
    """
    work, issued, call = _joined(trace, rows, api=True, cut=True)
    known = call >= 0
    begin = np.where(known, issued.start[call] if len(issued) else 0, work.start)
    begin = np.clip(np.minimum(begin, work.start), work.begin, work.finish)
    streams: list[dict[str, Any]] = []
    for queue, index in work.per_queue():
        index = index[known[index]]
        depth, time = intervals.time_at_depth(begin[index], work.start[index])
        waited, waiting = int((depth * time).sum()), int(time.sum())
        streams.append({
            "process": queue.process, "device": queue.device, "context": queue.context, "stream": queue.stream,
            "deepest": int(depth.max(initial=0)), "mean": share(waited, work.window), "empty": work.window - waiting,
            "empty_share": share(work.window - waiting, work.window),
        })  # fmt: skip
    streams.sort(key=lambda row: -row["mean"])
    edges = intervals.windows(work.begin, work.finish, windows)
    series = []
    for device, index in work.per_device():
        index = index[known[index]]
        waited_until = intervals.integral(begin[index], work.start[index], edges)
        width = np.diff(edges)
        means = np.diff(waited_until) / np.maximum(width, 1)
        series += [{"device": device, "begin": b, "width": w, "mean": m}
                   for b, w, m in zip(edges[:-1].tolist(), width.tolist(), means.tolist(), strict=True)]  # fmt: skip
    tables = {
        "streams": table(
            "process:int32 device:int16 context:int64 stream:int64 deepest:int64 mean:float64 empty:int64:ns "
            "empty_share:float64", streams),
        "depth": table("device:int16 begin:int64:ns width:int64:ns mean:float64", series),
    }  # fmt: skip
    return Result(tables, doubts(work) + nothing(work) + _unmatched(work, call, every=True))


def launch_bound(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Stretches in which the device waited for every single launch: the host could not launch as fast as the device worked.

    A kernel is launch-bound when its launch call began after all earlier work of the device had ended. A stretch is a run of
    at least :data:`STRETCH_KERNELS` kernels of a device, in order of begin, that all are. Its `idle` time is the time between
    the end of earlier work and the start of each of its kernels.

    Returns:
        Table `stretches`: device, begin, duration, kernels, busy, idle (ns), the mean length of the launch calls, the id of the
        stack that launched the first kernel; most idle time first. Table `devices`: kernels, how many are launch-bound, and
        the idle time before them.
    """
    work, issued, call = _joined(trace, rows)
    stretches: list[dict[str, Any]] = []
    devices = []
    for device, index in work.per_device():
        before = np.maximum.accumulate(work.end[index])[:-1]
        index, known = index[1:], call[index[1:]] >= 0
        bound = known & (work.kind[index] <= COMMUNICATION)
        bound[bound] = issued.start[call[index[bound]]] >= before[bound]
        idle = np.where(bound, work.start[index] - before, 0)
        devices.append({"device": device, "kernels": int((work.kind[index] <= COMMUNICATION).sum()),
                        "launch_bound": int(bound.sum()), "idle": int(idle.sum())})  # fmt: skip
        edges = np.flatnonzero(np.diff(np.concatenate([[False], bound, [False]]).astype(np.int8)))
        first, last = edges[::2], edges[1::2]
        long = last - first >= STRETCH_KERNELS
        first, last = first[long], last[long]
        sums = _sums(np.stack([idle, (issued.end - issued.start)[call[index]] if len(issued) else idle]))
        for a, b in zip(first.tolist(), last.tolist(), strict=True):
            begin, end = int(before[a]), int(work.end[index[a:b]].max())
            lost, called = (int(s[b] - s[a]) for s in sums)
            stretches.append({"device": device, "begin": begin, "duration": end - begin, "kernels": b - a,
                              "busy": end - begin - lost, "idle": lost, "call_mean": called / (b - a),
                              "stack": int(issued.stack[call[index[a]]]) or None})  # fmt: skip
    stretches.sort(key=lambda row: (-row["idle"], row["begin"]))
    tables = {
        "stretches": table(
            """device:int16 begin:int64:ns duration:int64:ns kernels:int64 busy:int64:ns idle:int64:ns
            call_mean:float64:ns stack:int64""",
            stretches),
        "devices": table("device:int16 kernels:int64 launch_bound:int64 idle:int64:ns", devices),
    }  # fmt: skip
    return Result(tables, doubts(work) + nothing(work) + _unmatched(work, call))


def launch_overhead(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Per device, the share of short kernels, of kernels that run shorter than their launch call took, and of graph kernels.

    `short` kernels run less than :data:`SHORT_NS`; `dominated` ones less than their launch call (a graph's call counts in
    equal parts for each of its kernels). `call_time` is the summed length of the launch calls, once each. `graph` kernels ran
    as part of a CUDA graph, `graph_launches` is how many calls launched graphs.

    Returns:
        Table `launch-overhead`, one row per device: counts, times in ns, shares 0 to 1 of kernels and of kernel time.
    """
    work, issued, call = _joined(trace, rows)
    graph = _graph_rows(trace, rows, work)
    found = []
    for device, index in work.per_device():
        index = index[work.kind[index] <= COMMUNICATION]
        duration, own = work.end[index] - work.start[index], call[index]
        total, count = int(duration.sum()), len(index)
        short, known = duration < SHORT_NS, own >= 0
        sharing = np.bincount(own[known], minlength=len(issued))
        used = np.flatnonzero(sharing)
        cost = issued.end - issued.start
        dominated = duration[known] < (cost / np.maximum(sharing, 1))[own[known]]
        graphs = graph[index]
        found.append({
            "device": device, "kernels": count, "kernel_time": total, "short": int(short.sum()),
            "short_share": share(int(short.sum()), count), "short_time_share": share(int(duration[short].sum()), total),
            "calls": len(used), "call_time": int(cost[used].sum()), "dominated": int(dominated.sum()),
            "dominated_share": share(int(dominated.sum()), int(known.sum())), "graph": int(graphs.sum()),
            "graph_share": share(int(graphs.sum()), count), "graph_time_share": share(int(duration[graphs].sum()), total),
            "graph_launches": int(np.count_nonzero(np.bincount(own[graphs & known]))),
        })  # fmt: skip
    spec = """device:int16 kernels:int64 kernel_time:int64:ns short:int64 short_share:float64 short_time_share:float64
        calls:int64 call_time:int64:ns dominated:int64 dominated_share:float64 graph:int64 graph_share:float64
        graph_time_share:float64 graph_launches:int64"""
    doubtful = doubts(work) + nothing(work) + _unmatched(work, call)
    return Result({"launch-overhead": table(spec, found)}, doubtful)


def _joined(
    trace: StoredTrace, rows: Rows, *, api: bool = False, cut: bool = False
) -> tuple[Work, Calls, Column]:
    work = device_work.load(trace, rows, cut=cut)
    return work, *calls.of_work(trace, work, api=api)


def _earlier_end(work: Work) -> Column:
    """For each row, when all earlier work of its stream had ended; a time in the distant past if there is none."""
    out = np.full(len(work), np.iinfo(np.int64).min // 2)
    for _, index in work.per_queue():
        out[index[1:]] = np.maximum.accumulate(work.end[index])[:-1]
    return out


def _summary(values: Column) -> dict[str, Any]:
    _, histogram = distribution.count_columns([(np.zeros(len(values), np.int32), values)])
    return {
        name: column[0].item()
        for name, column in distribution.summarize(histogram).items()
        if name != "total"
    }


def _sums(rows: Column) -> Column:
    """Running sums of each row, with a 0 in front."""
    return np.concatenate([np.zeros((len(rows), 1), np.int64), np.cumsum(rows, axis=1)], axis=1)


def _graph_rows(trace: StoredTrace, rows: Rows, work: Work) -> Column:
    """Which rows are kernels of a graph: their launch correlations are those of graph kernels."""
    where = Rows(None, None, rows.devices, rows.streams, rows.processes).where()
    sql = f"SELECT DISTINCT process, correlation FROM kernel_ids WHERE graph IS NOT NULL AND correlation IS NOT NULL AND {where}"
    process, correlation = (c.to_numpy() for c in trace.sql(sql).to_arrow_table().columns)
    return calls.joined(work.process, work.correlation, process, correlation) >= 0


def _unmatched(work: Work, call: Column, *, every: bool = False) -> tuple[Finding, ...]:
    """The finding that some work has no launch call in the trace."""
    concerned = np.ones(len(work), bool) if every else work.kind <= COMMUNICATION
    missing, of = int((concerned & (call < 0)).sum()), int(concerned.sum())
    if not missing:
        return ()
    what = "kernels, copies and sets" if every else "kernels"
    left = "it is" if missing == 1 else "they are"
    text = f"the launch calls of {missing:,} of {of:,} {what} are not in the trace; {left} left out where calls count"
    return (Finding("note", text, {"rows": missing, "of": of}),)
