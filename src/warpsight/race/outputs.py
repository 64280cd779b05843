"""Compares a run's output with that of a run without delays: bytes, text with numbers, arrays."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)", re.IGNORECASE)
_SHOWN = 60


def array_of(value: Any) -> npt.NDArray[Any]:
    """A tensor (torch, CuPy, JAX, NumPy or nested lists) as an array in host memory, after waiting for its device work."""
    if hasattr(
        value, "detach"
    ):  # torch: types that NumPy does not have (bfloat16, float8) fit into 32 bits without loss
        value = value.detach().cpu()
        value = value.resolve_conj().resolve_neg() if hasattr(value, "resolve_conj") else value
        try:
            return np.array(value.numpy())
        except TypeError:
            return np.array(value.float().numpy())
    if hasattr(value, "get") and hasattr(value, "device"):  # CuPy
        value = value.get()
    return np.array(value)


def array_difference(found: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: float) -> str:
    """How an array differs, or "". Without a tolerance, arrays are compared bit by bit; with one, like text."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"is {found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if not tolerance:
        if found.tobytes() == expected.tobytes():
            return ""
        differs = np.ascontiguousarray(found).reshape(-1, 1).view(np.uint8) != np.ascontiguousarray(
            expected
        ).reshape(-1, 1).view(np.uint8)
        places = differs.any(1).reshape(found.shape)
    elif np.issubdtype(found.dtype, np.number):
        wide = (
            np.complex128 if np.iscomplexobj(found) else np.float64
        )  # differences of small integers would wrap around
        places = ~np.isclose(found.astype(wide), expected.astype(wide), tolerance, tolerance, equal_nan=True)
    else:
        places = found != expected
    if not places.any():
        return ""
    first = tuple(int(index) for index in np.argwhere(places)[0])
    return (
        f"differs in {int(places.sum()):,} of {places.size:,} elements, first at {list(first)}: "
        f"{found[first]!s} instead of {expected[first]!s}"
    )


def text_difference(found: bytes, expected: bytes, tolerance: float) -> str:
    """How text differs, or "". With a tolerance T, numbers may differ by T · (1 + |value|)."""
    if found == expected:
        return ""
    if tolerance and _NUMBER.sub(b"0", found) == _NUMBER.sub(b"0", expected):
        values = [np.array([float(n) for n in _NUMBER.findall(text)]) for text in (found, expected)]
        if not array_difference(values[0], values[1], tolerance):
            return ""
    ours, theirs = found.splitlines(), expected.splitlines()
    line = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if line is None:
        line = min(len(ours), len(theirs))
    shown = [_shown(lines[line]) if line < len(lines) else "nothing" for lines in (ours, theirs)]
    return f"differs in line {line + 1}: {shown[0]} instead of {shown[1]}"


def file_difference(found: Path, expected: Path, tolerance: float) -> str:
    """How a file differs from its reference; .npy files are arrays."""
    if found.suffix == ".npy":
        try:
            arrays = [np.load(path, allow_pickle=False) for path in (found, expected)]
        except (ValueError, EOFError) as error:
            return f"cannot be read as an array: {error}"
        return array_difference(arrays[0], arrays[1], tolerance)
    return text_difference(found.read_bytes(), expected.read_bytes(), tolerance)


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
