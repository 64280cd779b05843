"""Two ranks whose clocks differ by what the test planted, and the collectives they meet in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.cluster.clocks.clock_fit import Constraints

Column = NDArray[Any]


@dataclass(frozen=True)
class Clock:
    """A clock that shows `offset + (1 + drift) t` at true time t, plus a slow wave and noise in every reading (ns)."""

    offset: int
    drift: float
    noise: float = 0.0
    wave: float = 0.0

    def shown(self, t: Column) -> Column:
        """The clock at true moments, without noise: int64."""
        off = self.drift * t + self.wave * np.sin(t / 20e9)
        return self.offset + np.rint(t + off).astype(np.int64)

    def read(self, t: Column, random: np.random.Generator) -> Column:
        """The clock as it was read at these moments."""
        return self.shown(t) + np.rint(random.normal(0, self.noise, t.shape)).astype(np.int64)


@dataclass(frozen=True)
class Meetings:
    """True start and end of collectives on both ranks, ns: arrays of shape (meetings, 2)."""

    start: Column
    end: Column


def meetings(
    random: np.random.Generator,
    count: int,
    seconds: float,
    transfer: float,
    late: float,
    always: int | None = None,
) -> Meetings:
    """Collectives over some seconds; one rank, drawn anew each time unless it is `always` the same, comes late."""
    ready = np.sort(random.uniform(0, seconds * 1e9, count))
    start = np.repeat(ready[:, None], 2, 1)
    who = random.integers(0, 2, count) if always is None else np.full(count, always)
    start[np.arange(count), who] += random.exponential(late, count)
    took = transfer * random.uniform(1, 1.5, count)
    end = start.max(1)[:, None] + took[:, None] + random.exponential(transfer / 20, (count, 2))
    return Meetings(start, end)


def constraints(seen: Meetings, ours: Clock, theirs: Clock, random: np.random.Generator) -> Constraints:
    """What the two ranks' recordings say about the offset from their clock to ours."""
    start0, start1 = ours.read(seen.start[:, 0], random), theirs.read(seen.start[:, 1], random)
    end0, end1 = ours.read(seen.end[:, 0], random), theirs.read(seen.end[:, 1], random)
    base = int(np.median(end0 - end1))
    low, high, end = ((a - b - base).astype(float) for a, b in ((start0, end1), (end0, start1), (end0, end1)))
    return Constraints(start1, end1, low, high, end, base)


def true_offset(ours: Clock, theirs: Clock, t: Column) -> Column:
    """What has to be added to their clock's time of true moments."""
    return ours.shown(t) - theirs.shown(t)
