"""Types guessed from values, and distances in ulps that agree with the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.replay.elements import TYPES, distance, guess


def raw(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def normal(kind: str) -> np.ndarray:
    data = np.random.default_rng(5).standard_normal(20_000).astype(np.float32)
    if kind == "bfloat16":
        return (data.view(np.uint32) >> 16).astype(np.uint16)
    return data.astype(kind)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scale", [1, 8])
def test_floats_are_told_apart(kind: str, scale: int) -> None:
    data = normal(kind) if kind == "bfloat16" else normal(kind) * np.dtype(kind).type(scale)
    assert guess(raw(data)) == kind


def test_other_data_are_told_apart() -> None:
    rng = np.random.default_rng(6)
    assert guess(raw(np.arange(-500, 500, dtype=np.int32))) == "int32"
    assert guess(raw(np.arange(-500, 500, dtype=np.int64))) == "int64"
    assert guess(raw(np.arange(1000, dtype=np.float32))) == "float32"
    assert guess(rng.integers(0, 256, 4096, dtype=np.uint8)) == "uint8"
    assert guess(np.zeros(100, np.uint8)) == "uint8" and guess(np.zeros(0, np.uint8)) == "uint8"


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(1, 50))
def test_a_float_so_many_steps_away_is_so_many_ulps_away(value: float, steps: int) -> None:
    there = np.float32(value)
    with np.errstate(over="ignore"):
        for _ in range(steps):
            there = np.nextafter(there, np.float32(math.inf))
    if not math.isinf(there) and there.view(np.uint32) != np.float32(value).view(np.uint32):
        found = distance(
            raw(np.array([1, value], np.float32)), raw(np.array([1, there], np.float32)), "float32"
        )
        assert (found.first, found.differing, found.largest) == (1, 1, steps)


def test_not_a_number_has_no_distance() -> None:
    found = distance(raw(np.array([1, 2], np.float32)), raw(np.array([np.nan, 3], np.float32)), "float32")
    assert found.not_numbers == 1 and found.differing == 2 and found.largest == 1 << 22
    found = distance(raw(np.array([1], np.float32)), raw(np.array([np.nan], np.float32)), "float32")
    assert found.largest is None


def test_zeros_of_both_signs_differ_by_nothing() -> None:
    found = distance(raw(np.array([0.0], np.float32)), raw(np.array([-0.0], np.float32)), "float32")
    assert found.differing == 1 and found.largest == 0


@pytest.mark.parametrize("kind", TYPES)
def test_a_last_element_that_is_cut_still_counts(kind: str) -> None:
    size = np.dtype(TYPES[kind]).itemsize
    a = np.zeros(4 * size + max(size // 2, 1), np.uint8)
    b = a.copy()
    b[-1] = 1
    found = distance(a, b, kind)
    assert found.first == 4 and found.differing == 1


def test_integers_differ_by_units() -> None:
    found = distance(raw(np.array([-2, 5], np.int32)), raw(np.array([3, 5], np.int32)), "int32")
    assert (found.wanted, found.found, found.largest) == (-2, 3, 5)
