"""One clock for all ranks of a job, measured from joint collectives or taken from the wall clocks.

Ranks on one host, since the same boot, share CLOCK_MONOTONIC and need no correction. Every other clock gets the offset to that of
the reference, directly if both took part in the same collectives, otherwise over the chain of clocks with the smallest error
bound. Wall clocks (NTP, PTP) are used for ranks without a common collective; their error is known only if the recording states
it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.cluster.clocks.clock_fit import ClockFit, Constraints, fit
from warpsight.cluster.matching import MEETINGS, Communicator
from warpsight.cluster.summary import RankSummary

Column = NDArray[Any]
#: Placeholder for a limit that an event does not have.
_NOT_SAID = np.iinfo(np.int64).min
SAME, COLLECTIVES, WALL, ASSUMED = "same clock", "collectives and messages", "wall clock", "assumed equal"


@dataclass(frozen=True)
class RankClock:
    """How the times of some ranks become times of the reference clock.

    Attributes:
        name: The clock.
        ranks: Places of its ranks among the job's.
        source: collectives and messages, wall clock, same clock, or assumed equal.
        chain: Fits to apply one after another, the first to the clock's own times.
        shift: Value to add if there is no chain, ns.
        bound: The largest error between the first and last work of its ranks, ns; None unknown.
        besides_wall: How far the wall clocks disagree with the collectives, ns; None unknown.
    """

    name: str
    ranks: tuple[int, ...]
    source: str
    chain: tuple[ClockFit, ...]
    shift: int
    bound: float | None
    besides_wall: int | None = None

    def corrected(self, times: Column) -> Column:
        """Times on the reference clock, int64 ns."""
        out = np.asarray(times, np.int64)
        for one in self.chain:
            out = out + one.offset(out.ravel())[0].reshape(out.shape)
        return out if self.chain else out + self.shift

    @property
    def drift(self) -> float:
        """How much faster or slower it runs than the reference, ns per ns, as a correction."""
        return sum(one.drift for one in self.chain)

    @property
    def constraints(self) -> int:
        """Events that the offset comes from."""
        return sum(one.constraints for one in self.chain)


@dataclass(frozen=True)
class JobClocks:
    """The clocks of a job; `of` has the place of each rank's clock."""

    clocks: tuple[RankClock, ...]
    of: tuple[int, ...]

    def corrected(self, rank: int, times: Column) -> Column:
        """Times of a rank (by its place) on the reference clock."""
        return self.clocks[self.of[rank]].corrected(times)

    def bound(self, one: int, other: int) -> float | None:
        """Largest error of the time between two ranks (by their places), ns, or None."""
        if self.of[one] == self.of[other]:
            return 0.0
        bounds = [self.clocks[self.of[rank]].bound for rank in (one, other)]
        return None if any(bound is None for bound in bounds) else float(sum(b or 0.0 for b in bounds))

    @property
    def worst(self) -> float | None:
        """The largest error bound of any clock, ns, or None."""
        bounds = [clock.bound for clock in self.clocks]
        return (
            None if any(bound is None for bound in bounds) else max((b or 0.0 for b in bounds), default=0.0)
        )


def synchronize(summaries: Sequence[RankSummary], groups: Sequence[Communicator]) -> JobClocks:
    """All clocks of a job mapped to the clock with the most ranks (the first rank's if equal)."""
    names = list(dict.fromkeys(one.about.clock for one in summaries))
    of = tuple(names.index(one.about.clock) for one in summaries)
    ranks = [tuple(i for i, clock in enumerate(of) if clock == number) for number in range(len(names))]
    reference = max(range(len(names)), key=lambda number: (len(ranks[number]), -number), default=0)
    chains = _chains(_fits(summaries, groups, of, reference), reference, summaries, ranks)
    clocks = []
    for number, name in enumerate(names):
        if number == reference:
            clocks.append(RankClock(name, ranks[number], SAME, (), 0, 0.0))
        elif number in chains:
            chain, bound = chains[number]
            found = RankClock(name, ranks[number], COLLECTIVES, chain, 0, bound)
            besides = _besides_wall(found, summaries, ranks[reference][0])
            clocks.append(replace(found, besides_wall=besides))
        else:
            clocks.append(_by_wall(name, ranks[number], summaries, ranks[reference][0]))
    return JobClocks(tuple(clocks), of)


def _besides_wall(found: RankClock, summaries: Sequence[RankSummary], reference: int) -> int | None:
    own, theirs = summaries[found.ranks[0]].about, summaries[reference].about
    if own.wall is None or theirs.wall is None:
        return None
    return int(found.corrected(np.array([own.begin]))[0]) - own.begin - (own.wall - theirs.wall)


def _by_wall(
    name: str, ranks: tuple[int, ...], summaries: Sequence[RankSummary], reference: int
) -> RankClock:
    own, theirs = summaries[ranks[0]].about, summaries[reference].about
    if own.wall is None or theirs.wall is None:
        return RankClock(name, ranks, ASSUMED, (), 0, None)
    known = own.wall_error is not None and theirs.wall_error is not None
    bound = float((own.wall_error or 0) + (theirs.wall_error or 0)) if known else None
    return RankClock(name, ranks, WALL, (), own.wall - theirs.wall, bound)


_Edges = dict[tuple[int, int], ClockFit]


