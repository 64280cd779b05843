"""The same work on another device: factors of kernels by what bounds them, from peaks that are easy to divide."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.conftest import build  # noqa: F401 - a fixture
from warpsight.analysis.ops.peaks import Peaks
from warpsight.errors import UsageError
from warpsight.model.work import COMMUNICATION, COPY, KERNEL, SET
from warpsight.simulate import devices

NAMES = ("sgemm_128", "elementwise", "ncclAllReduce", "Conv2d_wgrad", "flash_fwd")


def peaks_of(
    bandwidth: float | None, matrix: dict[str, float], vector: dict[str, float] | None = None
) -> Peaks:
    return Peaks(bandwidth, matrix, vector or {}, "made up")


OWN = peaks_of(1_000.0, {"bf16": 90.0, "fp16": 80.0})
#: Twice the memory, thrice the products.
OTHER = peaks_of(2_000.0, {"bf16": 270.0, "fp16": 800.0})


@pytest.fixture
def trace(build: Any) -> Any:  # noqa: F811
    return build(names=NAMES)


def factors(
    trace: Any, monkeypatch: pytest.MonkeyPatch, *work: tuple[int, int, int], own: Peaks = OWN, other: Peaks = OTHER,
    lean: int = 0,
) -> list[float]:  # fmt: skip
    """Factors of work of a kind, a name and a length."""
    monkeypatch.setattr(devices.peaks, "of_device", lambda name, **more: other if name == "New" else None)
    monkeypatch.setattr(devices.peaks, "of_trace", lambda trace: {0: own})
    kind, name, length = (np.array([row[place] for row in work]) for place in range(3))
    held: Any = SimpleNamespace(kind=kind, name_id=name, start=np.zeros(len(work), int), end=length)
    found, _ = devices.factors(trace, held, "New", lean)
    return [float(one) for one in found]


MS = 1_000_000


def test_products_go_with_the_matrix_units_and_everything_else_with_the_memory(
    trace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = [(KERNEL, n, MS) for n in (1, 2, 4, 5)]
    assert factors(trace, monkeypatch, *work) == pytest.approx([1 / 3, 1 / 2, 1 / 3, 1 / 3])


def test_copies_fills_and_collectives_take_as_long_as_before(
    trace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = [(COPY, 0, MS), (SET, 0, MS), (COMMUNICATION, 3, MS), (COPY, 0, 10)]
    assert factors(trace, monkeypatch, *work) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("matrix", "lean", "factor"),
    [
        (270.0, -1, 1 / 3),
        (270.0, 0, 1 / 3),
        (270.0, 1, 1 / 2),
        (99.0, -1, 1 / 2),
        (99.0, 0, 10 / 11),
        (99.0, 1, 10 / 11),
    ],
)
def test_products_lean_to_the_memory_or_the_matrix_units(
    trace: Any, monkeypatch: pytest.MonkeyPatch, matrix: float, lean: int, factor: float
) -> None:
    other = peaks_of(2_000.0, {"bf16": matrix})
    found = factors(trace, monkeypatch, (KERNEL, 1, MS), (KERNEL, 2, MS), other=other, lean=lean)
    assert found == pytest.approx([factor, 1 / 2])


def test_no_device_makes_a_kernel_shorter_than_a_microsecond_and_a_half(
    trace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [3_000, 2_999, 2_000, 1_500, 1_000, 0]
    found = factors(trace, monkeypatch, *((KERNEL, 2, length) for length in lengths))
    assert found == pytest.approx([0.5, 1_500 / 2_999, 0.75, 1, 1, 1])


def test_a_slower_device_makes_short_kernels_longer_too(trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slower = peaks_of(500.0, {"bf16": 45.0})
    found = factors(trace, monkeypatch, (KERNEL, 2, 400), (KERNEL, 1, 400), (KERNEL, 2, MS), other=slower)
    assert found == [2, 2, 2]


@pytest.mark.parametrize(
    ("own", "other", "ratio"),
    [
        ({"bf16": 10.0, "fp16": 10.0}, {"bf16": 20.0, "fp16": 40.0}, 0.5),
        ({"fp16": 10.0}, {"bf16": 20.0, "fp16": 40.0}, 0.25),
        ({"fp16": 10.0, "tf32": 8.0}, {"bf16": 20.0, "tf32": 64.0}, 0.125),
        ({"fp32": 3.0}, {"fp32": 4.0}, 0.75),
        ({"fp64": 3.0}, {"fp64": 30.0}, 0.5),  # nothing in common that counts: the memory's
        ({}, {"bf16": 1.0}, 0.5),
    ],
)
def test_rates_are_compared_in_the_first_type_that_both_have(
    own: dict[str, float], other: dict[str, float], ratio: float
) -> None:
    found = devices._ratios(peaks_of(1_000.0, own), peaks_of(2_000.0, other))
    assert found == pytest.approx((0.5, ratio))


def test_floats_of_the_other_units_count_where_no_matrix_unit_takes_them() -> None:
    own, other = peaks_of(1.0, {}, {"fp32": 2.0}), peaks_of(1.0, {"fp32": 8.0})
    assert devices._ratios(own, other) == (1, 0.25)


def test_devices_without_peaks_are_refused(trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no peaks are known"):
        factors(trace, monkeypatch, (KERNEL, 1, MS), other=peaks_of(None, {"bf16": 1.0}))
    with pytest.raises(UsageError, match="own device is not known"):
        factors(trace, monkeypatch, (KERNEL, 1, MS), own=peaks_of(None, {}))


@pytest.mark.parametrize(
    "name", ["H100", "h100", "A100", "V100", "P100", "B300", "MI250X", "NVIDIA H200", "mi300x"]
)
def test_names_that_people_use_are_known(trace: Any, name: str) -> None:
    with pytest.raises(
        UsageError, match="own device is not known"
    ):  # the trace has none; the other one is known
        devices.factors(trace, SimpleNamespace(), name, 0)  # type: ignore[arg-type]
