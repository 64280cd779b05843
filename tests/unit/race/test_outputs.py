"""Comparing outputs: every bit counts without a tolerance; with one, numbers may differ; damage is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpsight.race.outputs import array_difference, array_of, file_difference, text_difference


def test_without_a_tolerance_every_bit_of_an_array_counts() -> None:
    zero = np.array([0.0, 1.0, np.nan])
    assert array_difference(zero.copy(), zero, 0.0) == ""  # NaN is the same as itself
    assert "1 of 3 elements, first at [0]: -0.0 instead of 0.0" in array_difference(
        np.array([-0.0, 1.0, np.nan]), zero, 0.0
    )
    assert "is float32[3] instead of float64[3]" in array_difference(zero.astype(np.float32), zero, 0.0)
    scalar = np.array(2.5)
    assert array_difference(np.array(2.0), scalar, 0.0).endswith("first at []: 2.0 instead of 2.5")
    transposed = np.arange(6.0).reshape(2, 3).T
    assert array_difference(np.ascontiguousarray(transposed), transposed, 0.0) == ""
    assert array_difference(transposed + np.eye(3, 2), transposed, 0.0).startswith("differs in 2 of 6")


def test_a_tolerance_is_absolute_for_small_and_relative_for_large_numbers() -> None:
    expected = np.array([0.0, 1000.0, np.inf, np.nan])
    assert array_difference(np.array([0.009, 1009.0, np.inf, np.nan]), expected, 0.01) == ""
    assert "first at [0]" in array_difference(np.array([0.011, 1000.0, np.inf, np.nan]), expected, 0.01)
    assert "first at [1]" in array_difference(np.array([0.0, 1011.0, np.inf, np.nan]), expected, 0.01)
    assert "2 of 4" in array_difference(np.array([0.0, 1000.0, -np.inf, 1.0]), expected, 0.01)
    unsigned = np.array([3, 250], np.uint8)
    assert "first at [0]: 2 instead of 3" in array_difference(np.array([2, 250], np.uint8), unsigned, 0.1)
    assert array_difference(np.array([0], np.uint8), np.array([255], np.uint8), 0.5)  # does not wrap around
    assert array_difference(np.array(["a"]), np.array(["b"]), 0.1).startswith("differs in 1")


@pytest.mark.parametrize(
    ("found", "expected", "tolerance", "told"),
    [
        (b"loss 1.0\n", b"loss 1.0\n", 0.0, ""),
        (b"loss 1.0001\n", b"loss 1.0\n", 0.0, "differs in line 1: 'loss 1.0001' instead of 'loss 1.0'"),
        (b"loss 1.0001 nan\n", b"loss 1.0 nan\n", 0.001, ""),
        (b"loss 1.1\n", b"loss 1.0\n", 0.001, "differs in line 1"),
        (b"gain 1.0\n", b"loss 1.0\n", 0.5, "differs in line 1"),
        (b"1\n2\n", b"1\n", 0.0, "differs in line 2: '2' instead of nothing"),
        (b"\xff\n", b"\xfe\n", 0.0, "differs in line 1"),
        (b"1\n", b"1", 0.0, "differs"),
    ],
)
def test_text_is_compared_with_its_numbers(
    found: bytes, expected: bytes, tolerance: float, told: str
) -> None:
    assert text_difference(found, expected, tolerance).startswith(told)
    assert bool(text_difference(found, expected, tolerance)) == bool(told)


def test_array_files_that_are_damaged_are_told(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    np.save(tmp_path / "b.npy", np.arange(3))
    assert file_difference(tmp_path / "a.npy", tmp_path / "b.npy", 0.0) == ""
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY")
    assert file_difference(tmp_path / "a.npy", tmp_path / "b.npy", 0.0).startswith(
        "cannot be read as an array"
    )


class Tensor:
    """What is used of a torch tensor."""

    def __init__(self, values: list[float], known: bool) -> None:
        self.values, self.known = values, known

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return Tensor(self.values, True)

    def numpy(self) -> object:
        if not self.known:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.array(self.values, np.float32)


def test_tensors_of_types_that_numpy_lacks_are_widened() -> None:
    for known in (True, False):
        array = array_of(Tensor([1.5, 2.0], known))
        assert array.dtype == np.float32 and array.tolist() == [1.5, 2.0]
    assert array_of([1, 2]).tolist() == [1, 2]
