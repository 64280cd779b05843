"""Is a change more than run-to-run noise? Tests on one value per run, in NumPy; docs/explanation/comparing-runs.md explains why.

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
#: Share of false calls that the t tests of rows tolerate. The permutation test limits how often any row is called; but if the
#: sides did not take turns, a drift of the machine between them easily looks like a change.
FALSE_SHARE, FALSE_SHARE_APART = 0.05, 0.02
#: Share of a side's runs that Yuen's test drops at each end.
_TRIM = 0.2
#: Minimum relative error of an estimate (0.1%), no matter how similar the few runs are.
FLOOR = 0.001
#: A change that "could have been seen" is found with this probability.
_POWER = 0.8
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Estimates:
    """Changes as differences of logarithms, one per row; an interval contains 0 exactly if the row is not called changed.

    Attributes:
        change: Mean of the second side minus mean of the first.
        low: Lower end of the interval.
        high: Upper end.
        p: The largest p of the tests that must all agree; of a family scaled so that each test's level is :data:`LEVEL`.
        called: Whether they do.
    """

    change: Column
    low: Column
    high: Column
    p: Column
    called: Column

    def part(self, first: int, last: int) -> Estimates:
        """The estimates of some consecutive rows."""
        rows = slice(first, last)
        return Estimates(self.change[rows], self.low[rows], self.high[rows], self.p[rows], self.called[rows])


@dataclass(frozen=True)
class _Fit:
    """A difference of the sides with its standard error and degrees of freedom."""

    change: Column
    error: Column
    freedom: Column

    def p(self) -> Column:
        """Two-sided p that the difference is 0."""
        return student.two_sided(self.change / self.error, self.freedom)

    def interval(self, level: float | Column) -> tuple[Column, Column]:
        """The interval that excludes 0 exactly when p is below the level."""
        half = student.critical(level, self.freedom) * self.error
        return self.change - half, self.change + half


def headline(values: Column, design: Design) -> tuple[Estimates, float]:
    """The test of the one measure a comparison is about, at level :data:`HEADLINE`; all of :func:`sides` must agree.

    Returns:
        The estimate, and the smallest change (log) that would have been called with a probability of 80%.
    """
    fits = sides(values, design)
    ends = [fit.interval(HEADLINE) for fit in fits]
    plain = difference(values, design)
    low = np.min([plain, *(end[0] for end in ends)], axis=0)
    high = np.max([plain, *(end[1] for end in ends)], axis=0)
    called = (low > 0) | (high < 0)
    p = np.max([fit.p() for fit in fits], axis=0)
    needed = student.critical(HEADLINE, fits[0].freedom) + student.critical(2 * (1 - _POWER), fits[0].freedom)
    p = np.where(called, p, np.clip(p, HEADLINE, 1.0))
    return Estimates(plain, low, high, p, called), float((needed * fits[0].error)[0])


def sides(values: Column, design: Design) -> list[_Fit]:
    """The difference between the sides, allowing for the order in which the runs were taken.

    For sides that took turns, this is the mean difference of neighbors in time, which a drift of the machine from pair to pair
    cannot affect. It is computed once as it is, and once minus the drift from the first to the second run of a pair. For other
    sides, it is a regression on the side and a straight line through the order of the runs, so that a drift within the sides is
    not mistaken for a change.
    """
    if design.in_turn:
        return [paired(values, design), paired(values, design, drift=True)]
    return [_regressed(values, design, design.drift())]


def family(values: Column, design: Design, drift: float | Column = LEVEL) -> Estimates:
    """Test many rows at once; a row counts as changed only if all of these tests agree.

    * A permutation test on the largest |t| of all rows (Westfall and Young 1993): exact whatever the noise, and at most
      :data:`LEVEL` of comparisons of equal programs have any row called.
    * A t test, p-values adjusted after Benjamini and Hochberg at :data:`FALSE_SHARE`: the better of Welch's, on means, and
      Yuen's, on trimmed means, which leaves out a run out of line on each side (p counts double, as it is the better of two).
    * Where the sides did not take turns, a regression that also has a straight line through the order of the runs, at the level
      `drift` (one for all rows, or one per row).

    Rows with a value that is not finite are never called.
    """
    good: Column = np.all(np.isfinite(values), axis=1)
    filled = values[good]
    plain = difference(filled, design)
    p, limit, error = largest_t(filled, design)
    fits = [(plain - limit * error, plain + limit * error, p)]
    fits.append(_better_t(filled, design))
    if not design.in_turn:
        line, levels = _regressed(filled, design, design.drift()), np.broadcast_to(drift, good.shape)[good]
        fits.append((*line.interval(levels), line.p() * LEVEL / levels))
    lows, highs, ps = (np.stack(parts) for parts in zip(*fits, strict=True))
    called: Column = np.all(lows > 0, axis=0) | np.all(highs < 0, axis=0)
    # Tests that agree on a change but not on its sign call nothing.
    most = np.where(called, ps.max(axis=0), np.clip(ps.max(axis=0), LEVEL, 1.0))
    return Estimates(
        _spread(plain, good, np.nan), _spread(lows.min(axis=0), good, -np.inf), _spread(highs.max(axis=0), good, np.inf),
        _spread(most, good, 1.0), _spread(called, good, False),
    )  # fmt: skip


def _better_t(values: Column, design: Design) -> tuple[Column, Column, Column]:
    """Interval and adjusted p of the better of Welch's and Yuen's test of each row."""
    plain, robust = trimmed(values, design, 0.0), trimmed(values, design, _TRIM)
    one, two = plain.p(), robust.p()
    better = one <= two
    best = _Fit(np.where(better, plain.change, robust.change), np.where(better, plain.error, robust.error),
               np.where(better, plain.freedom, robust.freedom))  # fmt: skip
    share = FALSE_SHARE if design.in_turn else FALSE_SHARE_APART
    adjusted, level = benjamini_hochberg(np.minimum(2 * np.minimum(one, two), 1.0), share)
    return *best.interval(level / 2), adjusted * LEVEL / share


def _spread(found: Column, good: Column, otherwise: float | bool) -> Column:
    """Values for the tested rows, and another value for the rest."""
    out: Column = np.full(len(good), otherwise)
    out[good] = found
    return out


def difference(values: Column, design: Design) -> Column:
    """Mean of the second side minus mean of the first."""
    out: Column = values[:, design.after].mean(axis=1) - values[:, ~design.after].mean(axis=1)
    return out


def paired(values: Column, design: Design, *, drift: bool = False) -> _Fit:
    """The mean difference of neighbors in time.

    With `drift`, the slope of a line through the means of the pairs is subtracted: where one side always came second (A B A B …),
    a steady drift makes that side slower.
    """
    one, two = design.pairs()
    differences = values[:, two] - values[:, one]
    if drift:
        place = (design.order[one] + design.order[two]) / 2
        place = place - place.mean()
        slope = ((values[:, one] + values[:, two]) / 2) @ place / max(float(place @ place), 1e-12)
        differences = differences - slope[:, None] * (design.order[two] - design.order[one])
    count = differences.shape[1]
    error = np.sqrt(differences.var(axis=1, ddof=1) / count + FLOOR**2)
    return _Fit(differences.mean(axis=1), error, np.full(len(values), count - 1.0))


def _regressed(values: Column, design: Design, beside: Column) -> _Fit:
    """The side's coefficient in a least-squares fit that includes the columns `beside` (runs × columns)."""
    _, error, change = _regression(values, design.after[None], beside)
    freedom = len(design) - beside.shape[1] - 1.0
    return _Fit(change[:, 0], error[:, 0], np.full(len(values), freedom))


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


