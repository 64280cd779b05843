"""Each what-if as a change of a program's times and dependencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path import dependencies as path
from warpsight.analysis.retime.program import MOVED, NO_LAG, Links, Program
from warpsight.analysis.steps import iterations
from warpsight.model.work import COPY, SET
from warpsight.simulate import copying, devices, graphs, selecting, sharing
from warpsight.simulate.change import Change

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Subjects whose effect rests on assumptions, so that the answer is a range.
ASSUMING = ("graphs", "batch", "device", "streams")
#: Ranges in which device work does not depend on the batch.
_WEIGHTS = r"optim|zero_grad|clip_grad"
#: Device work that no batch makes shorter (ns).
_SHORTEST = 2_000


def apply(trace: StoredTrace, program: Program, change: Change, lean: int = 0) -> Program:
    """The program with a change; `lean` -1 and 1 use the assumptions that make it shortest and longest.

    A change that matches nothing adds a note.
    """
    return _CHANGES[change.subject](trace, program, change, lean)


def _without_match(program: Program, change: Change, what: str) -> Program:
    return program.but(notes=(*program.notes, f"{change.text} matches no {what}"))


def _kernels(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    """Give kernels another length; removed kernels take their launch call with them."""
    chosen = selecting.kernels(trace, program, change)
    return _resized(program, change, chosen, "kernel")


def _copies(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    return _resized(program, change, selecting.copies(trace, program, change), "copy")


def _resized(program: Program, change: Change, chosen: Column, what: str) -> Program:
    if not len(chosen):
        return _without_match(program, change, what)
    duration = program.duration.copy()
    duration[chosen] = (
        change.nanoseconds if change.nanoseconds is not None else np.round(duration[chosen] * change.factor)
    )
    if change.nanoseconds != 0:
        return program.but(duration=duration)
    lag, gap, delay, links = program.lag.copy(), program.gap.copy(), program.delay.copy(), program.links
    gap[chosen] = delay[chosen] = 0
    called = program.place[chosen]
    called = called[called >= 0]
    points = 2 * called.astype(np.int64) + 1
    lag[points] = 0
    # No one waits in a call that is gone.
    kept = ~np.isin(links.target, points)
    return program.but(duration=duration, lag=lag, gap=gap, delay=delay, links=_some(links, kept))


def _some(links: Links, kept: Column) -> Links:
    return Links(links.source[kept], links.target[kept], links.lag[kept], links.kind[kept])


def _launches(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    chosen = np.flatnonzero(selecting.launches(program) & selecting.calls(program, change))
    if not len(chosen):
        return _without_match(program, change, "launch call")
    points = 2 * chosen + 1
    chained = points[program.before[points] == points - 1]
    lag = program.lag.copy()
    lag[chained] = (
        change.nanoseconds if change.nanoseconds is not None else np.round(lag[chained] * change.factor)
    )
    return program.but(lag=lag)


def _without_waits(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    """Make calls return without waiting, keeping their own time."""
    links = program.links
    waits = np.isin(links.kind, (path.SYNC, path.BLOCKING))
    function = selecting.calls(program, change)
    mine = waits.copy()
    mine[waits] = function[links.target[waits] >> 1]
    if not mine.any():
        return _without_match(program, change, "call that waits for the device")
    return program.but(links=_some(links, ~mine))


def _host(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    """Give host code another length: the part of each stretch between two calls that is inside the ranges."""
    ranges = selecting.SelectedRanges(trace, program, change)
    graph = program.graph
    points = np.flatnonzero(program.before >= 0)
    points = points[program.before[points] != points - (points & 1)]  # not from a begin to its own end
    points = points[program.lag[points] > 0]
    begin, end = graph.time[program.before[points]], graph.time[points]
    inside = ranges.covered(graph.by_thread.thread[points >> 1], begin, end)
    hit = inside > 0
    if not hit.any():
        return _without_match(program, change, "range that held up the host")
    points, inside, length = points[hit], inside[hit], (end - begin)[hit]
    factor = (
        change.nanoseconds * len(ranges) / max(int(inside.sum()), 1)
        if change.nanoseconds is not None
        else change.factor
    )
    lag = program.lag.copy()
    own = lag[points] * (inside / np.maximum(length, 1))
    lag[points] = np.round(lag[points] - own * (1 - factor))
    return program.but(lag=lag)


def _overlapped(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    """Let copies overlap with other work: their successors in the stream follow their predecessors instead.

    Copies that take the whole device (:mod:`.copying`) stay where they are.
    """
    if change.pattern in ("", "copies"):
        chosen = np.flatnonzero(np.isin(program.graph.kind, (COPY, SET)))
        alone = copying.alone(trace, program)[chosen]
        if alone.any():
            note = f"overlap: {int(alone.sum()):,} copies and fills within a device use all of it, so nothing overlaps with them"
            program, chosen = program.but(notes=(*program.notes, note)), chosen[~alone]
            if not len(chosen):
                return program
    else:
        chosen = np.union1d(
            selecting.kernels(trace, program, change), selecting.copies(trace, program, change)
        ).astype(np.int64)
    return _aside(program, change, chosen)


def _streams(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    chosen = selecting.kernels(trace, program, change)
    apart = _aside(program, change, chosen)
    moved = np.zeros(len(program), bool)
    moved[chosen] = True
    return sharing.slowed(trace, _joined(trace, apart, moved), moved, lean) if len(chosen) else apart


def _joined(trace: StoredTrace, program: Program, moved: Column) -> Program:
    """Both the moved work and the rest of an iteration begin after all work of the previous iteration."""
    start, end = program.graph.start, program.graph.end
    sources, targets = [], []
    for found in iterations.find(trace):
        if len(found.work) != len(program.graph.work):
            continue
        pieces = [found.rows_of(number) for number in range(len(found))]
        for before, after in pairwise(pieces):
            for one, two in (
                (before[moved[before]], after[~moved[after]]),
                (before[~moved[before]], after[moved[after]]),
            ):
                if len(one) and len(two):
                    sources.append(int(one[np.argmax(end[one])]))
                    targets.append(int(two[np.argmin(start[two])]))
    source, target = (np.array(one, np.int64) + program.base for one in (sources, targets))
    lag = np.zeros(len(source), np.int64)
    return program.but(links=program.links.joined(source, target, lag, MOVED))


def _aside(program: Program, change: Change, chosen: Column) -> Program:
    """The chosen nodes of each stream follow each other separately from the others of the stream.

    Who waits for the stream still waits for both.
    """
    if not len(chosen):
        return _without_match(program, change, "device work")
    graph = program.graph
    moved = np.zeros(len(program), bool)
    moved[chosen] = True
    order = graph.order
    assert order is not None
    previous = program.previous.copy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    fresh = np.r_[True, graph.queue[order[1:]] != graph.queue[order[:-1]]]
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    last_of: dict[bool, Column] = {}
    for which in (False, True):
        at = np.where(moved[order] == which, np.arange(len(order)), -1)
        last = np.maximum.accumulate(at)
        last[last < first] = -1
        last_of[which] = last  # the place of the last such node up to each place, in its stream
    inside = previous >= 0
    inside[inside] = graph.queue[previous[inside]] == graph.queue[np.flatnonzero(inside)]
    wrong = np.flatnonzero(inside)
    wrong = wrong[moved[previous[wrong]] != moved[wrong]]
    for which in (False, True):
        mine = wrong[moved[wrong] == which]
        before = last_of[which][np.maximum(place[mine] - 1, 0)]
        good = (before >= 0) & (place[mine] > first[place[mine]]) & (before < place[mine])
        previous[mine] = np.where(good, order[np.maximum(before, 0)], -1)
    # A wait for a node of the stream also waits for the last of the nodes before it.
    links, base = program.links, program.base
    waits = np.flatnonzero(
        (links.source >= base) & np.isin(links.kind, (path.SYNC, path.EVENT, path.DEFAULT))
    )
    node = links.source[waits] - base
    other = np.where(moved[node], last_of[False][place[node]], last_of[True][place[node]])
    good = (other >= 0) & np.isin(links.kind[waits], (path.SYNC,))
    more = links.joined(
        base + order[other[good]].astype(np.int64), links.target[waits[good]], links.lag[waits[good]], MOVED
    )
    place_known = program.place >= 0
    loose = (previous < 0) & ~place_known & (program.previous >= 0)
    previous[loose] = program.previous[loose]  # nothing else determines when these begin
    delay = program.delay.copy()
    return program.but(previous=previous, links=more, delay=delay)


def _fused(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    """The device work launched in one range as one kernel, as long as the sum of its work or as requested."""
    ranges = selecting.SelectedRanges(trace, program, change)
    graph = program.graph
    called = np.flatnonzero(program.place >= 0)
    place = program.place[called].astype(np.int64)
    number = ranges.number(graph.by_thread.thread[place], graph.time[2 * place])
    called, number, place = called[number >= 0], number[number >= 0], place[number >= 0]
    if not len(called):
        return _without_match(program, change, "range with launches")
    order = np.lexsort((place, number))
    called, number, place = called[order], number[order], place[order]
    first = np.r_[True, number[1:] != number[:-1]]
    group = np.cumsum(first) - 1
    whole = np.bincount(group, program.duration[called])
    duration, gap, delay = program.duration.copy(), program.gap.copy(), program.delay.copy()
    duration[called] = gap[called] = delay[called] = 0
    gap[called[first]] = program.gap[called[first]]
    time = (
        np.full(len(whole), change.nanoseconds)
        if change.nanoseconds is not None
        else np.round(whole * change.factor)
    )
    duration[called[first]] = time
    lag = graphs.without_host_time(program, place[first], place[np.r_[first[1:], True]])
    places = program.place.copy()
    places[called] = place[first][group]
    return program.but(duration=duration, gap=gap, delay=delay, lag=lag, place=places)


def _batch(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    """Kernels and copies that grow with the batch: all except the optimizer's."""
    named = change if change.pattern else replace(change, pattern=_WEIGHTS)
    ranges = selecting.SelectedRanges(trace, program, named)
    place = np.maximum(program.place, 0).astype(np.int64)
    number = ranges.number(program.graph.by_thread.thread[place], program.graph.time[2 * place])
    chosen = np.flatnonzero((number < 0) | (program.place < 0))
    duration = program.duration.copy()
    factor = (
        change.factor if lean == 0 else change.factor ** (1.15 if lean * (change.factor - 1) > 0 else 0.85)
    )
    shortest = np.minimum(duration[chosen], _SHORTEST)
    duration[chosen] = np.maximum(np.round(duration[chosen] * factor), shortest)
    note = "batch: device work is assumed to grow with the batch, except in ranges of the optimizer"
    return program.but(duration=duration, notes=(*program.notes, note))


def _device(trace: StoredTrace, program: Program, change: Change, lean: int) -> Program:
    factor, note = devices.factors(trace, program.graph.work, change.pattern, lean)
    duration = program.duration.copy()
    duration[: len(factor)] = np.round(duration[: len(factor)] * factor)
    return program.but(duration=duration, notes=(*program.notes, note))


_CHANGES: dict[str, Callable[[StoredTrace, Program, Change, int], Program]] = {
    "kernel": _kernels, "copy": _copies, "launch": _launches, "sync": _without_waits, "host": _host,
    "graphs": graphs.captured, "fuse": _fused, "overlap": _overlapped, "streams": _streams, "batch": _batch,
    "device": _device,
}  # fmt: skip
assert NO_LAG < 0