def _fits(
    summaries: Sequence[RankSummary], groups: Sequence[Communicator], of: tuple[int, ...], reference: int
) -> _Edges:
    """Fits between pairs of clocks: of every clock to the reference, and to the first clock of each group it is in."""
    wanted: dict[tuple[int, int], list[Communicator]] = {}
    for group in groups:
        there = list(dict.fromkeys(of[rank] for rank in group.ranks))
        hub = reference if reference in there else there[0]
        for clock in there:
            if clock != hub:
                wanted.setdefault((clock, hub), []).append(group)
    times = {id(group): (group.of(summaries, "start"), group.of(summaries, "end")) for group in groups}
    out: _Edges = {}
    for (clock, hub), shared in wanted.items():
        parts = [_constraints(group, *times[id(group)], of, clock, hub) for group in shared]
        parts += [_messages(group, *times[id(group)], of, clock, hub) for group in shared]
        found = _fit_of(parts)
        if found is not None:
            out[clock, hub] = found
    return out


_Parts = tuple[Column, Column, Column, Column, Column]


def _fit_of(parts: Sequence[_Parts]) -> ClockFit | None:
    """The fit of the constraints of several groups: starts, ends, least and most offsets, differences of ends, all int64 ns."""
    start, at, low, high, end = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(at) < 2:
        return None
    known_bounds = np.concatenate([low[low != _NOT_SAID], high[high != _NOT_SAID]])
    base = int(np.median(known_bounds))
    least, most, ends = (
        np.where(column == _NOT_SAID, unknown, (column - base).astype(np.float64))
        for column, unknown in ((low, -np.inf), (high, np.inf), (end, np.nan))
    )
    return fit(Constraints(start, at, least, most, ends, base))


def _constraints(
    group: Communicator, start: Column, end: Column, of: tuple[int, ...], theirs: int, ours: int
) -> _Parts:
    """The constraints that a group's operations put on the offset from one clock to another."""
    clock = np.array([of[rank] for rank in group.ranks])
    there = group.row >= 0
    sides = []
    for number in (ours, theirs):
        mine = there & (clock == number)[None, :]
        first = np.where(mine, start, np.iinfo(np.int64).min).max(1)
        last = np.where(mine, end, np.iinfo(np.int64).max).min(1)
        sides.append((mine.any(1), first, last))
    rows = np.flatnonzero(sides[0][0] & sides[1][0] & group.is_a(MEETINGS))
    (_, our_start, our_end), (_, their_start, their_end) = (
        tuple(column[rows] for column in side) for side in sides
    )
    return their_start, their_end, our_start - their_end, our_end - their_start, our_end - their_end


def _messages(
    group: Communicator, start: Column, end: Column, of: tuple[int, ...], theirs: int, ours: int
) -> _Parts:
    """The constraints from sends and receives between two ranks: no message is received before it was sent."""
    clock = [of[rank] for rank in group.ranks]
    codes = {name: number for number, name in enumerate(group.operations)}
    if sorted(clock) != sorted((theirs, ours)) or "send" not in codes or "receive" not in codes:
        none = np.zeros(0, np.int64)
        return none, none, none, none, none
    mine, other = clock.index(ours), clock.index(theirs)
    parts = []
    for sender, receiver in ((mine, other), (other, mine)):
        rows = (group.operation[:, sender] == codes["send"]) & (
            group.operation[:, receiver] == codes["receive"]
        )
        limit = (
            start[rows, mine] - end[rows, other] if sender == mine else end[rows, mine] - start[rows, other]
        )
        unknown = np.full(len(limit), _NOT_SAID)
        low, high = (limit, unknown) if sender == mine else (unknown, limit)
        parts.append((end[rows, other] if sender == mine else start[rows, other], low, high, unknown))
    at, low, high, unknown = (np.concatenate(column) for column in zip(*parts, strict=True))
    return at, at, low, high, unknown


def _chains(
    edges: _Edges,
    reference: int,
    summaries: Sequence[RankSummary],
    ranks: Sequence[tuple[int, ...]],
) -> dict[int, tuple[tuple[ClockFit, ...], float]]:
    """For each clock that can be reached the fits to the reference, over the way with the least error bound."""
    into: dict[int, list[tuple[int, ClockFit]]] = {}
    for (clock, hub), one in edges.items():
        into.setdefault(hub, []).append((clock, one))
    out: dict[int, tuple[tuple[ClockFit, ...], float]] = {}
    heap: list[tuple[float, int, int, tuple[ClockFit, ...]]] = [(0.0, 0, reference, ())]
    tie = 0
    while heap:
        bound, _, clock, chain = heapq.heappop(heap)
        if clock in out:
            continue
        out[clock] = chain, bound
        for other, one in into.get(clock, []):
            if other not in out:
                tie += 1
                more = _largest_bound(one, summaries, ranks[other])
                heapq.heappush(heap, (bound + more, tie, other, (one, *chain)))
    out.pop(reference)
    return out


def _largest_bound(one: ClockFit, summaries: Sequence[RankSummary], ranks: Sequence[int]) -> float:
    """The largest error bound from the first to the last work of some ranks."""
    begin = min(summaries[rank].about.begin for rank in ranks)
    end = max(summaries[rank].about.end for rank in ranks)
    return float(one.offset(np.linspace(begin, end, 33).astype(np.int64))[1].max())
