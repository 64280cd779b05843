"""Distinct values of a column and each row's index into them, fast for small numbers."""

from __future__ import annotations

import numpy as np

from warpsight.formats.varint import Column

#: Values below this are looked up instead of sorted.
_SMALL = 1 << 20


def distinct(values: Column) -> tuple[Column, Column]:
    """Equivalent of `np.unique(values, return_inverse=True)` for unsigned integers."""
    if not len(values) or int(values.max()) >= _SMALL:
        return np.unique(values, return_inverse=True)
    there = np.zeros(int(values.max()) + 1, bool)
    there[values] = True
    found = np.flatnonzero(there).astype(values.dtype)
    place = np.cumsum(there, dtype=np.int64) - 1
    return found, place[values]


def first_uses(values: Column) -> tuple[Column, Column]:
    """Equivalent of `np.unique(values, return_index=True)` for unsigned integers."""
    if not len(values) or int(values.max()) >= _SMALL:
        return np.unique(values, return_index=True)
    first = np.full(int(values.max()) + 1, -1, np.int64)
    first[values[::-1]] = np.arange(len(values) - 1, -1, -1)
    found = np.flatnonzero(first >= 0)
    return found.astype(values.dtype), first[found]
