"""The offset between two clocks, computed from events that both saw, with a guaranteed error bound.

No rank leaves an all-reduce before the last rank has entered it. Let `offset` be the value that turns the other clock's time into
ours. Every collective that both clocks saw then gives an interval:

    our start  - their end  ≤  offset  ≤  our end - their start

Over a stretch of time the offset is a line, `level + drift * t`. The intervals bound level and drift to a convex polygon, and its
extreme lines bound the offset at every moment (Moon, Skelly, Towsley 1999). Inside the polygon the estimate follows the ends of
collectives, which are close together on all ranks.

A clock may be set, or change its speed, while the job runs. If two lines fit the ends far better than one, the time is cut there.
Between the last collective that is surely before the change and the first that is surely after it, both lines may hold, and the
bound covers both. A clock that is set back shows the same time twice; both lines may hold there, too. If no line fits the limits,
a constraint that contradicts many others is left out, or else the time is cut in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

#: Maximum drift between clocks (ns per ns); crystal oscillators stay below 1e-4.
MOST_DRIFT = 5e-4
#: Uncertainty of timestamps if the source states none (ns), and the minimum always allowed for.
_UNKNOWN_NOISE, _LEAST_SLACK = 1_000.0, 100.0
#: How much an oscillator wanders off a straight line per second of a stretch (ns): 0.01 ppm.
_WANDER = 10.0
#: Stretches without a known change are not split below this many constraints or this length (ns).
_FEW, _SHORT = 16, 1e9
_BUCKETS = 512
#: Minimum ends on each side of a change; how much likelier two lines must be than one (natural logarithm), and how far apart
#: (ns).
_SIDE, _LIKELIER, _LEAST_BEND = 4, 20.0, 1_000.0
#: A change must be at least this many times the scatter of ends: smaller ones lie within the bounds.
_APART = 3.0
#: With more than twice this many ends, the medians of this many buckets first show whether there is a change.
_GLANCE = 1_024
#: A change may be at every row where it is at most this much less likely than at the likeliest (natural logarithm).
_AS_LIKELY = 8.0
#: Residuals count fully up to this many times their scatter; rounds until lines and scatter agree; rows of the first look.
_OUTLIER, _ROUNDS, _LOOK = 3.0, 6, 7
#: Maximum constraints dropped, in total and as one in so many: more of them mean that the clock was set.
_MOST_LEFT_OUT, _LEFT_OUT = 32, 10
#: Rounding may separate touching limits by this much (ns).
_ROUNDING = 1e-3
_ALWAYS = -(2**62), 2**62


@dataclass(frozen=True)
class Constraints:
    """Bounds on the offset between two clocks, a row per event (ns).

    Attributes:
        start: When `high` holds, on the other clock: the event began there.
        at: When `low` and `end` hold, on the other clock: the event ended there.
        low: Lower bound of the offset, as floats relative to `base`; -inf where the event gives none.
        high: Upper bound; inf where the event gives none.
        end: Our end minus their end; nan where ends may be far apart.
        base: Whole nanoseconds that `low`, `high` and `end` are relative to, which keeps floats exact.
    """

    start: Column
    at: Column
    low: Column
    high: Column
    end: Column
    base: int

    def __len__(self) -> int:
        return len(self.at)

    def chosen(self, rows: Column) -> Constraints:
        """Some of the rows."""
        return Constraints(
            self.start[rows], self.at[rows], self.low[rows], self.high[rows], self.end[rows], self.base
        )


@dataclass(frozen=True)
class OffsetStretch:
    """The offset over one stretch of the other clock's time, relative to `origin` and the constraints' base.

    Attributes:
        begin: First moment at which it may hold, ns.
        end: Last moment at which it may hold, ns; stretches overlap where it is unclear which of them holds.
        origin: The moment that `level` is for, ns.
        level: Estimated offset at `origin`, ns.
        drift: Estimated change per ns.
        slopes: Drifts of the extreme lines.
        highest: Level of the highest line of each slope.
        lowest: Level of the lowest line of each slope.
        least_bound: Possible error of the readings themselves, ns, because lines between them can be closer together.
    """

    begin: int
    end: int
    origin: int
    level: float
    drift: float
    slopes: Column
    highest: Column
    lowest: Column
    least_bound: float = 0.0

    def limits(self, at: Column) -> tuple[Column, Column]:
        """The smallest and largest possible offset at some moments."""
        t = (at - self.origin).astype(np.float64)[:, None] * self.slopes
        return (self.lowest + t).min(1), (self.highest + t).max(1)

    def estimate(self, at: Column) -> tuple[Column, Column, Column]:
        """The offset at some moments, and its smallest and largest possible values."""
        low, high = self.limits(at)
        found = np.clip(self.level + self.drift * (at - self.origin), low, high)
        return found, np.minimum(low, found - self.least_bound), np.maximum(high, found + self.least_bound)


@dataclass(frozen=True)
class ClockFit:
    """The offset between two clocks over a whole recording; `left_out` constraints contradicted the others."""

    stretches: tuple[OffsetStretch, ...]
    base: int
    constraints: int
    left_out: int

    def offset(self, at: Column) -> tuple[Column, Column]:
        """The value to add to some moments of the other clock (int64 ns), and its error bound (float ns).

        Where more than one stretch may hold, the offset is their mean and the bound covers them all.
        """
        moments = np.asarray(at, np.int64)
        total, stretches = np.zeros(len(moments)), np.zeros(len(moments))
        low, high = np.full(len(moments), np.inf), np.full(len(moments), -np.inf)
        for one in self.stretches:
            mine = np.flatnonzero((moments >= one.begin) & (moments <= one.end))
            if len(mine):
                found, least, most = one.estimate(moments[mine])
                total[mine] += found
                stretches[mine] += 1
                low[mine], high[mine] = np.minimum(low[mine], least), np.maximum(high[mine], most)
        offset = total / stretches
        return self.base + np.rint(offset).astype(np.int64), np.maximum(high - offset, offset - low)

    @property
    def drift(self) -> float:
        """The drift of the longest stretch, ns per ns."""
        edges = [
            self.stretches[0].origin,
            *(one.begin for one in self.stretches[1:]),
            self.stretches[-1].origin,
        ]
        return self.stretches[int(np.argmax(np.diff(edges)))].drift


def fit(constraints: Constraints) -> ClockFit | None:
    """The offset that the constraints allow; None when they do not bound it from both sides."""
    if not np.isfinite(constraints.low).any() or not np.isfinite(constraints.high).any():
        return None
    order = np.argsort(constraints.at, kind="stable")
    ordered = constraints.chosen(order)
    found = list(_stretches(ordered, _noise(ordered.at, ordered.end), *_ALWAYS))
    left_out = sum(out for _, out in found)
    return ClockFit(tuple(stretch for stretch, _ in found), constraints.base, len(constraints), left_out)


def _noise(at: Column, end: Column) -> float:
    """The spread of timestamps, from how far ends are off the lines between their neighbors."""
    known = np.flatnonzero(np.isfinite(end))
    if len(known) < 8:
        return _UNKNOWN_NOISE
    t, value = (at[known] - at[0]).astype(np.float64), end[known]
    share = (t[1:-1] - t[:-2]) / np.maximum(t[2:] - t[:-2], 1.0)
    off = value[1:-1] - value[:-2] - share * (value[2:] - value[:-2])
    off /= np.sqrt(1 + share**2 + (1 - share) ** 2)
    return float(1.4826 * np.median(np.abs(off - np.median(off))))


def _stretches(found: Constraints, noise: float, begin: int, end: int) -> Iterator[tuple[OffsetStretch, int]]:
    """The stretches of some constraints between two moments, each with how many constraints were left out."""
    change = _change(found)
    if change is not None and change.divides:
        yield from _divided(found, noise, change, begin, end)
        return
    length = float(found.at[-1] - found.at[0])
    # The extremes of many noisy readings are far out: that far the limits are moved apart.
    expected = noise * (1 + np.sqrt(2 * np.log(max(len(found), 2)))) + _LEAST_SLACK + _WANDER * length / 1e9
    slack = expected
    thin = _thinned(found)
    out = 0
    while True:
        polygon, gap, guilty = _polygon(thin, slack)
        if polygon is not None:
            # Where slack was added until a line fits, constraints that contradict each other by twice that meet in
            # this line, and some of them are wrong.
            bound = expected + 2 * (slack - expected) + (change.size if change is not None else 0.0)
            yield _stretch(found, polygon, bound, begin, end), out
            return
        if guilty is not None and out < min(_MOST_LEFT_OUT, max(len(found) // _LEFT_OUT, 1)):
            thin, out = thin.chosen(np.flatnonzero(np.arange(len(thin)) != guilty)), out + 1
            continue
        cut = _contradiction(found, expected)
        if cut is not None:
            yield from _divided(found, noise, cut, begin, end)
            return
        slack += gap / 2 + 1.0


@dataclass(frozen=True)
class _Change:
    """Where one line ends and another begins.

    Attributes:
        before: Rows that are surely before it.
        after: Rows that are surely after it.
        first: The first moment that may be after it, ns.
        last: The last moment that may be before it, ns.
        size: How far one line is off where two fit, ns.
    """

    before: Column
    after: Column
    first: int
    last: int
    size: float

    @property
    def divides(self) -> bool:
        """Whether enough rows are surely before and after it for a line each."""
        return min(len(self.before), len(self.after)) >= _SIDE - 1


def _divided(
    found: Constraints, noise: float, change: _Change, begin: int, end: int
) -> Iterator[tuple[OffsetStretch, int]]:
    yield from _stretches(found.chosen(change.before), noise, begin, change.last)
    yield from _stretches(found.chosen(change.after), noise, change.first, end)


def _change(found: Constraints) -> _Change | None:
    """The change that the ends of collectives show most clearly: a clock was set, or changed its pace.

    A clock that is set back shows some times twice. In the order of the other clock the rows are not mixed: the order in which
    two lines fit better is taken.
    """
    known = np.flatnonzero(np.isfinite(found.end))
    if len(known) < 2 * _SIDE:
        return None
    if len(known) > 2 * _GLANCE and not _glance(found.at[known], found.end[known]).clear:
        return None
    by_our_clock = known[np.argsort(found.end[known] + found.at[known], kind="stable")]
    orders = (known,) if np.array_equal(by_our_clock, known) else (known, by_our_clock)
    order, lines = min(
        ((order, _two_lines(found.at[order], found.end[order])) for order in orders),
        key=lambda one: one[1].loss,
    )
    if not lines.clear:
        return None
    before, after = order[: lines.earliest], order[lines.latest :]
    # Both clocks were between the last row before and the first after when one of them was set; the other clock's times from
    # there on come twice if it was set back.
    back = max(lines.rise, 0.0)
    first = min(float(found.at[before[-1]]) - back, float(found.at[after].min()))
    last = max(float(found.at[after[0]]) + back, float(found.at[before].max()))
    # A collective during which the change happens starts before it, and says nothing about the time after.
    within = (found.start[after] <= found.at[before].max()) & (
        found.low[after] + found.at[after] <= (found.end[before] + found.at[before]).max()
    )
    rest = np.flatnonzero(~np.isfinite(found.end))
    early, late = rest[found.at[rest] < first], rest[found.start[rest] > last]
    before = np.sort(np.concatenate([before, early]))
    after = np.sort(np.concatenate([after[~within], late]))
    return _Change(before, after, int(first), int(last), lines.size)


def _glance(at: Column, end: Column) -> _TwoLines:
    """Fit two lines through the medians of buckets of ends, to decide whether there is a change, not where it is."""
    size = -(-len(at) // _GLANCE)
    whole = len(at) // size * size
    return _two_lines(at[size // 2 : whole : size], np.median(end[:whole].reshape(-1, size), axis=1))


@dataclass(frozen=True)
class _TwoLines:
    """Two lines through ends in their order.

    Attributes:
        loss: What they leave, comparable between orders of the same rows.
        likelier: How much likelier they are than one line (natural logarithm).
        size: By how much one line is off at most, ns.
        scatter: How far ends are off their line on the side where they are further off, ns: a burst of load is no change.
        rise: How much higher the second line is where they change, ns.
        earliest: The first row at which they may change.
        latest: The last such row.
    """

    loss: float
    likelier: float
    size: float
    scatter: float
    rise: float
    earliest: int
    latest: int

    @property
    def clear(self) -> bool:
        """Whether one line will not do."""
        return self.likelier >= _LIKELIER and self.size >= max(_LEAST_BEND, _APART * self.scatter)


def _two_lines(at: Column, value: Column) -> _TwoLines:
    """The least-squares pair of lines, each over a minimum number of rows; outliers are pulled toward the previous lines.

    Sums over the rows up to each one give the squares that a line leaves for all places of the change at once.
    """
    t = (at - at[0]).astype(np.float64)
    x = (t - t.mean()) / max(float(np.ptp(t)), 1.0)
    level, slope = _robust_line(t, value)
    rest = value - level - slope * t
    # The medians of a few neighbors: an outlier alone does not attract the first lines.
    padded = np.pad(rest, _LOOK // 2, mode="edge")
    pulled = np.median(np.lib.stride_tricks.sliding_window_view(padded, _LOOK), axis=1)
    rows = np.arange(len(t))
    for _ in range(_ROUNDS):
        left = _squares(x, pulled)[_SIDE - 1 : len(t) - _SIDE]
        right = _squares(x[::-1], pulled[::-1])[::-1][_SIDE : len(t) - _SIDE + 1]
        place = _SIDE + int(np.argmin(left + right))
        lines = [_line(x[side], pulled[side]) for side in (slice(None, place), slice(place, None))]
        first, second = (one_level + one_slope * x for one_level, one_slope in lines)
        fitted = np.where(rows < place, first, second)
        scatter = max(1.4826 * float(np.median(np.abs(rest - fitted))), 1.0)
        pulled = fitted + np.clip(rest - fitted, -_OUTLIER * scatter, _OUTLIER * scatter)
    likelier = float((_loss(rest / scatter) - _loss((rest - fitted) / scatter)).sum())
    # By the sum of distances, which outliers of ends follow, at which rows the change may be.
    apart = np.abs(rest - first) - np.abs(rest - second)
    missed = np.concatenate([[0.0], np.cumsum(apart)])[_SIDE - 1 : len(t) - _SIDE + 2]
    possible = np.flatnonzero(missed <= missed.min() + _AS_LIKELY * scatter) + _SIDE - 1
    return _TwoLines(
        float(_loss((rest - fitted) / scatter).sum()) * scatter**2,
        likelier,
        float(np.abs(fitted).max()),
        max(
            1.4826 * float(np.median(np.abs((rest - fitted)[side]))) for side in (rows < place, rows >= place)
        ),
        float(second[place] - first[place]),
        int(possible[0]),
        int(possible[-1]),
    )


def _loss(residual: Column) -> Column:
    """Huber's loss: half the square of small residuals, linear for outliers."""
    size = np.abs(residual)
    return np.where(size < _OUTLIER, size**2 / 2, _OUTLIER * (size - _OUTLIER / 2))


