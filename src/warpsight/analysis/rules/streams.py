"""Streams that could overlap but do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.path import dependencies as dependency
from warpsight.analysis.rules import grids
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model import intervals
from warpsight.model.selection import Rows
from warpsight.model.work import KERNEL, Work, split

Column = npt.NDArray[Any]
#: Minimum share of the device's kernel time for a stream to take part.
_PART = 0.05
#: Streams are serialized when kernels of different streams overlap for less than this share of the busy time.
_OVERLAPPED = 0.1


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about streams that wait for each other, one per device."""
    work = facts.work
    count, time = facts.kernels_of_queues  # collectives that overlap nothing are exposed communication
    for device, index in work.per_device():
        queues = np.array(work.devices[device])
        streams = queues[time[queues] >= _PART * time[queues].sum()]
        if int(count[queues].sum()) < 20 or len(streams) < 2:
            continue
        yield from _device(facts, device, index[work.kind[index] == KERNEL], np.sort(streams))


def _device(facts: Facts, device: int | None, index: Column, streams: Column) -> Iterator[Finding]:
    work = facts.work
    chosen = index[np.isin(work.queue[index], streams)]
    unions = [
        intervals.union(work.start[rows], work.end[rows])
        for rows in (chosen[i] for i in split(np.searchsorted(streams, work.queue[chosen]), len(streams)))
    ]
    busy = intervals.union(
        work.start[chosen], work.end[chosen]
    ).total  # rows are sorted, sets would have to be
    each = sum(one.total for one in unions)
    if each - busy > _OVERLAPPED * busy:
        return
    small, blocks = _room(facts)
    if small < 0.5:  # kernels that fill the device, or may, gain little from running side by side
        return
    cost = busy - max(one.total for one in unions)
    if cost < 0.02 * facts.length:
        return
    why, kind, edges = _reason(facts, chosen)
    seldom = "never" if each == busy else "hardly ever"
    text = (
        f"serialised streams: kernels of {len(streams)} streams of GPU {device} {seldom} run side by side{why}, "
        f"though {small:.0%} of their time is in kernels too small to fill it"
    )
    evidence = [f"median grid {blocks:,.0f} blocks"]
    if edges:
        evidence.append(f"{words.counted(edges, 'kernel was', 'kernels were')} released by {kind}")
    stack = facts.common_stack(work.stack[chosen])
    if stack:
        evidence.append(f"launched by {facts.stack_text(stack)}")
    yield Finding("warning", text, {"streams": len(streams), "busy": busy, "edges": edges}, "streams/serialised", cost,
                  tuple(evidence), _ADVICE[kind], at=_turns(work, chosen))  # fmt: skip


def _turns(work: Work, chosen: Column) -> tuple[int, int]:
    """The shortest stretch in which the streams take turns several times."""
    rows = chosen[np.argsort(work.start[chosen], kind="stable")]
    changes = np.flatnonzero(np.diff(work.queue[rows]))
    count = min(8, len(changes))
    begin, end = changes[: len(changes) - count + 1], changes[count - 1 :] + 1
    shortest = int(np.argmin(work.end[rows[end]] - work.start[rows[begin]]))
    return int(work.start[rows[begin[shortest]]]), int(work.end[rows[end[shortest]]])


_ADVICE = {
    "": "Launch to several streams in turns, keep each stream's queue filled, and avoid calls that wait for the whole device.",
    "the legacy default stream": (
        "Launch nothing to the default stream between them: make the streams non-blocking (cudaStreamCreateWithFlags with "
        "cudaStreamNonBlocking) or compile with --default-stream per-thread."
    ),
    "an event of another stream": "Wait for events only where data is passed on; independent work on other streams "
    "does not need them.",
    "the host": "Keep several streams filled: the host waits, or launches, between the kernels of one stream and the next.",
}


def _room(facts: Facts) -> tuple[float, float]:
    """Share of kernel time in kernels known to have fewer blocks than the device has multiprocessors; the median grid."""
    units = max(
        (count or 0 for _, count in facts.trace.rows("device", "device", "multiprocessors")), default=0
    )
    found = grids.kernels(facts.trace, facts.rows, facts.window) if units else {"blocks": np.zeros(0)}
    blocks = found["blocks"]
    if not len(blocks):
        return 0.0, 0.0
    duration = found["duration"]
    unfilled = grids.unfilled(facts.trace, found["place"][(blocks > 0) & (blocks < units)])
    small = float(unfilled.sum()) / max(float(duration.sum()), 1)
    return small, float(np.median(blocks))


def _reason(facts: Facts, chosen: Column) -> tuple[str, str, int]:
    """What released most kernels that came after one on another stream, by the dependency graph: text, name, count."""
    begin, end = facts.window
    device = Rows(begin, end, facts.rows.devices, (), facts.rows.processes)
    graph = dependency.build(facts.trace, device, host_rows=_of_host(facts, chosen))
    cause = graph.cause[graph.base :]
    counts = np.bincount(cause, minlength=len(dependency.EDGES))
    default, event = int(counts[dependency.DEFAULT]), int(counts[dependency.EVENT])
    default += _through(graph, dependency.DEFAULT)
    if default >= max(event, 0.2 * len(chosen)):
        return (
            " because work on the legacy default stream is between them",
            "the legacy default stream",
            default,
        )
    if event >= 0.2 * len(chosen):
        return " because they wait for each other's events", "an event of another stream", event
    late = int(counts[dependency.LAUNCH])
    if late >= 0.5 * len(chosen):
        return " because the host launches to one after the other is done", "the host", late
    return "", "", 0


def _of_host(facts: Facts, chosen: Column) -> Rows:
    """The calls that can have issued some work: of the whole trace, or of the time in which it was launched.

    The host runs ahead of the device.
    """
    processes = facts.rows.processes
    if facts.rows.begin is None and facts.rows.end is None:
        return Rows(processes=processes)
    call = facts.call[chosen]
    call = call[call >= 0]
    begin, end = facts.window
    if len(call):
        begin, end = (
            min(begin, int(facts.calls.start[call].min())),
            max(end, int(facts.calls.end[call].max()) + 1),
        )
    return Rows(begin, end, processes=processes)


def _through(graph: dependency.DependencyGraph, kind: int) -> int:
    """Nodes with an edge of a kind whose parent did not release them: their own stream released them at the same moment."""
    source, target, kinds = graph.edges
    chosen = kinds == kind
    tied = graph.time[source[chosen]] >= graph.start[target[chosen] - graph.base] - 5_000
    return int((tied & (graph.cause[target[chosen]] != kind)).sum())
