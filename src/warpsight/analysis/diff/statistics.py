"""Is a change more than run-to-run noise? Tests on one value per run, in NumPy; docs/explanation/comparing-runs.md has the why.

Every function takes `values` of shape (rows, runs): logarithms of per-iteration times, so that differences are relative changes.
Iterations inside a run are never compared: they share the run's clocks, placement and neighbors, so they say little about the
next run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.diff import student
from warpsight.analysis.diff.design import LEVEL, Design

Column = npt.NDArray[Any]
#: Level of the headline's test: one false alarm in a hundred comparisons.
HEADLINE = 0.01
#: No estimate is trusted below this relative error (0.1 %), however alike the few runs are.
FLOOR = 0.001
#: Share of the runs of a side that the robust test leaves out at each end.
_TRIM = 0.2
#: A change that "could have been seen" is found with this probability.
_POWER = 0.8
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Estimates:
    """Changes as differences of logarithms, one per row; an interval holds 0 exactly where no change is called.

    Attributes:
        change: Mean of the second side minus mean of the first.
        low: Lower end of the interval.
        high: Upper end.
        p: The largest p of the tests that must all agree.
        called: Whether they do.
    """

    change: Column
    low: Column
    high: Column
    p: Column
    called: Column

    def part(self, first: int, last: int) -> Estimates:
        """The same of some consecutive rows."""
        rows = slice(first, last)
        return Estimates(self.change[rows], self.low[rows], self.high[rows], self.p[rows], self.called[rows])


@dataclass(frozen=True)
class Fit:
    """A difference of the sides with its standard error and degrees of freedom."""

    change: Column
    error: Column
    freedom: Column

    def p(self) -> Column:
        """Two-sided p that the difference is 0."""
        return student.two_sided(self.change / self.error, self.freedom)

    def interval(self, level: float | Column) -> tuple[Column, Column]:
        """The interval that leaves out 0 exactly when p is below the level."""
        half = student.critical(level, self.freedom) * self.error
        return self.change - half, self.change + half


def headline(values: Column, design: Design) -> tuple[Estimates, float]:
    """The test of the one measure a comparison is about, at level :data:`HEADLINE`.

    Sides that took turns are tested by the differences of neighbors in time (paired t test), which no slow drift of the machine
    reaches. Else by regression on the side and a straight line through the order of the runs, so that a drift like the one
    within the sides is not taken for a change.

    Returns:
        The estimate, and the smallest change (log) that would have been called with a probability of 80 %.
    """
    fit = sides(values, design)
    low, high = fit.interval(HEADLINE)
    plain = difference(values, design)
    p = np.where(np.sign(fit.change) == np.sign(plain), fit.p(), 1.0)
    low, high = np.minimum(low, plain), np.maximum(high, plain)
    needed = student.critical(HEADLINE, fit.freedom) + student.critical(2 * (1 - _POWER), fit.freedom)
    return Estimates(plain, low, high, p, (low > 0) | (high < 0)), float((needed * fit.error)[0])


def family(values: Column, design: Design) -> Estimates:
    """Tests of many rows at once: a row is called only where all of these agree.

    * A permutation test on the largest |t| of all rows (Westfall and Young 1993): exact whatever the noise, and at most
      :data:`LEVEL` of comparisons of equal programs have any row called.
    * Yuen's t test on trimmed means, p-values adjusted after Benjamini and Hochberg: one disturbed run a side is left out.
    * Where the sides did not take turns, a regression that also has a straight line through the order of the runs.

    Rows with a value that is not finite are never called.
    """
    good = np.isfinite(values).all(axis=1)
    filled = np.where(good[:, None], values, 0.0)
    plain = difference(filled, design)
    p, limit, error = largest_t(filled[good], design)
    fits = [(plain[good] - limit * error, plain[good] + limit * error, p)]
    robust = trimmed(filled[good], design)
    adjusted, level = benjamini_hochberg(robust.p())
    fits.append((*robust.interval(level), adjusted))
    if not design.in_turn:
        line = regressed(filled[good], design, design.drift())
        fits.append((*line.interval(LEVEL), line.p()))
    lows, highs, ps = (np.stack(parts) for parts in zip(*fits, strict=True))
    low, high = np.full(len(values), -np.inf), np.full(len(values), np.inf)
    low[good], high[good] = lows.min(axis=0), highs.max(axis=0)
    called = np.zeros(len(values), bool)
    called[good] = (lows > 0).all(axis=0) | (highs < 0).all(axis=0)
    every = np.ones(len(values))
    every[good] = ps.max(axis=0)
    # Tests that agree on a change but not on its sign call nothing.
    every = np.where(called, every, np.maximum(every, LEVEL))
    return Estimates(np.where(good, plain, np.nan), low, high, every, called)


def difference(values: Column, design: Design) -> Column:
    """Mean of the second side minus mean of the first."""
    out: Column = values[:, design.after].mean(axis=1) - values[:, ~design.after].mean(axis=1)
    return out


def sides(values: Column, design: Design) -> Fit:
    """The difference of the sides with what is known of their order taken into account; see :func:`headline`."""
    return paired(values, design) if design.in_turn else regressed(values, design, design.drift())


def paired(values: Column, design: Design) -> Fit:
    """The mean difference of neighbors in time."""
    one, two = design.pairs()
    differences = values[:, two] - values[:, one]
    count = differences.shape[1]
    error = np.sqrt(differences.var(axis=1, ddof=1) / count + FLOOR**2)
    return Fit(differences.mean(axis=1), error, np.full(len(values), count - 1.0))


def regressed(values: Column, design: Design, beside: Column) -> Fit:
    """The coefficient of the side in a least-squares fit with other columns `beside` it (runs × columns)."""
    t, error, change = _regression(values, design.after[None], beside)
    freedom = len(design) - beside.shape[1] - 1.0
    return Fit(change[:, 0], error[:, 0], np.full(len(values), freedom))


def _regression(values: Column, labels: Column, beside: Column) -> tuple[Column, Column, Column]:
    """t, standard error and coefficient of every labeling (rows of `labels`) for every row of values: rows × labelings.

    What the columns beside explain is taken off both values and labels; then the coefficient is a ratio of products.
    """
    basis, _ = np.linalg.qr(beside)
    left = values - (values @ basis) @ basis.T
    side = labels.astype(float)
    side -= (side @ basis) @ basis.T
    size = np.maximum((side**2).sum(axis=1), 1e-12)
    change = (left @ side.T) / size
    rest = np.maximum((left**2).sum(axis=1)[:, None] - change**2 * size, 0)
    freedom = max(values.shape[1] - beside.shape[1] - 1, 1)
    error = np.sqrt(rest / freedom / size + FLOOR**2)
    return change / error, error, change


def largest_t(values: Column, design: Design) -> tuple[Column, float, Column]:
    """The permutation test on the largest |t| of all rows.

    Returns:
        For each row the share of relabelings whose largest |t| is at least the row's, the t that must be exceeded, and the
        standard error of each row.
    """
    labels = design.relabelings()
    constant = np.ones((len(design), 1))
    largest = np.zeros(len(labels))
    observed, errors = [], []
    for first in range(0, len(values), _ROWS_AT_ONCE):
        t, error, _ = _regression(values[first : first + _ROWS_AT_ONCE], labels, constant)
        largest = np.maximum(largest, np.abs(t).max(axis=0))
        observed.append(np.abs(t[:, 0]))
        errors.append(error[:, 0])
    own = np.concatenate([*observed, np.zeros(0)])
    ordered = np.sort(largest)
    # Equal values are equal up to rounding: the mirror image of the observed labels among them.
    p = 1 - np.searchsorted(ordered, own * (1 - 1e-9), "left") / len(ordered)
    allowed = int(np.floor(LEVEL * len(ordered) + 1e-9))  # so many relabelings may reach the row's t
    limit = float(ordered[len(ordered) - 1 - allowed]) if allowed else float("inf")
    return p, limit * (1 + 1e-9), np.concatenate([*errors, np.zeros(0)])


def trimmed(values: Column, design: Design) -> Fit:
    """Yuen's test (1974): difference of trimmed means, its error by winsorized variances, Welch's degrees of freedom."""
    means, errors, freedoms = [], [], []
    for side in (design.after, ~design.after):
        ordered = np.sort(values[:, side], axis=1)
        count = ordered.shape[1]
        cut = int(_TRIM * count)
        kept = count - 2 * cut
        means.append(ordered[:, cut : count - cut].mean(axis=1))
        winsorized = np.clip(ordered, ordered[:, [cut]], ordered[:, [count - 1 - cut]])
        errors.append(winsorized.var(axis=1, ddof=1) * (count - 1) / (kept * (kept - 1)))
        freedoms.append(kept - 1)
    total = errors[0] + errors[1]
    parts = errors[0] ** 2 / freedoms[0] + errors[1] ** 2 / freedoms[1]
    freedom = np.where(parts > 0, total**2 / np.where(parts > 0, parts, 1), sum(freedoms))
    return Fit(means[0] - means[1], np.sqrt(total + FLOOR**2), freedom)


def benjamini_hochberg(p: Column) -> tuple[Column, float]:
    """Adjusted p-values (1995), and the level at which each row's own interval agrees with the verdict.

    The level is that of Benjamini and Yekutieli (2005): q × rejected rows / rows.
    """
    count = len(p)
    if not count:
        return p, LEVEL
    order = np.argsort(p)
    scaled = p[order] * count / np.arange(1, count + 1)
    out = np.empty(count)
    out[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    rejected = int((out <= LEVEL).sum())
    return out, LEVEL * max(rejected, 1) / count