def _squares(x: Column, value: Column) -> Column:
    """What the best line through the first rows leaves in squares, for each number of rows."""
    count = np.arange(1, len(x) + 1)
    sum_x, sum_v, sum_xx, sum_xv, sum_vv = (
        np.cumsum(part) for part in (x, value, x * x, x * value, value * value)
    )
    spread = np.maximum(sum_xx - sum_x**2 / count, 1e-300)
    left: Column = sum_vv - sum_v**2 / count - (sum_xv - sum_x * sum_v / count) ** 2 / spread
    return np.maximum(left, 0.0)


def _line(x: Column, value: Column) -> tuple[float, float]:
    """Level at 0 and slope by least squares."""
    off = x - x.mean()
    slope = float(off @ value) / max(float(off @ off), 1e-300)
    return float(value.mean()) - slope * float(x.mean()), slope


def _contradiction(found: Constraints, slack: float) -> _Change | None:
    """Where the limits alone show a change: no line fits all of them, one fits each part. Else the middle of a long stretch."""
    least = _reach(found, slack)
    most = len(found) - _reach(found.chosen(np.arange(len(found))[::-1]), slack)
    middle = len(found) // 2
    long = len(found) >= 2 * _FEW and float(found.at[-1] - found.at[0]) > _SHORT
    from_row, to_row = (most, least) if most <= least else (middle, middle)
    if most > least and not long:
        return None
    before, after = np.arange(from_row), np.arange(to_row, len(found))
    if min(len(before), len(after)) < _SIDE or not all(
        _two_sided(found.chosen(part)) for part in (before, after)
    ):
        return None
    return _Change(before, after, int(found.at[from_row - 1]), int(found.at[to_row]), 0.0)


