"""The results of probe operations over arrays: wrapping int64, float64, bool; equal to the device code's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_LEAST, _MOST = -(2**63), 2**63 - 1


def _floordiv(a: Array, b: Array) -> Array:
    """Floor division as in Python; 0 if the divisor is 0."""
    usual = np.where((b == 0) | (b == -1), 1, b)
    return np.where(b == 0, 0, np.where(b == -1, -a, a // usual))


def _mod(a: Array, b: Array) -> Array:
    """Modulo with the sign of the divisor; 0 if that is 0."""
    return np.where(b == 0, 0, a - _floordiv(a, b) * b)


def _shl(a: Array, b: Array) -> Array:
    """0 for shifts by 64 bits and more, including negative ones."""
    return np.where((b < 0) | (b > 63), 0, a << np.clip(b, 0, 63))


def _shr(a: Array, b: Array) -> Array:
    return a >> np.where((b < 0) | (b > 63), 63, b)


def _truncate(a: Array) -> Array:
    """Truncate toward zero; out-of-range values become the nearest integer, NaN the minimum."""
    small, large = ~(a > float(_LEAST)), a >= float(_MOST)
    return np.where(large, _MOST, np.where(small, _LEAST, np.where(small | large, 0.0, a).astype(np.int64)))


def _bits(a: Array) -> Array:
    """Number of bits of a non-negative number: 1 + its binary logarithm."""
    found, rest = np.zeros(a.shape, np.int64), a.astype(np.uint64)
    for width in (32, 16, 8, 4, 2, 1):
        large = rest >> np.uint64(width) != 0
        found += np.where(large, width, 0)
        rest = np.where(large, rest >> np.uint64(width), rest)
    return np.asarray(found + (rest != 0))


def _popcount(a: Array) -> Array:
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, 8)
    return np.asarray(np.unpackbits(octets, axis=-1).sum(-1), np.int64)


def _float16(a: Array) -> Array:
    return np.asarray(a.astype(np.uint16).view(np.float16), np.float64)


def _float32(a: Array) -> Array:
    return np.asarray(a.astype(np.uint32).view(np.float32), np.float64)


#: Operation → function of its operands.
OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "floordiv": _floordiv,
    "mod": _mod,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": _shl,
    "shr": _shr,
    "neg": lambda a: -a,
    "abs": np.abs,
    "min": lambda a, b: np.fmin(a, b),
    "max": lambda a, b: np.fmax(a, b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "land": lambda a, b: a & b,
    "lor": lambda a, b: a | b,
    "not": lambda a: ~a,
    "select": np.where,
    "to_int": lambda a: a.astype(np.int64),
    "to_float": lambda a: a.astype(np.float64),
    "truncate": _truncate,
    "bits": _bits,
    "popcount": _popcount,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "as_float16": _float16,
    "as_bfloat16": lambda a: _float32((a & 0xFFFF) << 16),
    "as_float32": _float32,
    "as_float64": lambda a: a.view(np.float64),
}


def integer(name: str, *numbers: int) -> int:
    """One operation on integers."""
    with np.errstate(all="ignore"):
        return int(OPERATIONS[name](*(np.array([number], np.int64) for number in numbers))[0])


def ordered(values: Array) -> Array:
    """Floats as integers in the same order; applied to the bits again, it is its own inverse."""
    bits = values.view(np.int64)
    return np.asarray(bits ^ (bits >> 63 & _MOST))
