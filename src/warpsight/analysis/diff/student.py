"""Student's t distribution in NumPy: tail probabilities and critical values, also for fractional degrees of freedom."""

from __future__ import annotations

from math import lgamma
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
_TINY = 1e-300
_log_gamma = np.vectorize(lgamma, otypes=[float])


def two_sided(t: npt.ArrayLike, freedom: npt.ArrayLike) -> Column:
    """The probability that |T| is at least |t|, by the incomplete beta function: I(ν/(ν+t²); ν/2, ½)."""
    t, freedom = np.broadcast_arrays(np.asarray(t, float), np.asarray(freedom, float))
    square = t * t
    x = freedom / (freedom + square)
    # Near t = 0 the fraction converges slowly; there the other tail of the integral is taken.
    far = x < (freedom / 2 + 1) / (freedom / 2 + 2.5)
    half = np.full_like(freedom, 0.5)
    part = _beta(
        np.where(far, x, square / (freedom + square)),
        np.where(far, freedom / 2, half),
        np.where(far, half, freedom / 2),
    )
    out: Column = np.clip(np.where(far, part, 1 - part), 0, 1)
    return out


def critical(level: npt.ArrayLike, freedom: npt.ArrayLike) -> Column:
    """The t that |T| exceeds with this probability (two-sided, below 1).

    Newton's method on log P as a function of log t, which falls more and more steeply: from the second step on, it approaches
    from above.
    """
    level, freedom = np.broadcast_arrays(np.asarray(level, float), np.asarray(freedom, float))
    place = np.zeros(level.shape)
    constant = _log_gamma((freedom + 1) / 2) - _log_gamma(freedom / 2) - np.log(freedom * np.pi) / 2
    for _ in range(40):
        t = np.exp(place)
        tail = np.maximum(two_sided(t, freedom), _TINY)
        density = np.exp(constant - (freedom + 1) / 2 * np.log1p(t * t / freedom))
        step = np.clip(np.log(tail / level) * tail / np.maximum(2 * density * t, _TINY), -2, 4)
        place = place + step
        if np.all(np.abs(step) < 1e-10):
            break
    out: Column = np.exp(place)
    return out


def _beta(x: Column, a: Column, b: Column) -> Column:
    """The regularized incomplete beta function by its continued fraction (Lentz's method; Press et al. 2007, 6.4)."""
    inside = np.clip(x, _TINY, 1 - 1e-16)
    scale = _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b) + a * np.log(inside) + b * np.log1p(-inside)
    c = np.ones_like(inside)
    d = _away(1 - (a + b) * inside / (a + 1))
    fraction = d = 1 / d
    for m in range(1, 200):
        even = m * (b - m) * inside / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / _away(1 + even * d), _away(1 + even / c)
        fraction = fraction * d * c
        odd = -(a + m) * (a + b + m) * inside / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / _away(1 + odd * d), _away(1 + odd / c)
        step = d * c
        fraction = fraction * step
        if np.all(np.abs(step - 1) < 1e-12):
            break
    out: Column = np.where(x <= 0, 0.0, np.exp(scale) * fraction / a)
    return out


def _away(values: Column) -> Column:
    """The values, with those too close to 0 for division replaced."""
    out: Column = np.where(np.abs(values) < _TINY, _TINY, values)
    return out
