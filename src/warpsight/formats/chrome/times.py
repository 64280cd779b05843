"""Microseconds as text to integer nanoseconds, exactly: no number passes through a float."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
#: Replacement for a duration or time that is missing or not a number.
MISSING = np.iinfo(np.int64).min
_LIMIT = 1 << 62


def nanoseconds(texts: Sequence[Any]) -> Int64:
    """Times from a list of JSON values (bytes-like, a number or string each), truncated to nanoseconds.

    A value that is empty, not a number, or beyond 146 years is :data:`MISSING`.
    """
    if not len(texts):
        return np.zeros(0, np.int64)
    joined = b"\n".join(texts) + b"\n"
    if joined.translate(None, b"0123456789.-\n"):
        return _slowly(texts)
    data = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(data == 10)
    begins = np.concatenate([[0], ends[:-1] + 1])
    if len(ends) != len(texts) or int((ends - begins).min()) < 1 or int((ends - begins).max()) > 17:
        return _slowly(texts)
    dots = np.flatnonzero(data == 46)
    if len(dots) == len(ends) and bool((dots == ends - 4).all()):
        return _integers(joined, len(texts))  # as Kineto itself writes them
    rows = np.searchsorted(ends, dots)
    decimals = np.zeros(len(ends), np.int64)
    decimals[rows] = ends[rows] - dots - 1
    if bool((np.diff(rows) == 0).any()) or int(decimals.max()) > 3 or b"-" in joined:
        return _slowly(texts)
    values = _integers(joined, len(texts))
    return _slowly(texts) if bool((values > _LIMIT // _SCALE[decimals]).any()) else values * _SCALE[decimals]


_SCALE = np.array([1000, 100, 10, 1], np.int64)


def _integers(joined: bytes, count: int) -> Int64:
    """The digits of each line, with any decimal point removed."""
    value = np.fromstring(joined.replace(b".", b""), np.int64, sep="\n")
    return value if len(value) == count else np.full(count, MISSING)


def _slowly(texts: Sequence[Any]) -> Int64:
    return np.array([_one(bytes(text)) for text in texts], np.int64)


def _one(text: bytes) -> int:
    try:
        value = Decimal(text.decode().strip().strip('"'))
        if not value.is_finite() or abs(value) > _LIMIT // 1000:
            return MISSING
        return int((value * 1000).to_integral_value(ROUND_DOWN))
    except (ArithmeticError, ValueError):  # decimal's errors are arithmetic ones
        return MISSING
