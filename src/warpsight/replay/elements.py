"""Memory elements of unknown type: a guess from their values, and the distance of two arrays in ulps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: Values of `--dtype`, and the NumPy type of the bits.
TYPES: dict[str, str] = {
    "float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<u2", "int64": "<i8", "int32": "<i4",
    "int16": "<i2", "uint8": "<u1",
}  # fmt: skip
_FLOATS = ("float64", "float32", "float16", "bfloat16")
_SAMPLE = 1 << 16
#: Standard deviation of log2|x| of normally distributed x; other common data are not far from it.
_USUAL_SPREAD = 1.6


def values(data: npt.NDArray[np.uint8], dtype: str) -> npt.NDArray[Any]:
    """Bytes as numbers; a partial element at the end is left out. bfloat16 becomes float32."""
    kind = np.dtype(TYPES[dtype])
    whole = data[: len(data) // kind.itemsize * kind.itemsize].view(kind)
    return (whole.astype("<u4") << 16).view("<f4") if dtype == "bfloat16" else whole


def guess(data: npt.NDArray[np.uint8]) -> str:
    """The type that best fits an array's bytes.

    A type fits a value if the resulting magnitude is common. If several types fit, as with halves of float32, the right one gives
    a typical spread of magnitudes.
    """
    sample = data[:_SAMPLE]
    sample = sample[: len(sample) // 8 * 8]
    if not sample.any():
        return "uint8"
    words = sample.view("<i4")
    if len(words) >= 2 and words[::2].any() and np.isin(words[1::2], (0, -1)).all():
        return "int64"
    if _share(np.abs(words.astype(np.int64)) < 1 << 24) > 0.95:
        return "int32"
    halves = sample.view("<u2")
    low = np.ascontiguousarray(halves[::2])  # of float32: the mantissa's end, noise or often zero
    narrow = [name for name in ("float16", "bfloat16") if _plausible(low.view(np.uint8), name) > 0.99]
    narrow = [name for name in narrow if _plausible(sample, name) > 0.99]
    if narrow and _share(low == 0) < _share(halves[1::2] == 0) + 0.2:
        wide = ["float32"] if _plausible(sample, "float32") > 0.9 else []
        return min([*narrow, *wide], key=lambda name: _oddness(sample, name))
    scores = {name: _plausible(sample, name) for name in ("float32", "float64")}
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] > 0.9 else "uint8"


def _magnitudes(data: npt.NDArray[np.uint8], dtype: str) -> npt.NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.abs(values(data, dtype).astype(np.float64))


def _plausible(data: npt.NDArray[np.uint8], dtype: str) -> float:
    found = _magnitudes(data, dtype)
    low, high = (1e-6, 6e4) if dtype == "float16" else (1e-12, 1e12)
    with np.errstate(all="ignore"):
        return _share((found == 0) | ((found > low) & (found < high)))


def _spread(data: npt.NDArray[np.uint8], dtype: str) -> float:
    found = _magnitudes(data, dtype)
    found = found[(found > 0) & np.isfinite(found)]
    return max(float(np.std(np.log2(found))), 1e-3) if len(found) else 1e-3


def _oddness(data: npt.NDArray[np.uint8], dtype: str) -> float:
    """How far the spread of magnitudes is from the usual one; pairs of bfloat16 have the same spread as float32."""
    return abs(float(np.log(_spread(data, dtype) / _USUAL_SPREAD))) + (0.15 if dtype == "float32" else 0.0)


def _share(mask: npt.NDArray[np.bool_]) -> float:
    return float(np.count_nonzero(mask)) / max(mask.size, 1)


@dataclass(frozen=True)
class Distance:
    """How two arrays of one type differ.

    Attributes:
        first: index of the first element that differs. differing, elements: number of differing elements, and of all. wanted,
            found: the values at `first`. largest: the largest difference in ulps (floats) or units (integers); None if only one
            of two values is a number. not_numbers: number of such elements.
    """

    first: int
    differing: int
    elements: int
    wanted: float
    found: float
    largest: int | None
    not_numbers: int


def distance(wanted: npt.NDArray[np.uint8], found: npt.NDArray[np.uint8], dtype: str) -> Distance:
    """How two different arrays of bytes differ as elements of a type."""
    size = np.dtype(TYPES[dtype]).itemsize
    elements = -(-len(wanted) // size)
    a, b = _bits(wanted, elements, size), _bits(found, elements, size)
    places = np.flatnonzero(a != b)
    first = int(places[0])
    left, right = a[places], b[places]
    numbers = np.ones(len(places), bool)
    if dtype in _FLOATS:
        numbers = ~(_not_number(left, dtype) | _not_number(right, dtype))
        left, right = _ordered(left), _ordered(right)
    elif dtype.startswith("int"):
        sign = left.dtype.type(1 << (8 * size - 1))
        left, right = left ^ sign, right ^ sign
    far = np.where(left > right, left - right, right - left)[numbers]
    one, other = (float(values(bits[first : first + 1].view(np.uint8), dtype)[0]) for bits in (a, b))
    largest = int(far.max()) if len(far) else None
    return Distance(first, len(places), elements, one, other, largest, int(np.count_nonzero(~numbers)))


def _bits(data: npt.NDArray[np.uint8], elements: int, size: int) -> npt.NDArray[Any]:
    padded = np.zeros(elements * size, np.uint8)
    padded[: len(data)] = data
    return padded.view(f"<u{size}")


def _not_number(bits: npt.NDArray[Any], dtype: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.isnan(values(bits.view(np.uint8), dtype))
    return found


def _ordered(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bits of floats as unsigned integers in value order, so that neighbors differ by one (and -0, +0 by zero).

    float16: 0x8001 (the largest negative) -> 0x7fff, 0x8000 and 0x0000 -> 0x8000, 0x0001 -> 0x8001.
    """
    sign = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    magnitude = bits & ~sign
    ordered: npt.NDArray[Any] = np.where(bits & sign, sign - magnitude, sign + magnitude)
    return ordered
