"""When everything in a program happens: one pass over points with several dependencies; the rest follow at known delays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.retime.program import NO_LAG, Program
from warpsight.analysis.retime.structure import NOTHING, Structure, structure

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Times:
    """When everything happens, ns on the clock of the recording.

    Attributes:
        begin: Start of the call at each place.
        returned: End of the call at each place.
        start: Start of each device node.
        end: End of each device node.
    """

    begin: Column
    returned: Column
    start: Column
    end: Column


def solve(program: Program) -> Times:
    """Run a program."""
    found = prepared(program)
    times = _forward(program, found, *_lags(program, found))
    times += program.origin
    points = times[found.entry[: len(program.before)][found.anchor]] + _offsets(program, found)
    end = times[found.entry[program.base :]]
    start = end - program.duration
    start[program.meetings.node] = times[found.begin]
    return Times(points[0::2], points[1::2], start, end)


def prepared(program: Program) -> Structure:
    """The structure of a program, computed once for all users."""
    if program.structure is None:
        object.__setattr__(program, "structure", structure(program))
    assert program.structure is not None
    return program.structure


def _offsets(program: Program, found: Structure) -> Column:
    """How long after its anchor each point of a thread happens."""
    lag = program.lag if found.sequence is None else program.lag[found.sequence]
    run = np.cumsum(lag)
    run -= run[found.anchor_place]
    if found.sequence is None:
        return run
    out = np.empty_like(run)
    out[found.sequence] = run
    return out


def _lags(program: Program, found: Structure) -> tuple[Column, Column, Column, Column]:
    """For each entry the lag after its first source, its second source, its own delay, and the lags of further links."""
    links, offsets = program.links, _offsets(program, found)
    points, graph = len(program.before), program.graph
    nodes = found.entry[points:].copy()
    first = np.full(len(found.first), NO_LAG, np.int64)
    second, own = first.copy(), np.zeros(len(first), np.int64)
    own[nodes] = program.duration + program.delay
    meetings = program.meetings
    first[nodes[meetings.node]] = program.duration[meetings.node]
    own[nodes[meetings.node]] = 0
    own[found.begin] = program.delay[meetings.node]
    nodes[meetings.node] = found.begin
    # Threads: after the point before, or when the thread's first point was recorded.
    entry, anchors = found.entry[found.anchors], found.anchors
    before = program.before[anchors]
    first[entry] = np.where(before >= 0, offsets[before], graph.time[anchors] - program.origin)
    first[entry] += program.lag[anchors]
    own[entry] = program.after[anchors]
    # Device nodes: after their call, after the one before in their stream.
    called = np.flatnonzero(program.place >= 0)
    point = 2 * program.place[called].astype(np.int64) + ~program.from_begin[called]
    first[nodes[called]] = offsets[point] + program.arrival[called]
    queued = np.flatnonzero(program.previous >= 0)
    second[nodes[queued]] = program.gap[queued]
    # Links, after the anchor of their source.
    lag = links.lag.copy()
    of_thread = np.flatnonzero(links.source < points)
    lag[of_thread] += offsets[links.source[of_thread]]
    for slot, numbers in ((first, found.of_first), (second, found.of_second)):
        linked = np.flatnonzero(numbers >= 0)
        slot[linked] = lag[numbers[linked]]
    roots = nodes[(found.of_first[nodes] == NOTHING) & (found.of_second[nodes] == NOTHING)]
    if len(roots):
        where = np.zeros(len(first), np.int64)
        where[nodes] = graph.start - program.origin - program.delay
        first[roots] = where[roots]
    return first, second, own, lag[found.more]


def _forward(
    program: Program, found: Structure, first: Column, second: Column, own: Column, more: Column
) -> Column:
    """The time of each entry: the latest of its sources plus their lags, and its own time."""
    entries = zip(found.first[1:].tolist(), first[1:].tolist(), found.second[1:].tolist(), second[1:].tolist(),
                  own[1:].tolist(), strict=True)  # fmt: skip
    times = [0]
    append = times.append
    for stop, others in _with_more(program, found, more):
        for a, x, b, y, z in islice(entries, stop - len(times)):
            one, two = times[a] + x, times[b] + y
            append((one if one > two else two) + z)
        if others:
            a, x, b, y, z = next(entries)
            append(max(times[a] + x, times[b] + y, *(times[c] + lag for c, lag in others)) + z)
    return np.array(times, np.int64)


def _with_more(
    program: Program, found: Structure, more: Column
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Entries with more than two sources and those, and meetings with their members; at the end the number of all entries."""
    links, points, meetings = program.links, len(program.before), program.meetings
    waits = found.entry.copy()  # where what a point waits for comes in: of members their begins
    waits[points + meetings.node] = found.begin
    source = links.source[found.more]
    of_thread = np.flatnonzero(source < points)
    source[of_thread] = found.anchor[source[of_thread]]
    entry = np.concatenate([waits[links.target[found.more]], found.meeting[meetings.group]])
    where = np.concatenate([found.entry[source], found.begin])
    lags = np.concatenate([more, np.zeros(len(meetings), np.int64)])
    order = np.argsort(entry, kind="stable")
    current = -1
    others: list[tuple[int, int]] = []
    for at, one, lag in zip(entry[order].tolist(), where[order].tolist(), lags[order].tolist(), strict=True):
        if at != current and others:
            yield current, others
            others = []
        current = at
        others.append((one, lag))
    if others:
        yield current, others
    yield len(found.first), []
