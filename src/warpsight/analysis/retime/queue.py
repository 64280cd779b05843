"""The launch queue: a stream holds a limited number of launches, and the next launch blocks until one begins.

CUPTI marks calls during which the launch queue was full (table overhead, `command buffer full`): their streams show how many
launches a queue holds. Without marks, launches that took far longer than usual with the fullest queue ahead of them show it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path.dependencies import WAIT
from warpsight.analysis.retime import usual
from warpsight.analysis.retime.program import QUEUE, Program
from warpsight.model.work import values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Maximum launches in a CUDA stream's queue.
DEPTH = 1024
#: A launch that took this many times the usual, and this long (ns), was blocked if its queue was at its fullest.
_TIMES, _LONG = 8, 20_000
#: Launches with at most this share of the fullest queue ahead of them took their usual time.
_FREE = 0.5
#: A queue counts as full from this share of the fullest on, if this many blocked launches confirm it.
_FULL, _ENOUGH = 0.9, 4
#: The cost of a launch if none was observed (ns).
_OWN = 2_000
#: How soon a blocked launch returns after the work that made room began (ns), and the share of launches for which that must hold.
_NEAR, _MOSTLY = 20_000, 0.7
#: Table overhead's name for a full queue, and the thread number if unknown.
_MARK, _NO_THREAD = "command buffer full", np.iinfo(np.int32).min


def marked(trace: StoredTrace, program: Program) -> Column | None:
    """By place, the calls during which CUPTI found the launch queue full; None if the trace has no such marker."""
    if not trace.count("overhead"):
        return None
    numbers = {"start": 0, "duration": 0, "process": 0, "thread": _NO_THREAD}
    columns, texts = trace.columns("overhead", numbers, ["kind"])
    full = np.array([_MARK in text.casefold() for text in texts["kind"]] + [False])
    rows = np.flatnonzero(full[columns["kind"]])
    if not len(rows):
        return None
    by_thread, calls = program.graph.by_thread, program.graph.calls
    out = np.zeros(len(by_thread), bool)
    middle = columns["start"][rows] + columns["duration"][rows] // 2
    for number, (process, thread) in enumerate(by_thread.threads):
        places = np.flatnonzero(by_thread.thread == number)
        start, end = calls.start[by_thread.call[places]], calls.end[by_thread.call[places]]
        thread_of = columns["thread"][rows]
        at = middle[
            (columns["process"][rows] == process) & ((thread_of == thread) | (thread_of == _NO_THREAD))
        ]
        last = np.searchsorted(start, at, "right") - 1
        inside = (last >= 0) & (at <= end[np.maximum(last, 0)])
        out[places[last[inside]]] = True
    return out


def with_launch_queue(program: Program, full: Column | None) -> Program:
    """The program in which a launch waits while its stream's queue is full.

    Link: start of the work `depth` launches earlier on the stream → end of the call. `full` lists the calls that were blocked, by
    place (:func:`marked`).
    """
    lines = _launches(program)
    depth = _marked_depth(program, lines, full) if full is not None else None
    depth = _depth(program, lines) if depth is None else depth
    if depth is None or len(lines) <= depth:
        return program
    graph = program.graph
    queue = graph.queue[lines]
    same = np.flatnonzero(queue[depth:] == queue[:-depth])
    # The start of work is not a point of its own; the work before it in its stream represents it.
    source = program.previous[lines[same]]
    same, source = same[source >= 0], source[source >= 0]
    point = 2 * program.place[lines[same + depth]].astype(np.int64) + 1
    if not len(point):
        return program.but(depth=depth)
    begun, returned, released = graph.time[point - 1], graph.time[point], graph.end[source]
    source = _ended_just_before(program, source, begun, returned)
    released = graph.end[source]
    near = returned - released <= np.maximum(_NEAR, 0.1 * (returned - begun))
    blocked = (released > begun) & (released <= returned) & near
    function = graph.calls.function[graph.by_thread.call[point >> 1]].astype(np.int64)
    own = usual.by_code(
        returned - begun, function, np.flatnonzero(released <= begun), len(graph.calls.functions), _OWN
    )
    wake = int(np.median((returned - released)[blocked])) if blocked.any() else 0
    gap = np.where(blocked, returned - released, np.minimum(wake, returned - released))
    lag = program.lag.copy()
    lag[point[blocked]] = np.minimum(own[function[blocked]], lag[point[blocked]])
    links = program.links.joined(source + program.base, point, gap, QUEUE)
    return program.but(lag=lag, links=links, depth=depth)


def _ended_just_before(program: Program, source: Column, begun: Column, returned: Column) -> Column:
    """What made room for launches that were blocked for long: the work of their stream that ended right before they returned.

    Some launches need more room than one. For the others the source stays.
    """
    graph = program.graph
    out: Column = source.copy()
    late = returned - graph.end[source] > np.maximum(_NEAR, 0.1 * (returned - begun))
    for number in values_in(graph.queue[source[late]]).tolist():
        mine = np.flatnonzero(late & (graph.queue[source] == number) & (graph.end[source] > begun))
        nodes = np.flatnonzero(graph.queue == number)
        nodes = nodes[np.argsort(graph.end[nodes], kind="stable")]
        at = np.searchsorted(graph.end[nodes], returned[mine], "right") - 1
        out[mine] = nodes[np.maximum(at, 0)]
    return out


def _launches(program: Program) -> Column:
    """The first node of every launch, by stream and issue order."""
    order = program.graph.order
    if order is None:
        return np.zeros(0, np.int64)
    real: Column = order[(program.place[order] >= 0) & (program.graph.kind[order] != WAIT)].astype(np.int64)
    if not len(real):
        return real
    place, queue = program.place[real], program.graph.queue[real]
    first = np.r_[True, (place[1:] != place[:-1]) | (queue[1:] != queue[:-1])]
    out: Column = real[first]
    return out


def _ahead(program: Program, lines: Column) -> Column:
    """For each launch, how many launches of its stream had not begun when its call began."""
    graph = program.graph
    queue = graph.queue[lines]
    begun = graph.time[2 * program.place[lines].astype(np.int64)]
    start = graph.start[lines]
    out = np.zeros(len(lines), np.int64)
    edges = np.flatnonzero(np.r_[True, queue[1:] != queue[:-1], True]).tolist()
    for a, b in pairwise(edges):
        started = np.sort(start[a:b])
        out[a:b] = np.arange(b - a) - np.searchsorted(started, begun[a:b], "right")
    return out


def _marked_depth(program: Program, lines: Column, full: Column) -> int | None:
    """How many launches were ahead of those marked as blocked; None if there are too few."""
    mine = np.flatnonzero(full[program.place[lines]]) if len(lines) else lines
    if len(mine) < _ENOUGH:
        return None
    depth = int(np.median(_ahead(program, lines)[mine]))
    return depth if depth > 1 else None


def _depth(program: Program, lines: Column) -> int | None:
    """How many launches a stream held: as observed when launches were blocked, or CUDA's default if that was close."""
    if not len(lines):
        return None
    graph = program.graph
    ahead = _ahead(program, lines)
    point = 2 * program.place[lines].astype(np.int64)
    length = graph.time[point + 1] - graph.time[point]
    most = int(ahead.max())
    free = length[ahead < most * _FREE]
    long = length > max(_TIMES * float(np.median(free)) if len(free) else 0.0, _LONG)
    full = long & (ahead >= most * _FULL)
    if most > 1 and int(full.sum()) >= _ENOUGH:
        depth = int(np.median(ahead[full]))
        # No short call had more work ahead of it, and the long ones ended when the work that many launches earlier began.
        short = int(ahead[~long].max(initial=0))
        if short <= depth and _released(program, lines, depth, full) >= _MOSTLY:
            return depth
    return DEPTH if most >= DEPTH else None


def _released(program: Program, lines: Column, depth: int, full: Column) -> float:
    """The share of blocked launches that returned when the work `depth` launches earlier on their stream began."""
    graph = program.graph
    at = np.flatnonzero(full)
    at = at[at >= depth]
    at = at[graph.queue[lines[at]] == graph.queue[lines[at - depth]]]
    if not len(at):
        return 0.0
    point = 2 * program.place[lines[at]].astype(np.int64)
    after = graph.time[point + 1] - graph.start[lines[at - depth]]
    near = np.abs(after) <= np.maximum(_NEAR, 0.1 * (graph.time[point + 1] - graph.time[point]))
    return float(near.mean())