def _reach(found: Constraints, slack: float) -> int:
    """How many constraints from the first on one line fits."""
    fits, fails = 0, len(found) + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        part = found.chosen(np.arange(middle))
        good = not _two_sided(part) or _polygon(_thinned(part), slack)[0] is not None
        fits, fails = (middle, fails) if good else (fits, middle)
    return fits


def _two_sided(found: Constraints) -> bool:
    return bool(np.isfinite(found.low).any() and np.isfinite(found.high).any())


def _thinned(found: Constraints) -> Constraints:
    """The tightest constraints of each of some hundred equal parts of the time: the others hardly matter."""
    if len(found) <= _BUCKETS:
        return found
    begin = int(found.at.min())
    span = max(float(found.at.max() - begin), 1.0)
    bucket = ((found.at - begin) / span * (_BUCKETS - 1)).astype(np.int64)
    first = np.unique(bucket, return_index=True)[1]
    tight = np.concatenate([np.lexsort((found.high, bucket))[first], np.lexsort((-found.low, bucket))[first]])
    return found.chosen(np.unique(tight))


@dataclass(frozen=True)
class _Polygon:
    """All lines that the constraints allow: for each slope the range of levels at `origin`."""

    origin: int
    slopes: Column
    highest: Column
    lowest: Column


