"""The offset and drift between two clocks, from the times of the same calls on both.

Neither list is complete, nothing is known of the offset, and the moments differ by some jitter. A stretch of one list is
correlated with the whole other one (binned, by FFT); the best few offsets are refined by the mode of their residuals and
compared by how many moments they explain. From there the offset is followed stretch by stretch, so drift needs no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

#: Number of moments in the initial search, and in each stretch along which the offset is followed.
_SEARCHED = 2048
_STRETCH = 1024
#: Maximum drift between clocks.
_MOST_DRIFT = 1e-3
_CANDIDATES = 6
_MOST_BINS = 1 << 22


@dataclass(frozen=True)
class ClockOffset:
    """The other clock's time of a moment `c` is `c + offset(c)`; offsets are interpolated between `at`.

    `explained` is the share of moments that have a partner at this offset, `rival` the share at the best other offset. If the two
    are close, the offset is not known (calls at even distances look alike).
    """

    at: Column
    offset: Column
    explained: float
    rival: float

    @property
    def known(self) -> bool:
        """Whether this offset explains the moments and no other explains them about as well."""
        return self.explained >= 0.5 and self.rival < 0.9 * self.explained

    def corrected(self, moments: Column) -> Column:
        """Moments on the other clock, as int64 ns."""
        base = int(self.at[0])
        x, at, relative = (
            (moments - base).astype(np.float64),
            (self.at - base).astype(np.float64),
            self._relative(),
        )
        shift = np.interp(x, at, relative)
        if len(at) > 1:  # on in the direction of the ends
            first = (relative[1] - relative[0]) / max(at[1] - at[0], 1.0)
            last = (relative[-1] - relative[-2]) / max(at[-1] - at[-2], 1.0)
            shift = np.where(
                x < 0, x * first, np.where(x > at[-1], relative[-1] + (x - at[-1]) * last, shift)
            )
        corrected: Column = moments + int(self.offset[0]) + np.rint(shift).astype(np.int64)
        return corrected

    def _relative(self) -> Column:
        relative: Column = (self.offset - self.offset[0]).astype(np.float64)
        return relative

    @property
    def drift(self) -> float:
        """Drift of the whole recording: ns gained per ns."""
        span = float(self.at[-1] - self.at[0])
        return float(self._relative()[-1]) / span if span > 0 else 0.0


def find(ours: Column, theirs: Column) -> ClockOffset | None:
    """The clock relation of two sorted lists of int64 ns; None if one of them is too short."""
    if not len(ours) or not len(theirs):
        return None
    if len(ours) < 3 or len(theirs) < 3:
        return _few(ours, theirs)
    stretch, first = _busiest(ours)
    width = _width(theirs)
    candidates = _searched(stretch, theirs)
    best = max((_fit(stretch, theirs, o, width) for o in candidates[:2]), key=lambda fit: fit.explained)
    if best.explained < 0.5:
        fits = [best, *(_fit(stretch, theirs, o, width) for o in candidates[2:])]
        best = max(fits, key=lambda fit: fit.explained)
    others = [_fit(stretch, theirs, o, width, best.drift) for o in candidates]
    rival = max((f.explained for f in others if abs(f.offset - best.offset) > 4 * width), default=0.0)
    at, offsets = _followed(ours, theirs, best, first)
    return ClockOffset(at, offsets, best.explained, rival)


@dataclass(frozen=True)
class _Fit:
    """An offset at the middle of a stretch, its drift there, and the share of the stretch they explain."""

    offset: int
    drift: float
    explained: float


def _fit(stretch: Column, theirs: Column, offset: int, width: int, drift: float | None = None) -> _Fit:
    """Try drifts (or the one given), spaced so that no moment is further than `width` from its partner."""
    middle = int(stretch[len(stretch) // 2])
    half = max(int(stretch[-1]) - middle, middle - int(stretch[0]), 1)
    step = max(width / half, _MOST_DRIFT / 32)
    steps = int(_MOST_DRIFT / step) + 1
    best = _Fit(offset, 0.0, -1.0)
    drifts = sorted((np.arange(-steps, steps + 1) * step).tolist(), key=abs) if drift is None else [drift]
    for tried in drifts:
        straight = _detrended(stretch, middle, tried)
        moved = _refined(straight, theirs, offset, 4 * width)
        explained = _explained(straight, theirs, moved, width)
        if explained > best.explained + 0.02:
            best = _Fit(moved, tried, explained)
        if best.explained > 0.9:
            break
    return best


def _detrended(moments: Column, middle: int, drift: float) -> Column:
    """Moments with the drift around a middle removed."""
    return moments + np.rint((moments - middle) * drift).astype(np.int64) if drift else moments


def _few(ours: Column, theirs: Column) -> ClockOffset:
    """Too few moments to find an offset: assumes that the two clocks are equal."""
    explained = _explained(ours, theirs, 0, 1_000_000)
    return ClockOffset(ours[:1], np.zeros(1, np.int64), explained, 0.0)


def _busiest(moments: Column) -> tuple[Column, int]:
    """A stretch from the middle, and its start."""
    first = max((len(moments) - _SEARCHED) // 2, 0)
    return moments[first : first + _SEARCHED], first


def _width(moments: Column) -> int:
    """How close to its expected position a partner must be: a fraction of the usual distance between calls."""
    gaps = np.diff(moments)
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1_000.0
    return int(min(max(usual / 8, 200), 1_000_000))


def _searched(stretch: Column, theirs: Column) -> list[int]:
    """Refined offsets at which the stretch fits the other list best, always including that of equal clocks."""
    span = int(theirs[-1] - theirs[0]) + int(stretch[-1] - stretch[0])
    gaps = np.diff(theirs)
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1_000.0
    bin_ns = max(usual / 3, span / _MOST_BINS, 100.0)
    size = 1 << int(np.ceil(np.log2(span / bin_ns + 4)))
    a = np.bincount(((stretch - stretch[0]) / bin_ns).astype(np.int64), minlength=1).astype(np.float32)
    b = np.bincount(((theirs - theirs[0]) / bin_ns).astype(np.int64), minlength=1).astype(np.float32)
    # Bursts would outvote everything else if their counts were multiplied.
    a, b = np.sqrt(a), np.sqrt(b)
    product = np.conj(np.fft.rfft(a - a.mean(), size)) * np.fft.rfft(b - b.mean(), size)
    fit = np.fft.irfft(product, size)
    peaks = _peaks(fit)
    lags = np.where(peaks > size - len(a), peaks - size, peaks)
    rough = [int(theirs[0] - stretch[0]) + int(lag * bin_ns) for lag in lags.tolist()]
    # Equal clocks first: they are the usual case.
    return [_refined(stretch, theirs, offset, int(2 * bin_ns)) for offset in [0, *rough]]


def _peaks(fit: Column) -> Column:
    """The highest local maxima."""
    higher = (fit >= np.roll(fit, 1)) & (fit > np.roll(fit, -1))
    places = np.flatnonzero(higher)
    if len(places) > _CANDIDATES:
        places = places[np.argpartition(fit[places], -_CANDIDATES)[-_CANDIDATES:]]
    places = places[np.argsort(-fit[places])]
    return places if len(places) else np.array([int(np.argmax(fit))])


def _differences(ours: Column, theirs: Column, offset: int, reach: int) -> Column:
    """Every `theirs - ours - offset` within `reach`."""
    low = np.searchsorted(theirs, ours + (offset - reach))
    high = np.searchsorted(theirs, ours + (offset + reach), "right")
    counts = high - low
    total = int(counts.sum())
    ends = np.cumsum(counts)
    places = np.arange(total) + np.repeat(low - (ends - counts), counts)
    found: Column = theirs[places] - np.repeat(ours, counts) - offset
    return found


def _refined(ours: Column, theirs: Column, offset: int, reach: int) -> int:
    """The offset moved to the mode of nearby differences, in two steps of ever finer bins."""
    for _ in range(2):
        found = _differences(ours, theirs, offset, reach)
        if not len(found):
            return offset
        offset += _mode(found, max(reach // 24, 50))
        reach = max(reach // 4, 500)
    return offset


def _mode(values: Column, step: int) -> int:
    """The densest place, computed as the median of the values around it."""
    low = int(values.min())
    counts = np.bincount((values - low) // step)
    both = counts + np.concatenate([counts[1:], [0]])
    place = int(np.argmax(both))
    begin = low + place * step
    inside = values[(values >= begin) & (values < begin + 2 * step)]
    return int(np.median(inside))


def _explained(ours: Column, theirs: Column, offset: int, width: int) -> float:
    """The share of moments with a partner within `width`, minus the share expected by chance."""
    moved = ours + offset
    right = np.minimum(np.searchsorted(theirs, moved), len(theirs) - 1)
    left = np.maximum(right - 1, 0)
    near = np.minimum(np.abs(theirs[right] - moved), np.abs(theirs[left] - moved))
    # Each partner explains one moment only.
    closest = np.where(np.abs(theirs[right] - moved) <= np.abs(theirs[left] - moved), right, left)
    there = np.zeros(len(theirs), bool)
    there[closest[near <= width]] = True
    return int(there.sum()) / len(ours)


def _followed(ours: Column, theirs: Column, best: _Fit, first: int) -> tuple[Column, Column]:
    """The offset at the middle of every stretch, followed outward from where it was found."""
    edges = list(range(0, len(ours), _STRETCH))
    pieces = [ours[e : e + _STRETCH] for e in edges]
    if len(pieces) > 1 and len(pieces[-1]) < _STRETCH // 4:
        pieces[-2:] = [np.concatenate(pieces[-2:])]
    middle = [int(piece[len(piece) // 2]) for piece in pieces]
    start = min(first // _STRETCH + 1, len(pieces) - 1)
    searched = int(ours[first + min(_SEARCHED, len(ours) - first) // 2])
    guess = best.offset + int(best.drift * (middle[start] - searched))
    straight = _detrended(pieces[start], middle[start], best.drift)
    found: dict[int, int] = {start: _refined(straight, theirs, guess, _width(theirs))}
    for direction in (1, -1):
        before, slope = start, best.drift
        place = start + direction
        while 0 <= place < len(pieces):
            gap = middle[place] - middle[before]
            reach = int(min(max(_MOST_DRIFT / 8 * abs(gap), 2_000), 5_000_000))
            straight = _detrended(pieces[place], middle[place], slope)
            moved = _nearest_mode(straight, theirs, found[before] + int(slope * gap), reach)
            if moved is not None:
                found[place] = moved
                if middle[place] != middle[start]:  # as in damaged times
                    slope = (moved - found[start]) / (middle[place] - middle[start])
                before = place
            place += direction
    if len(found) == 1 and best.drift:
        ends = np.array([ours[0], ours[-1]], np.int64)
        return ends, found[start] + np.rint((ends - middle[start]) * best.drift).astype(np.int64)
    places = sorted(found)
    at = np.array([middle[p] for p in places], np.int64)
    return _smooth(at, np.array([found[p] for p in places], np.int64))


def _nearest_mode(piece: Column, theirs: Column, guess: int, reach: int) -> int | None:
    """The offset of a stretch near a guess; None when it has no partners there."""
    found = _differences(piece, theirs, guess, reach)
    if len(found) < len(piece) // 4:
        return None
    return _refined(piece, theirs, guess + _mode(found, max(reach // 64, 100)), 2_000)


def _smooth(at: Column, offset: Column) -> tuple[Column, Column]:
    """A straight line if the offsets fit one within their own scatter: two points instead of all."""
    if len(at) < 3:
        return at, offset
    x = (at - at[0]).astype(np.float64)
    y = (offset - offset[0]).astype(np.float64)
    gap = max(len(at) // 3, 1)
    slope = float(np.median((y[gap:] - y[:-gap]) / np.maximum(x[gap:] - x[:-gap], 1.0)))
    level = float(np.median(y - slope * x))
    if float(np.abs(y - slope * x - level).max()) > 1_500:
        return at, offset
    ends = np.array([0.0, x[-1]])
    return at[[0, -1]], offset[0] + np.rint(level + slope * ends).astype(np.int64)
