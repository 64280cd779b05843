"""Programs without the cause of one class of the account: the remaining time bounds the possible saving."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path import dependencies as path
from warpsight.analysis.retime import waiting
from warpsight.analysis.retime.program import Links, Program
from warpsight.model.naming.api_names import is_gpu_api
from warpsight.model.work import COMMUNICATION, COPY, KERNEL, SET, values_in

Column = npt.NDArray[Any]
_STREAMS = (path.EVENT, path.DEFAULT, path.LISTED)


def kernels(program: Program, ids: Column) -> Program:
    """Kernels with these name ids take no time, nor do their page faults; their launches stay."""
    work = program.graph.work
    chosen = np.flatnonzero(np.isin(work.name_id, ids) & np.isin(work.kind, (KERNEL, COMMUNICATION)))
    pages, kernel = _faulted(program, chosen)
    if not len(pages):
        return _timeless(program, chosen)
    arrival, gap, delay = program.arrival.copy(), program.gap.copy(), program.delay.copy()
    arrival[pages] -= program.graph.start[pages] - program.graph.start[kernel]
    gap[pages] = np.minimum(gap[pages], 0)
    delay[pages] = 0
    return _timeless(program.but(arrival=arrival, gap=gap, delay=delay), np.append(chosen, pages))


def _faulted(program: Program, chosen: Column) -> tuple[Column, Column]:
    """Pages of managed memory that moved while one of these kernels ran, and that kernel: no call moves them."""
    graph = program.graph
    _, target, kind = graph.edges
    moved = graph.kind == COPY
    moved[target[kind == path.LAUNCH] - program.base] = False
    pages = np.flatnonzero(moved)
    if not len(pages) or not len(chosen):
        return pages[:0], pages[:0]
    chosen = chosen[np.argsort(graph.start[chosen], kind="stable")]
    kernel = chosen[np.maximum(np.searchsorted(graph.start[chosen], graph.start[pages], "right") - 1, 0)]
    inside = (graph.start[kernel] <= graph.start[pages]) & (graph.start[pages] < graph.end[kernel])
    _, device = graph.work.device_index()
    inside &= device[pages] == device[kernel]
    return pages[inside], kernel[inside]


def communication(program: Program) -> Program:
    """Collectives take no time, and ranks do not wait for each other in them."""
    return _timeless(program, np.flatnonzero(program.graph.kind == COMMUNICATION))


def copies(program: Program) -> Program:
    """Copies and fills, and their calls, take no time (including staging of pageable memory), but they still wait."""
    chosen = np.flatnonzero(np.isin(program.graph.kind, (COPY, SET)))
    issued = program.place[chosen]
    points = 2 * np.unique(issued[issued >= 0]).astype(np.int64) + 1
    return _timeless(_instant(program, points), chosen)


def chosen_copies(program: Program, chosen: Column) -> Program:
    """Some copies or fills (nodes) take no time, and their calls return immediately."""
    issued = program.place[chosen]
    points = 2 * values_in(issued[issued >= 0]).astype(np.int64) + 1
    return _timeless(_returning(program, points), chosen)


def _timeless(program: Program, chosen: Column) -> Program:
    duration = program.duration.copy()
    duration[chosen] = 0
    return program.but(duration=duration)


def calls(program: Program, function: str) -> Program:
    """Make all calls of a function return at once, whatever they waited for."""
    graph = program.graph
    if function not in graph.calls.functions:
        return program
    number = graph.calls.functions.index(function)
    mine = graph.calls.function[graph.by_thread.call] == number
    points = 2 * np.flatnonzero(mine) + 1
    return _returning(program, points)


def _returning(program: Program, points: Column) -> Program:
    """Calls with these ends return immediately."""
    program = _instant(program, points)
    kept = ~np.isin(program.links.target, points)
    links = program.links
    fewer = Links(links.source[kept], links.target[kept], links.lag[kept], links.kind[kept])
    return program.but(links=fewer)


def _instant(program: Program, points: Column) -> Program:
    """Calls with these ends only wait; their work begins when they do, without staging memory first."""
    lag, after, arrival = program.lag.copy(), program.after.copy(), program.arrival.copy()
    lag[points] = after[points] = 0
    lag[waiting.inside(program, points)] = 0
    staged = (arrival < 0) | program.from_begin
    arrival[staged & np.isin(2 * program.place + 1, points)] = 0
    return program.but(lag=lag, after=after, arrival=arrival)


def host_code(program: Program) -> Program:
    """Nothing happens on the host between two GPU calls, system calls included."""
    lag = program.lag.copy()
    lag[_between_calls(program)] = 0
    lag[2 * _of_the_system(program) + 1] = 0
    lag[np.flatnonzero(program.before < 0)] -= _before_all_calls(program)
    return program.but(lag=lag)


def _between_calls(program: Program) -> Column:
    """Points before which the host's own code ran, outside of the GPU's calls."""
    points = np.flatnonzero(program.before >= 0)
    points = points[program.before[points] != points - (points & 1)]
    ends = 2 * np.flatnonzero(_of_the_gpu(program)) + 1
    return np.setdiff1d(points, np.concatenate([ends, waiting.inside(program, ends)]), assume_unique=True)


def _of_the_gpu(program: Program) -> Column:
    """Whether each call, in the order of the threads, is one of the GPU's interfaces."""
    graph, calls = program.graph, program.graph.calls
    gpu = np.array([is_gpu_api(name) for name in calls.functions] + [True], bool)
    own: Column = gpu[calls.function[graph.by_thread.call]]
    return own


def _before_all_calls(program: Program) -> int:
    """How long the device was idle before the first call (ns), ignoring work launched before the recording."""
    graph = program.graph
    first = graph.time[: program.base].min() if program.base else 0
    earlier = graph.end[graph.start < first]
    return max(int(first - earlier.max()), 0) if len(earlier) else 0


def _of_the_system(program: Program) -> Column:
    """Calls of interfaces other than the GPU's that are not inside one of the GPU's, as indices of all calls by thread."""
    own = _of_the_gpu(program)
    inside = waiting.inside(program, 2 * np.flatnonzero(own) + 1)
    own[inside[inside % 2 == 0] >> 1] = True
    return np.flatnonzero(~own)


def launching(program: Program, short: int) -> Program:
    """Launches take no time, nor does the host's own code between two calls if it is short (ns)."""
    points, lag = _between_calls(program), program.lag.copy()
    lag[points[lag[points] <= short]] = 0
    return launches(program.but(lag=lag))


def launches(program: Program) -> Program:
    """Launch calls take no time; the launched work arrives at once and follows its predecessor without a gap."""
    points = 2 * values_in(program.place[program.place >= 0]).astype(np.int64) + 1
    lag = program.lag.copy()
    lag[points] = np.minimum(lag[points], 0)
    lag[waiting.inside(program, points)] = 0
    launched = program.place >= 0
    arrival, gap = (
        np.where(launched, np.minimum(values, 0), values) for values in (program.arrival, program.gap)
    )
    return program.but(lag=lag, arrival=arrival, gap=gap)


def other_streams(program: Program) -> Program:
    """No stream waits for another, not even for one outside the trace."""
    links = program.links
    kept = ~(np.isin(links.kind, _STREAMS) & (links.target >= program.base))
    delay = program.delay.copy()
    delay[waiting.after_stream_waits(program)] = 0
    return program.but(
        delay=delay, links=Links(links.source[kept], links.target[kept], links.lag[kept], links.kind[kept])
    )


def unexplained(program: Program) -> Program:
    """Device work begins as soon as its known dependencies allow; work without a launch call begins at once."""
    return program.but(delay=np.zeros_like(program.delay))