def _polygon(found: Constraints, slack: float) -> tuple[_Polygon | None, float, int | None]:
    """The allowed lines; without any, by how much the best line misses, and the row that contradicts many others."""
    origin = int(found.at[len(found) // 2])
    start, t = ((moments - origin).astype(np.float64) for moments in (found.start, found.at))
    above, below = np.flatnonzero(np.isfinite(found.high)), np.flatnonzero(np.isfinite(found.low))
    upper = _lower_hull(start[above], found.high[above] + slack)
    lower = _lower_hull(t[below], slack - found.low[below])

    def highest(slope: Column) -> Column:
        level: Column = (upper[1] - slope[:, None] * upper[0]).min(1)
        return level

    def lowest(slope: Column) -> Column:
        level: Column = (-lower[1] - slope[:, None] * lower[0]).max(1)
        return level

    corners = np.concatenate([_slopes(*upper), -_slopes(*lower), [-MOST_DRIFT, MOST_DRIFT]])
    slopes = np.unique(np.clip(corners, -MOST_DRIFT, MOST_DRIFT))
    room = highest(slopes) - lowest(slopes)
    best = int(np.argmax(room))
    if room[best] < -_ROUNDING:
        return None, float(-room[best]), _guilty(found, start, t, slack, float(slopes[best]))
    inside = np.flatnonzero(room >= -_ROUNDING)
    ends = []
    for kept, dropped in ((inside[0], inside[0] - 1), (inside[-1], inside[-1] + 1)):
        if 0 <= dropped < len(slopes):  # room is linear between two corners: where it becomes 0
            share = max(room[kept], 0.0) / (room[kept] - room[dropped])
            ends.append(slopes[kept] + share * (slopes[dropped] - slopes[kept]))
    all_slopes = np.concatenate([slopes[inside], ends])
    return _Polygon(origin, all_slopes, highest(all_slopes), lowest(all_slopes)), 0.0, None


def _guilty(found: Constraints, start: Column, t: Column, slack: float, slope: float) -> int | None:
    """The constraint that contradicts many others where those contradict each other little; None where both sides do."""
    high, low = found.high + slack - slope * start, found.low - slack - slope * t
    least, most = int(np.argmin(high)), int(np.argmax(low))
    against_high, against_low = int((low > high[least]).sum()), int((high < low[most]).sum())
    if max(against_high, against_low) < 3 or max(against_high, against_low) < 2 * min(
        against_high, against_low
    ):
        return None
    return least if against_high > against_low else most


def _lower_hull(t: Column, value: Column) -> tuple[Column, Column]:
    """The lower convex hull of points, by time; there are some hundred points at most."""
    order = np.lexsort((value, t))
    hull: list[tuple[float, float]] = []
    for x, y in zip(t[order].tolist(), value[order].tolist(), strict=True):
        if hull and hull[-1][0] == x:
            continue
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    points = np.array(hull)
    return points[:, 0], points[:, 1]


def _slopes(t: Column, value: Column) -> Column:
    slopes: Column = np.diff(value) / np.diff(t)
    return slopes


def _stretch(
    found: Constraints, polygon: _Polygon, least_bound: float, begin: int, end: int
) -> OffsetStretch:
    """The estimate inside of the polygon: the line of the ends, else the middle of the limits."""
    t = (found.at - polygon.origin).astype(np.float64)
    known = np.flatnonzero(np.isfinite(found.end))
    if len(known) >= 3:
        level, drift = _robust_line(t[known], found.end[known])
    else:
        edges = np.array([t[0], t[-1]])
        grown = edges[:, None] * polygon.slopes
        middle = ((polygon.lowest + grown).min(1) + (polygon.highest + grown).max(1)) / 2
        drift = float(middle[1] - middle[0]) / max(float(edges[1] - edges[0]), 1.0)
        level = float(middle[0] - drift * edges[0])
    return OffsetStretch(
        begin,
        end,
        polygon.origin,
        level,
        drift,
        polygon.slopes,
        polygon.highest,
        polygon.lowest,
        least_bound,
    )


def _robust_line(t: Column, value: Column) -> tuple[float, float]:
    """Level at 0 and slope by medians: of slopes between points half the rows apart, then of the residuals."""
    half = len(t) // 2
    rise, run = value[half:] - value[: len(value) - half], t[half:] - t[: len(t) - half]
    apart = run > 0
    slope = float(np.median(rise[apart] / run[apart])) if apart.any() else 0.0
    slope = float(np.clip(slope, -MOST_DRIFT, MOST_DRIFT))
    return float(np.median(value - slope * t)), slope
