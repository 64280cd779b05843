"""Lanes and depths of rows that arrive window by window: running rows keep their lane."""

from __future__ import annotations

import numpy as np

from warpsight.formats.writing.intervals import lanes, nesting
from warpsight.formats.writing.timeline import Column


class _Running:
    """Intervals placed so far that may extend into the next window."""

    def __init__(self) -> None:
        self.start = self.end = np.empty(0, np.int64)
        self.place = np.empty(0, np.int32)

    def until(self, moment: int) -> None:
        """Forget what ended by then."""
        if len(self.start):
            runs = np.maximum(self.end, self.start + 1) > moment
            self.start, self.end, self.place = self.start[runs], self.end[runs], self.place[runs]

    def add(self, start: Column, end: Column, place: Column) -> None:
        """Remember those of these placed intervals that end after the last one's start."""
        runs = np.flatnonzero(end > start[-1])
        self.start = np.concatenate([self.start, start[runs]])
        self.end = np.concatenate([self.end, end[runs]])
        self.place = np.concatenate([self.place, place[runs]])


class LaneAllocator:
    """Spreads one stream's work over lanes; windows must come in time order."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._running = _Running()

    def place(self, start: Column, end: Column) -> Column:
        """The lane of each interval (sorted by start)."""
        if not len(start):
            return np.empty(0, np.int32)
        before = self._running
        before.until(int(start[0]))
        count = len(before.start)
        found = lanes(np.concatenate([before.start, start]), np.concatenate([before.end, end])) if count else lanes(
            start, end
        )  # fmt: skip
        if count:
            # Lanes are only names: rename them so that the intervals placed earlier keep theirs.
            names = np.full(int(found.max()) + 1, -1, np.int32)
            names[found[:count]] = before.place
            free = np.setdiff1d(np.arange(len(names) + count, dtype=np.int32), before.place)
            unnamed = np.flatnonzero(names < 0)
            names[unnamed] = free[: len(unnamed)]
            found = names[found[count:]]
        before.add(start, end, found)
        return found


class Depths:
    """Nesting of one thread's calls; windows must come in time order."""

    def __init__(self) -> None:
        """No call runs yet."""
        self._running = _Running()

    def place(self, start: Column, end: Column) -> Column:
        """The depth of each interval (sorted by start, longer first), -1 if it cannot nest."""
        if not len(start):
            return np.empty(0, np.int32)
        before = self._running
        before.until(int(start[0]))
        count = len(before.start)
        if count:
            order = np.lexsort((-before.end, before.start))
            first, last = before.start[order], before.end[order]
            depth = nesting(np.concatenate([first, start]), np.concatenate([last, end]), fixed=count)[count:]
        else:
            depth = nesting(start, end)
        nests = np.flatnonzero(depth >= 0)
        if len(nests):
            before.add(start[nests], end[nests], depth[nests])
        return depth
