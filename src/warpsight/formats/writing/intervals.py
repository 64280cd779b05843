"""Places intervals on tracks: lanes for overlapping work, depths for nested calls. Uses sweeps, without a loop over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]


def lanes(start: Column, end: Column) -> Column:
    """A lane, from 0, for each interval such that intervals in one lane do not overlap; uses as few lanes as possible.

    `start` must be sorted. Whenever nothing runs, numbering begins again at lane 0. A lane that becomes free is taken by the
    interval that begins next; an interval's lane is found by following the chain of intervals that passed it on (pointer
    doubling).
    """
    rows = len(start)
    last = np.maximum(end, start + 1)
    if rows < 2 or bool((start[1:] >= np.maximum.accumulate(last)[:-1]).all()):
        return np.zeros(rows, np.int32)
    order = np.argsort(last, kind="stable")
    ended = np.searchsorted(last[order], start, "right")
    active = np.arange(rows) - ended
    first = np.maximum.accumulate(np.where(active == 0, np.arange(rows), 0))  # where the busy period began
    opened = np.maximum.accumulate(active + 1 + first * np.int64(rows + 1)) - first * np.int64(rows + 1)
    before = np.concatenate([[0], opened[:-1]])
    new = (active == 0) | (active + 1 > before)
    reuses = np.cumsum(~new)
    reuse = reuses - 1 - np.where(first > 0, reuses[first - 1], 0)  # number of this reuse in its busy period
    giver = np.where(new, np.arange(rows), order[np.where(new, 0, first + reuse)])
    while True:
        onward = giver[giver]
        if np.array_equal(onward, giver):
            break
        giver = onward
    lane: Column = (opened[giver] - 1).astype(np.int32)
    return lane


def nesting(start: Column, end: Column, fixed: int = 0) -> Column:
    """Depth of each interval, 0 for the outermost; -1 if it crosses another and cannot be nested.

    Intervals must be sorted by start, longer ones first. Intervals of one depth do not overlap, and each is inside the one of the
    depth above that began last. If two cross, the shorter one is dropped, but never one of the first `fixed`, which must nest
    among themselves.
    """
    depth = np.full(len(start), -1, np.int32)
    ends = np.sort(end[:fixed])
    crosses = np.searchsorted(ends, start, "right") < np.searchsorted(ends, end, "left")
    crosses[:fixed] = False
    left = np.flatnonzero(~crosses)
    while len(left):
        found = _depths(start[left], end[left])
        crossing = _crossing(start[left], end[left], found, fixed)
        if not crossing.any():
            depth[left] = found
            break
        left = left[~crossing]
    return depth


def _depths(start: Column, end: Column) -> Column:
    if bool((start[1:] >= end[:-1]).all()) and bool((end > start).all()):
        return np.zeros(len(start), np.int32)
    # Twice the time, so that an empty interval can end half a tick after it began.
    ends = np.sort(np.where(end > start, 2 * end, 2 * start + 1))
    return (np.arange(len(start)) - np.searchsorted(ends, 2 * start, "right")).astype(np.int32)


def _crossing(start: Column, end: Column, depth: Column, fixed: int) -> Column:
    """Which intervals to remove: the shorter one of each crossing pair.

    While such pairs are among the intervals, depths counted beside them are wrong; intervals that only look misplaced
    go when no pair is left.
    """
    crossing, misplaced = np.zeros(len(start), bool), np.zeros(len(start), bool)
    rows = np.flatnonzero(depth == 0)
    misplaced[rows[1:]] = start[rows[1:]] < np.maximum.accumulate(end[rows])[:-1]
    for level in range(1, int(depth.max(initial=0)) + 1):
        above, rows = rows, np.flatnonzero(depth == level)
        parent = above[np.maximum(np.cumsum(depth == level - 1)[rows] - 1, 0)]
        outlasts = end[rows] > end[parent]
        across = outlasts & (start[rows] < end[parent])
        shorter = ((end - start)[parent] < (end - start)[rows]) & (parent >= fixed)
        crossing[rows[across & ~shorter]] = True
        crossing[parent[across & shorter]] = True
        misplaced[rows[outlasts]] = True
        misplaced[rows[1:]] |= start[rows[1:]] < np.maximum.accumulate(end[rows])[:-1]
    crossing[:fixed] = misplaced[:fixed] = False
    return crossing if crossing.any() else misplaced
