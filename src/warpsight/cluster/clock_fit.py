"""The offset between two clocks from events that both saw, with an error bound that holds.

No rank leaves an all-reduce before the last rank has entered it. With `offset` taken to be what turns the other clock's time
into ours, every collective that both clocks saw gives an interval:

    our start  - their end  ≤  offset  ≤  our end - their start

Over a stretch of time the offset is a line, `level + drift * t`. The intervals bound level and drift to a convex polygon, and its
extreme lines bound the offset at every moment (Moon, Skelly, Towsley 1999). Where no line fits, a constraint that contradicts
many others is left out, else the stretch is cut in two. Inside the polygon the estimate follows the ends of collectives, which
are close together on all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

#: Clocks do not drift faster than this against each other (ns per ns); crystal oscillators stay below 1e-4.
MOST_DRIFT = 5e-4
#: Uncertainty of timestamps where the source has none (ns), and what is always allowed for.
_UNKNOWN_NOISE, _LEAST_SLACK = 1_000.0, 100.0
#: How much an oscillator wanders off a straight line per second of a stretch (ns): 0.01 ppm.
_WANDER = 10.0
#: Stretches are cut no further than this many constraints or this length (ns).
_FEW, _SHORT = 16, 1e9
_BUCKETS = 512
#: Parts of a stretch whose middles show a bend, and how far apart these must be: in scatters of a middle, and in ns.
_BLOCKS, _BENT, _LEAST_BEND = 16, 12.0, 2_000.0
#: At most so many constraints, and one in so many, are left out: more of them are a clock that was set.
_MOST_LEFT_OUT, _LEFT_OUT = 32, 10
#: Limits that touch are apart by rounding (ns).
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Constraints:
    """Bounds on the offset between two clocks, a row per event (ns).

    Attributes:
        at: When, on the other clock.
        low: The least the offset can be, as floats relative to `base`; -inf where the event does not say.
        high: The most it can be; inf where the event does not say.
        end: Our end minus their end; nan where ends need not be near each other.
        base: Whole nanoseconds that `low`, `high` and `end` are relative to: keeps floats exact.
    """

    at: Column
    low: Column
    high: Column
    end: Column
    base: int

    def __len__(self) -> int:
        return len(self.at)

    def chosen(self, rows: Column) -> Constraints:
        """Some of the rows."""
        return Constraints(self.at[rows], self.low[rows], self.high[rows], self.end[rows], self.base)


@dataclass(frozen=True)
class OffsetStretch:
    """The offset over one stretch of the other clock's time, relative to `origin` and the constraints' base.

    Attributes:
        begin: First moment, ns.
        origin: The moment that `level` is for, ns.
        level: Estimated offset at `origin`, ns.
        drift: Estimated change per ns.
        slopes: Drifts of the extreme lines.
        highest: Level of the highest line of each slope.
        lowest: Level of the lowest line of each slope.
        least_bound: What the readings themselves can be off by, ns: lines between them can be closer together.
    """

    begin: int
    origin: int
    level: float
    drift: float
    slopes: Column
    highest: Column
    lowest: Column
    least_bound: float = 0.0

    def limits(self, at: Column) -> tuple[Column, Column]:
        """The least and the most that the offset can be at some moments."""
        t = (at - self.origin).astype(np.float64)[:, None] * self.slopes
        return (self.lowest + t).min(1), (self.highest + t).max(1)

    def estimate(self, at: Column) -> tuple[Column, Column]:
        """The offset at some moments, and how far off it can be."""
        low, high = self.limits(at)
        found = np.clip(self.level + self.drift * (at - self.origin), low, high)
        return found, np.maximum(np.maximum(high - found, found - low), self.least_bound)


@dataclass(frozen=True)
class ClockFit:
    """The offset of one clock to another over all of a recording; `left_out` constraints contradicted the others."""

    stretches: tuple[OffsetStretch, ...]
    base: int
    constraints: int
    left_out: int

    def offset(self, at: Column) -> tuple[Column, Column]:
        """The value to add to some moments of the other clock (int64 ns), and its error bound (float ns)."""
        moments = np.asarray(at, np.int64)
        offset, bound = np.empty(len(moments)), np.empty(len(moments))
        begins = np.array([one.begin for one in self.stretches[1:]], np.int64)
        place = np.searchsorted(begins, moments, "right")
        for number, one in enumerate(self.stretches):
            mine = place == number
            if mine.any():
                offset[mine], bound[mine] = one.estimate(moments[mine])
        return self.base + np.rint(offset).astype(np.int64), bound

    @property
    def drift(self) -> float:
        """The drift of the longest stretch, ns per ns."""
        return self.stretches[len(self.stretches) // 2].drift


def fit(constraints: Constraints) -> ClockFit | None:
    """The offset that the constraints allow; None when they do not bound it from both sides."""
    if not np.isfinite(constraints.low).any() or not np.isfinite(constraints.high).any():
        return None
    order = np.argsort(constraints.at, kind="stable")
    ordered = constraints.chosen(order)
    noise = _noise(ordered.end)
    found = list(_stretches(ordered, noise, 0))
    left_out = sum(out for _, out in found)
    return ClockFit(tuple(stretch for stretch, _ in found), constraints.base, len(constraints), left_out)


def _noise(end: Column) -> float:
    """The spread of timestamps, from how much neighboring ends differ beyond a line."""
    known = end[np.isfinite(end)]
    if len(known) < 8:
        return _UNKNOWN_NOISE
    bends = known[2:] - 2 * known[1:-1] + known[:-2]
    return float(1.4826 * np.median(np.abs(bends - np.median(bends))) / np.sqrt(6))


def _stretches(found: Constraints, noise: float, depth: int) -> Iterator[tuple[OffsetStretch, int]]:
    """The stretches of some constraints, each with how many of them were left out."""
    length = float(found.at[-1] - found.at[0])
    # The extremes of many noisy readings are far out: that far the limits are moved apart.
    expected = noise * (1 + np.sqrt(2 * np.log(max(len(found), 2)))) + _LEAST_SLACK + _WANDER * length / 1e9
    slack = expected
    thin = _thinned(found)
    out = 0
    while True:
        polygon, gap, guilty = _polygon(thin, slack)
        bend = _bend(found) if polygon is not None else 0.0
        if (
            polygon is None
            and guilty is not None
            and out < min(_MOST_LEFT_OUT, max(len(found) // _LEFT_OUT, 1))
        ):
            keep = np.arange(len(thin)) != guilty
            thin, out = thin.chosen(np.flatnonzero(keep)), out + 1
            continue
        middle = len(found) // 2
        halves = found.chosen(np.arange(middle)), found.chosen(np.arange(middle, len(found)))
        cut = len(found) >= 2 * _FEW and length > _SHORT and all(map(_two_sided, halves))
        if cut and (polygon is None or bend > 0):
            for half in halves:
                yield from _stretches(half, noise, depth + 1)
            return
        if polygon is not None:
            # Where slack was added until a line fits, constraints that contradict each other by twice that meet in
            # this line, and some of them are wrong.
            yield _stretch(found, polygon, expected + 2 * (slack - expected) + bend), out
            return
        slack += gap / 2 + 1.0


def _bend(found: Constraints) -> float:
    """How far the ends of collectives leave a line over time, beyond their scatter (ns): one of the clocks changed its pace."""
    known = np.flatnonzero(np.isfinite(found.end))
    count = min(_BLOCKS, len(known) // _FEW)
    if count < 3:
        return 0.0
    t = (found.at[known] - found.at[0]).astype(np.float64)
    level, drift = _robust_line(t, found.end[known])
    blocks = np.array_split(found.end[known] - level - drift * t, count)
    middles = np.array([np.median(block) for block in blocks])
    scatter = np.median(
        [np.median(np.abs(block - middle)) for block, middle in zip(blocks, middles, strict=True)]
    )
    apart = float(np.ptp(middles))
    return apart if apart > _BENT * scatter / np.sqrt(len(known) / count) + _LEAST_BEND else 0.0


def _two_sided(found: Constraints) -> bool:
    return bool(np.isfinite(found.low).any() and np.isfinite(found.high).any())


def _thinned(found: Constraints) -> Constraints:
    """The tightest constraints of each of some hundred equal parts of the time: the others hardly matter."""
    if len(found) <= _BUCKETS:
        return found
    span = max(float(found.at[-1] - found.at[0]), 1.0)
    bucket = ((found.at - found.at[0]) / span * (_BUCKETS - 1)).astype(np.int64)
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
    t = (found.at - origin).astype(np.float64)
    above, below = np.flatnonzero(np.isfinite(found.high)), np.flatnonzero(np.isfinite(found.low))
    upper = _lower_hull(t[above], found.high[above] + slack)
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
        return None, float(-room[best]), _guilty(found, t, slack, float(slopes[best]))
    inside = np.flatnonzero(room >= -_ROUNDING)
    ends = []
    for kept, dropped in ((inside[0], inside[0] - 1), (inside[-1], inside[-1] + 1)):
        if 0 <= dropped < len(slopes):  # room is linear between two corners: where it becomes 0
            share = max(room[kept], 0.0) / (room[kept] - room[dropped])
            ends.append(slopes[kept] + share * (slopes[dropped] - slopes[kept]))
    all_slopes = np.concatenate([slopes[inside], ends])
    return _Polygon(origin, all_slopes, highest(all_slopes), lowest(all_slopes)), 0.0, None


def _guilty(found: Constraints, t: Column, slack: float, slope: float) -> int | None:
    """The constraint that contradicts many others where those contradict each other little; None where both sides do."""
    high, low = found.high + slack - slope * t, found.low - slack - slope * t
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


def _stretch(found: Constraints, polygon: _Polygon, least_bound: float) -> OffsetStretch:
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
        int(found.at[0]),
        polygon.origin,
        level,
        drift,
        polygon.slopes,
        polygon.highest,
        polygon.lowest,
        least_bound,
    )


def _robust_line(t: Column, value: Column) -> tuple[float, float]:
    """Level at 0 and slope by medians: of slopes between points half the rows apart, then of what is left."""
    half = len(t) // 2
    rise, run = value[half:] - value[: len(value) - half], t[half:] - t[: len(t) - half]
    apart = run > 0
    slope = float(np.median(rise[apart] / run[apart])) if apart.any() else 0.0
    slope = float(np.clip(slope, -MOST_DRIFT, MOST_DRIFT))
    return float(np.median(value - slope * t)), slope
