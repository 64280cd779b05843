"""The launch queue: a stream holds so many launches, and the next one blocks until one of them begins.

CUPTI marks launches that were blocked. A launch that took far longer than usual while its stream had at least
:data:`DEPTH` launches ahead of it counts as blocked too, so that sources without that mark behave the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.retime import usual
from warpsight.analysis.retime.program import QUEUE, Program

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
#: Launches that a CUDA stream holds.
DEPTH = 1024
#: How near to the depth a queue counts as full.
_FULL = 0.9


def with_launch_queue(trace: Trace, program: Program) -> Program:
    """The program in which a launch waits while its stream holds as many launches as it can.

    Link: begin of the work `depth` launches earlier on the stream → end of the call.
    """
    lines = _launches(program)
    if not len(lines):
        return program
    ahead = _ahead(program, lines)
    depth = _depth(program, lines, ahead)
    if depth is None:
        return program
    same = (
        np.flatnonzero(_queue(program, lines)[depth:] == _queue(program, lines)[:-depth])
        if len(lines) > depth
        else np.zeros(0, np.int64)
    )
    if not len(same):
        return program
    graph = program.graph
    one, two = lines[same], lines[same + depth]
    point = 2 * program.place[two].astype(np.int64) + 1
    # The source is the end of the node before the one that has to begin: its begin is not a point of its own.
    source = program.previous[one]
    good = source >= 0
    one, point, source = one[good], point[good], source[good]
    begun, returned = graph.time[point - 1], graph.time[point]
    released = graph.end[source]
    blocked = (released > begun) & (released <= returned)
    own = usual.by_code(returned - begun, graph.calls.function[graph.by_thread.call[point >> 1]].astype(np.int64),
                        np.flatnonzero(released <= begun), len(graph.calls.functions), 2_000)  # fmt: skip
    function = graph.calls.function[graph.by_thread.call[point >> 1]].astype(np.int64)
    wake = int(np.median((returned - released)[blocked])) if blocked.any() else 0
    gap = np.where(blocked, returned - released, np.minimum(wake, returned - released))
    lag = program.lag.copy()
    lag[point[blocked]] = np.minimum(own[function[blocked]], lag[point[blocked]])
    links = program.links.joined(source + program.base, point, gap, QUEUE)
    return program.but(lag=lag, links=links, depth=depth)


def _launches(program: Program) -> Column:
    """The first node of every launch, by stream and issue."""
    order = program.graph.order
    if order is None:
        return np.zeros(0, np.int64)
    real = order[(program.place[order] >= 0) & (program.graph.kind[order] < 4)].astype(np.int64)
    if not len(real):
        return real
    place, queue = program.place[real], program.graph.queue[real]
    first = np.r_[True, (place[1:] != place[:-1]) | (queue[1:] != queue[:-1])]
    out: Column = real[first]
    return out


def _queue(program: Program, lines: Column) -> Column:
    out: Column = program.graph.queue[lines]
    return out


def _ahead(program: Program, lines: Column) -> Column:
    """For each launch how many launches of its stream had not begun when its call began."""
    graph = program.graph
    queue = _queue(program, lines)
    begun = graph.time[2 * program.place[lines].astype(np.int64)]
    start = graph.start[lines]
    out = np.zeros(len(lines), np.int64)
    edges = np.flatnonzero(np.r_[True, queue[1:] != queue[:-1], True])
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        started = np.sort(start[a:b])
        out[a:b] = np.arange(b - a) - np.searchsorted(started, begun[a:b], "right")
    return out


def _depth(program: Program, lines: Column, ahead: Column) -> int | None:
    """How many launches a stream held: what was seen where launches were blocked; None where the queue was never full."""
    graph = program.graph
    point = 2 * program.place[lines].astype(np.int64)
    length = graph.time[point + 1] - graph.time[point]
    most = int(ahead.max(initial=0))
    if most < 64:
        return None
    full = ahead >= most * _FULL
    free = ahead < most * 0.5
    if not free.any() or full.sum() < 8:
        return None
    slow = np.median(length[full]) > 4 * max(int(np.median(length[free])), 1_000)
    return most if slow else DEPTH if most >= DEPTH else None
