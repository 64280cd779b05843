"""The design of a comparison: the number of runs, their order, and the smallest p-value a test of them can reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
#: Two sides are tested if an exact permutation test of this many runs could reach this p.
LEVEL = 0.05
#: From this many runs per side, the test tolerates one disturbed run.
ADVISED = 5
#: Number of relabelings to try; if there are more, a random sample of this size.
_RELABELINGS = 2_000
_ALL_UP_TO = 5_000


@dataclass(frozen=True)
class Design:
    """The runs in columns, those of the first side first.

    Attributes:
        after: Which runs belong to the second side.
        order: Rank of each run by the time it was taken; the order given where that is not known.
        timed: Whether the times are known.
    """

    after: Column
    order: Column
    timed: bool

    @classmethod
    def of(cls, before: Sequence[int | None], after: Sequence[int | None]) -> Design:
        """The design of runs recorded at these times (ns since 1970, None: unknown)."""
        times = [*before, *after]
        timed = all(time is not None for time in times) and len(set(times)) == len(times)
        keys = np.array([time or 0 for time in times] if timed else range(len(times)), np.int64)
        order = np.argsort(np.argsort(keys, kind="stable"), kind="stable")
        return cls(np.arange(len(times)) >= len(before), order, timed)

    def __len__(self) -> int:
        return len(self.after)

    @property
    def counts(self) -> tuple[int, int]:
        """The number of runs on each side."""
        return int((~self.after).sum()), int(self.after.sum())

    @property
    def smallest_p(self) -> float:
        """The smallest two-sided p that an exact permutation test of this many runs can give."""
        one, two = self.counts
        ways = comb(one + two, one)
        # With equal sides the mirror image of a labeling is one of the labelings too.
        return min(1.0, 2 / ways)

    @property
    def testable(self) -> bool:
        """Whether there are enough runs to distinguish noise from a change."""
        return self.smallest_p <= LEVEL

    @property
    def in_turn(self) -> bool:
        """Whether the sides alternated: in time order, each pair of runs has one of each side."""
        one, two = self.counts
        if not self.timed or one != two:
            return False
        by_time = self.after[np.argsort(self.order)].reshape(-1, 2)
        return bool((by_time[:, 0] != by_time[:, 1]).all())

    @property
    def apart(self) -> bool:
        """All runs of one side were taken before all of the other."""
        return bool(self.order[self.after].min() > self.order[~self.after].max()
                    or self.order[self.after].max() < self.order[~self.after].min())  # fmt: skip

    def pairs(self) -> tuple[Column, Column]:
        """Neighboring runs in time, one of each side, if the sides took turns."""
        by_time = np.argsort(self.order).reshape(-1, 2)
        second = self.after[by_time[:, 1]]
        one, two = (
            np.where(second, by_time[:, 0], by_time[:, 1]),
            np.where(second, by_time[:, 1], by_time[:, 0]),
        )
        return one, two

    def drift(self) -> Column:
        """The nuisance terms of a regression: a constant and a straight line through the order of the runs."""
        return np.stack([np.ones(len(self)), self.order - (len(self) - 1) / 2], axis=1)

    def relabelings(self) -> Column:
        """Rows of labels (True: second side): the observed one, then all others or a fixed random sample."""
        count, chosen = len(self), self.counts[1]
        if comb(count, chosen) > _ALL_UP_TO:
            random = np.random.default_rng(1)
            others = random.permuted(np.tile(self.after, (_RELABELINGS, 1)), axis=1)
        else:
            others = _all(count, chosen)
            others = others[(others != self.after).any(axis=1)]
        return np.concatenate([self.after[None], others])


@lru_cache(maxsize=8)
def _all(count: int, chosen: int) -> Column:
    """Every way to assign the second side's label to some of the runs."""
    places = np.array(list(combinations(range(count), chosen)))
    out = np.zeros((len(places), count), bool)
    out[np.arange(len(places))[:, None], places] = True
    return out
