"""Launches moved into CUDA graphs: one call instead of many, with nodes that run at the graph's pace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path import dependencies as path
from warpsight.analysis.retime.program import Program
from warpsight.analysis.steps import iterations
from warpsight.simulate import selecting
from warpsight.simulate.change import Change

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Host time of one graph launch, and of each of its nodes (ns): least, usual, most.
_CALL, _NODE = (4_000, 8_000, 15_000), (0, 10, 100)
#: Time between two nodes of a graph in one stream (ns): least, usual, most.
_GAP = (300, 500, 1_000)
USUAL_GAP = _GAP[1]


def captured(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    """The program with its launches in graphs: one per range with a matching name, otherwise one per iteration.

    A graph ends at whatever waits for the device. Host code between the launches of a graph does not run again.
    """
    launches = np.flatnonzero(selecting.launches(program))
    group = _groups(trace, program, change, launches)
    launches, group = launches[group >= 0], group[group >= 0]
    if not len(launches):
        return program.but(notes=(*program.notes, f"{change.text} matches no launch"))
    first = np.r_[True, group[1:] != group[:-1]]
    last = np.r_[first[1:], True]
    begin = launches[first]
    number = np.cumsum(first) - 1
    size = np.bincount(number)
    several = size >= 2
    lag = without_host_time(program, begin[several], launches[last][several])
    cost = _CALL[lean + 1] + _NODE[lean + 1] * size
    lag[2 * begin[several] + 1] = cost[several]
    of_call = np.full(len(program.graph.by_thread), -1, np.int64)
    of_call[launches] = np.where(several[number], begin[number], -1)
    inside = np.flatnonzero(program.place >= 0)
    target = of_call[program.place[inside]]
    inside, target = inside[target >= 0], target[target >= 0]
    place, gap, delay, arrival = (
        column.copy() for column in (program.place, program.gap, program.delay, program.arrival)
    )
    place[inside] = target
    arrival[inside] = np.maximum(arrival[inside], 0)
    delay[inside] = 0
    follows = inside[(program.previous[inside] >= 0)]
    same = place[program.previous[follows]] == place[follows]
    gap[follows[same]] = np.minimum(np.maximum(gap[follows[same]], 0), _GAP[lean + 1])
    from_begin = program.from_begin.copy()
    from_begin[inside] = False
    return program.but(lag=lag, place=place, gap=gap, delay=delay, arrival=arrival, from_begin=from_begin)


def _groups(trace: StoredTrace, program: Program, change: Change, launches: Column) -> Column:
    """Number of the graph of each launch, ascending with the launches; -1 for none."""
    graph = program.graph
    moment, thread = graph.time[2 * launches], graph.by_thread.thread[launches]
    if change.pattern:
        group = selecting.SelectedRanges(trace, program, change).number(thread, moment)
    else:
        found = iterations.find(trace)
        begins = (
            np.sort(np.concatenate([_begins(program, one) for one in found]))
            if found
            else np.zeros(0, np.int64)
        )
        group = np.searchsorted(begins, moment, "right").astype(np.int64)
    # Waits between two launches end a graph: so many were before each place of the threads.
    links = program.links
    waits = np.zeros(len(graph.by_thread) + 1, np.int64)
    ends = np.unique(links.target[np.isin(links.kind, (path.SYNC, path.BLOCKING))] >> 1)
    waits[ends[ends < len(graph.by_thread)] + 1] = 1
    before = np.cumsum(waits)[launches]
    blocking = np.isin(launches, ends)
    key = np.stack([thread.astype(np.int64), group, before])
    new = np.r_[True, (key[:, 1:] != key[:, :-1]).any(0)] if len(launches) else np.zeros(0, bool)
    out: Column = np.where((group < 0) | blocking, -1, np.cumsum(new))
    return out


def _begins(program: Program, found: iterations.Iterations) -> Column:
    """The start of the first launch call of each iteration."""
    graph = program.graph
    if not len(found.rows) or len(found.work) != len(graph.work):
        return np.zeros(0, np.int64)
    place = program.place[found.rows]
    moment = np.where(
        place >= 0, graph.time[2 * np.maximum(place, 0).astype(np.int64)], np.iinfo(np.int64).max
    )
    out: Column = np.minimum.reduceat(moment, found.first)
    return out


def without_host_time(program: Program, first: Column, last: Column) -> Column:
    """Lags of the threads' points with no time passing between the end of each first call and the end of its last."""
    # In the order of the threads, +1 where such a stretch begins and -1 where it ends.
    sequence = program.sequence()
    count = len(program.before)
    place: Column = np.arange(count)
    if sequence is not None:
        place = np.empty(count, np.int64)
        place[sequence] = np.arange(count)
    step = np.zeros(count + 1, np.int64)
    np.add.at(step, place[2 * first + 1] + 1, 1)
    np.add.at(step, np.maximum(place[2 * last + 1], place[2 * first + 1]) + 1, -1)
    within = np.cumsum(step)[:-1] > 0
    lag: Column = program.lag.copy()
    points = within if sequence is None else within[place]
    lag[points] = np.minimum(lag[points], 0)
    return lag