def trimmed(values: Column, design: Design, share: float) -> _Fit:
    """Yuen's test (1974): difference of trimmed means, its error by winsorized variances, Welch's degrees of freedom.

    `share` of the runs of a side is left out at each end; 0 gives Welch's test of means.
    """
    means, errors, freedoms = [], [], []
    for side in (design.after, ~design.after):
        ordered = np.sort(values[:, side], axis=1)
        count = ordered.shape[1]
        cut = int(share * count)
        kept = count - 2 * cut
        means.append(ordered[:, cut : count - cut].mean(axis=1))
        winsorized = np.clip(ordered, ordered[:, [cut]], ordered[:, [count - 1 - cut]])
        errors.append(winsorized.var(axis=1, ddof=1) * (count - 1) / (kept * (kept - 1)))
        freedoms.append(kept - 1)
    total = errors[0] + errors[1]
    parts = errors[0] ** 2 / freedoms[0] + errors[1] ** 2 / freedoms[1]
    freedom = np.where(parts > 0, total**2 / np.where(parts > 0, parts, 1), sum(freedoms))
    return _Fit(means[0] - means[1], np.sqrt(total + FLOOR**2), freedom)


def benjamini_hochberg(p: Column, share: float) -> tuple[Column, float]:
    """Adjusted p-values (1995): if rows below `share` are rejected, at most that share of them is false.

    Returns:
        The p-values, and the level at which each row's own interval agrees with the verdict: `share` × rejected rows / rows
        (Benjamini and Yekutieli 2005).
    """
    count = len(p)
    if not count:
        return p, share
    order = np.argsort(p)
    scaled = p[order] * count / np.arange(1, count + 1)
    out = np.empty(count)
    out[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    rejected = int((out <= share).sum())
    return out, share * max(rejected, 1) / count
