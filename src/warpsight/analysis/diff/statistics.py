"""Is a change more than noise? Rank tests and bootstrap intervals on per-iteration values, in NumPy.

The Mann–Whitney U test (Mann and Whitney 1947) asks whether values of one sample tend to be larger than those of the other; it
assumes nothing of their distribution, which for times of iterations is skewed. Small samples are tested exactly, by all
permutations; larger ones by the normal approximation with correction for ties and continuity. Where many things are compared at
once, p-values are adjusted after Benjamini and Hochberg (1995). Iterations that follow each other are not quite independent, so
a change must also pass :data:`LEAST_CHANGE`.
"""

from __future__ import annotations

from itertools import combinations
from math import comb, erfc, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
#: Below this relative change nothing is called a change, whatever the test says.
LEAST_CHANGE = 0.01
#: False discoveries that are tolerated.
LEVEL = 0.05
_EXACT = 20_000
_RESAMPLES = 1_000
_SAMPLE = 2_000


def mann_whitney(one: Column, other: Column) -> float:
    """Two-sided p-value that both samples come from one distribution; 1 where either is empty."""
    n, m = len(one), len(other)
    if not n or not m:
        return 1.0
    ranks = _ranks(np.concatenate([one, other]))
    observed = float(ranks[:n].sum())
    middle = n * (n + m + 1) / 2
    if comb(n + m, n) <= _EXACT:
        sums = np.array([ranks[list(chosen)].sum() for chosen in combinations(range(n + m), n)])
        far = np.abs(sums - middle) >= abs(observed - middle) - 1e-9
        return float(far.mean())
    _, ties = np.unique(ranks, return_counts=True)
    total = n + m
    correction = float((ties.astype(float) ** 3 - ties).sum()) / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - correction)
    if variance <= 0:
        return 1.0
    z = max(abs(observed - middle) - 0.5, 0.0) / sqrt(variance)
    return float(erfc(z / sqrt(2)))


def _ranks(values: Column) -> Column:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Column = (last - (counts - 1) / 2)[inverse]
    return ranks


def adjusted(p_values: Column) -> Column:
    """P-values adjusted for their number (Benjamini–Hochberg): below a level, that share of them is false at most."""
    count = len(p_values)
    if not count:
        return p_values
    order = np.argsort(p_values)
    scaled = p_values[order] * count / np.arange(1, count + 1)
    out = np.empty(count)
    out[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return out


def ratio_interval(before: Column, after: Column, level: float = 0.95) -> tuple[float, float] | None:
    """Bootstrap interval of the ratio of medians, after / before (percentile method, Efron 1979; fixed seed).

    None where there are fewer than three values on a side or a median is 0.
    """
    if len(before) < 3 or len(after) < 3:
        return None
    random = np.random.default_rng(1)
    medians = []
    for values in (before, after):
        picked = random.choice(values, _SAMPLE, replace=False) if len(values) > _SAMPLE else values
        drawn = random.integers(0, len(picked), (_RESAMPLES, len(picked)))
        medians.append(np.median(picked[drawn], axis=1))
    if not medians[0].all():
        return None
    low, high = np.quantile(medians[1] / medians[0], [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
