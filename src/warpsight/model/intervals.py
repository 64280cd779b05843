"""Algebra of half-open intervals [start, end) on int64 arrays: union, intersection, difference, coverage, depth.

A *set* (:class:`Intervals`) is sorted, and its members neither overlap nor touch; :func:`union` makes one of any intervals.
An interval that ends where it begins, or before, is empty: it covers nothing and has no depth. All arithmetic is on
integers: times of day as nanoseconds since 1970 lose nothing. Everything takes a sort and a few passes, without a loop over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Column = NDArray[Any]


@dataclass(frozen=True)
class Intervals:
    """A set of moments: `start` ascending, start[i] < end[i] < start[i + 1]."""

    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """Time covered, in the unit of the times."""
        return int(_lengths(self.start, self.end, np.zeros(min(len(self), 1), np.int64)).sum())


#: If there are this many times fewer moments than members, they are looked up without a running sum.
_FEW = 256
EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Times, end: Times) -> Intervals:
    """The moments covered by at least one interval, overlapping or not, in any order."""
    real = end > start
    if not real.all():
        start, end = start[real], end[real]
    if not len(start):
        return EMPTY
    if not ascending(start):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    return _members(start, reached := reach(end), _fresh(start, reached))


def joined(start: Times, end: Times) -> tuple[Intervals, Column]:
    """The union of intervals in order of begin, and the first interval of each of its members.

    There is at least one interval, and each has a length.
    """
    reached = reach(end)
    fresh = _fresh(start, reached)
    return _members(start, reached, fresh), np.flatnonzero(fresh)


def _fresh(start: Times, reached: Times) -> Column:
    """Whether each interval begins after all before it have ended."""
    out = np.ones(len(start), bool)
    np.greater(start[1:], reached[:-1], out=out[1:])
    return out


def _members(start: Times, reached: Times, fresh: Column) -> Intervals:
    """The union of intervals in order of begin: a member begins with a fresh interval and ends before the next one."""
    if fresh.all():
        return Intervals(start, reached)
    return Intervals(start[fresh], reached[np.append(fresh[1:], True)])


def ascending(times: Column) -> bool:
    """Whether values never decrease."""
    return not bool((times[1:] < times[:-1]).any())


def reach(end: Column) -> Column:
    """The furthest end so far."""
    furthest: Column = end if ascending(end) else np.maximum.accumulate(end)
    return furthest


def merged(*sets: Intervals) -> Intervals:
    """The union of sets."""
    return (
        union(np.concatenate([s.start for s in sets]), np.concatenate([s.end for s in sets]))
        if sets
        else EMPTY
    )


def clipped(whole: Intervals, begin: int, end: int) -> Intervals:
    """The part of a set that is in [begin, end)."""
    start, stop = np.maximum(whole.start, begin), np.minimum(whole.end, end)
    real = stop > start
    return Intervals(start[real], stop[real])


def complement(whole: Intervals, begin: int, end: int) -> Intervals:
    """The moments of [begin, end) that the set does not cover, including those at both ends."""
    inside = clipped(whole, begin, end)
    start, stop = np.append(begin, inside.end), np.append(inside.start, end)
    real = stop > start
    return Intervals(start[real], stop[real])


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """The moments both sets cover."""
    if len(one) > len(other):
        one, other = other, one
    first = np.searchsorted(other.end, one.start, "right")
    count = np.maximum(np.searchsorted(other.start, one.end, "left") - first, 0)
    mine = np.repeat(np.arange(len(one)), count)
    theirs = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count) + first[mine]
    return Intervals(
        np.maximum(one.start[mine], other.start[theirs]), np.minimum(one.end[mine], other.end[theirs])
    )


def difference(one: Intervals, other: Intervals) -> Intervals:
    """The moments of the first set that the second does not cover."""
    if not len(one) or not len(other):
        return one
    return intersection(one, complement(other, int(one.start[0]), int(one.end[-1])))


def measure(whole: Intervals, at: Column) -> Times:
    """For each moment, the time the set covers before it."""
    place = np.searchsorted(whole.start, at, "left")
    if _FEW * len(at) < len(whole):  # the sum between the requested places, not up to each member
        edges = np.unique(np.append(place, [0, len(whole)]))
        lengths = _lengths(whole.start, whole.end, edges[:-1])
        number = np.searchsorted(edges, place)
    else:
        lengths, number = whole.end - whole.start, place
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    inner = np.maximum(place - 1, 0)
    over = np.maximum(whole.end[inner] - at, 0) if len(whole) else 0
    out: Times = before[number] - np.where(place > 0, over, 0)
    return out


def _lengths(start: Times, end: Times, first: Column) -> Times:
    """The total length of the members from each of `first` to the next.

    Sums of times may pass 2**63; arithmetic modulo 2**64 gives the right difference.
    """
    if not len(first):
        return np.zeros(0, np.int64)
    out: Times = np.add.reduceat(end, first) - np.add.reduceat(start, first)
    return out


def coverage(whole: Intervals, begin: Column, end: Column) -> Times:
    """For each window [begin[i], end[i]), the time covered by the set; windows may overlap."""
    both = measure(whole, np.concatenate([begin, end]))
    out: Times = both[len(begin) :] - both[: len(begin)]
    return out


def depth(start: Times, end: Times) -> tuple[Times, Times]:
    """How many intervals hold, as steps: the moments at which the number changes, and the number from then on.

    The last number is 0. An interval that ends when another begins no longer counts at that moment.
    """
    real = end > start
    moments = np.concatenate([start[real], end[real]])
    change = np.ones(len(moments), np.int64)
    change[len(moments) // 2 :] = -1
    order = np.argsort(moments, kind="stable")
    moments, level = moments[order], np.cumsum(change[order])
    last = np.append(moments[1:] != moments[:-1], True) if len(moments) else np.empty(0, bool)
    moments, level = moments[last], level[last]
    changed = np.append(True, level[1:] != level[:-1]) if len(level) else np.empty(0, bool)
    return moments[changed], level[changed]


def time_at_depth(start: Times, end: Times) -> tuple[Times, Times]:
    """Depths from 1 that occur, and how long each held in total."""
    moments, level = depth(start, end)
    if not len(moments):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    held = np.diff(moments)
    total = np.zeros(int(level.max()) + 1, np.int64)
    np.add.at(total, level[:-1], held)
    found = np.flatnonzero(total)
    found = found[found > 0]
    return found, total[found]


def integral(start: Times, end: Times, at: Column) -> Times:
    """For each moment, the total interval time before it: over all intervals, the part of each that lies before the moment.

    Sums of 10 million intervals may pass 2**63 on the way; arithmetic modulo 2**64 gives the right difference.
    """
    out: Times = _before(np.sort(start), at) - _before(np.sort(np.maximum(end, start)), at)
    return out


def _before(edges: Times, at: Column) -> Times:
    """Sum of at - edge over the edges before each moment, modulo 2**64."""
    if not len(edges):
        return np.zeros(len(at), np.int64)
    origin = edges[0]
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(edges - origin)])
    place = np.searchsorted(edges, at, "left")
    out: Times = place * (at - origin) - sums[place]
    return out


def containing(end: Column) -> Column:
    """For each range (sorted by start, longer first) the nearest earlier one that ends no earlier, or -1.

    All ranges jump at once, each over everything that its last position had jumped over, which takes about log(n) passes.
    """
    place = np.arange(-1, len(end) - 1)
    left = np.arange(len(end))
    while True:
        left = left[place[left] >= 0]
        left = left[end[place[left]] < end[left]]
        if not len(left):
            return place
        place[left] = place[place[left]]


def windows(begin: int, end: int, count: int | None = None, width: int | None = None) -> Times:
    """Edges of equal windows over [begin, end]: `count` of them, or of `width` each (the last one may be shorter).

    With more windows than nanoseconds each is one nanosecond long. Without time there is one edge and no window.
    """
    if end <= begin:
        return np.array([begin], np.int64)
    if width is not None:
        return np.append(np.arange(begin, end, max(int(width), 1), dtype=np.int64), end)
    number = max(min(count or 1, end - begin), 1)
    edges: list[int] = [begin + (end - begin) * i // number for i in range(number + 1)]
    return np.array(edges, np.int64)
