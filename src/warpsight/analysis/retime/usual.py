"""Usual times: how long launches, stream order and waits take when nothing holds them up."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
#: Minimum observations for a function to have its own usual time.
_ENOUGH = 3
#: A delay up to this multiple of the usual time, and within these bounds (ns), is attributed to chance.
_TIMES, _LEAST, MOST = 4, 10_000, 100_000


def by_code(values: Column, code: Column, chosen: Column, codes: int, otherwise: int) -> Column:
    """The median of the chosen values of each code; rare codes get the median of all chosen values, or `otherwise`.

    How long before the end of its call work began differs by function, so the other functions say nothing about a rare one; 0 is
    the minimum there. `chosen` are indices. Codes are numbers from 0 to `codes` - 1.
    """
    whole = int(np.median(np.maximum(values[chosen], 0))) if len(chosen) else otherwise
    out = np.full(max(codes, 1), whole, np.int64)
    own = code[chosen]
    counts = np.bincount(own, minlength=codes)
    for one in np.flatnonzero(counts >= _ENOUGH).tolist():
        out[one] = int(np.median(values[chosen[own == one]]))
    return out


def longest(usual: Column) -> Column:
    """The longest time that still counts as usual."""
    out: Column = np.clip(_TIMES * usual, _LEAST, MOST)
    return out
