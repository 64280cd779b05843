"""Which line of the table a driver's name of a device picks, and which rate a type runs at."""

from __future__ import annotations

import pytest

from tests.unit.analysis.conftest import Build, device
from warpsight.analysis.ops import peaks
from warpsight.analysis.ops.peaks import Peaks

#: The driver's name, GB/s, and one or two rates of its own in TFLOP/s that no other device has beside that bandwidth.
NAMED = [
    ("NVIDIA B300 SXM6 AC", 8000, {"fp4": 13500.0}, {"fp64": 1.25}),
    ("NVIDIA GB200", 8000, {"fp64": 40.0}, {"fp32": 80.0}),
    ("NVIDIA B200", 8000, {"fp64": 37.0}, {"fp32": 75.0}),
    ("NVIDIA H200 NVL", 4800, {"fp16": 835.0}, {"fp64": 30.0}),
    ("NVIDIA H100 NVL", 3900, {"int8": 1671.0}, {"fp32": 60.0}),
    ("NVIDIA H100 PCIe", 2039, {"tf32": 378.0}, {"fp64": 26.0}),
    ("NVIDIA H100 SXM5", 3352, {"tf32": 494.7}, {"fp32": 66.9}),
    ("NVIDIA H20", 4000, {"fp8": 296.0}, {"fp32": 44.0}),
    ("NVIDIA A100-SXM4", 1555, {"fp64": 19.5}, {"fp64": 9.7}),
    ("NVIDIA A100-PCIE", 1555, {"tf32": 156.0}, {}),
    ("NVIDIA A100-PCIE-40GB", 1555, {"int8": 624.0}, {}),
    ("NVIDIA A100-SXM-80GB", 2039, {"int8": 624.0}, {}),
    ("NVIDIA A30", 933, {"fp64": 10.3}, {"fp64": 5.2}),
    ("NVIDIA A40", 696, {"int8": 299.3}, {"fp32": 37.4}),
    ("NVIDIA A10G", 600, {"tf32": 35.0}, {"fp32": 35.0}),
    ("NVIDIA A10", 600, {"tf32": 62.5}, {"fp32": 31.2}),
    ("NVIDIA L40S", 864, {"fp8": 733.0}, {"fp32": 91.6}),
    ("NVIDIA L40", 864, {"fp8": 362.0}, {"fp32": 90.5}),
    ("NVIDIA L4", 300, {"int8": 242.0}, {"fp32": 30.3}),
    ("NVIDIA RTX 6000 Ada Generation", 960, {"fp16": 364.2}, {"fp32": 91.1}),
    ("NVIDIA RTX A6000", 768, {"tf32": 77.4}, {"fp32": 38.7}),
    ("NVIDIA GeForce RTX 4090", 1008, {"int8": 660.6, "fp8": 330.3}, {"fp32": 82.6}),
    ("NVIDIA GeForce RTX 3090", 936, {"fp16": 71.0}, {"fp32": 35.6}),
    ("NVIDIA GeForce RTX 2080 Ti", 616, {"int8": 215.2}, {"fp32": 13.4}),
    ("Tesla T4", 320, {"fp16": 65.0}, {"fp32": 8.1}),
    ("Tesla V100-SXM2-32GB", 900, {"fp16": 125.0}, {"fp64": 7.8}),
    ("Tesla V100-PCIE-16GB", 900, {"fp16": 112.0}, {"fp64": 7.0}),
    ("Tesla P100-SXM2-16GB", 732, {}, {"fp32": 10.6}),
    ("Tesla P100-PCIE-16GB", 732, {}, {"fp32": 9.3}),
    ("AMD Instinct MI355X", 8000, {"fp4": 10066.3}, {"fp64": 78.6}),
    ("AMD Instinct MI350X", 8000, {"fp8": 4613.7}, {"fp64": 72.1}),
    ("AMD Instinct MI325X", 6000, {"fp8": 2614.9}, {"fp64": 81.7}),
    ("AMD Instinct MI300A", 5300, {"int8": 1961.2}, {"fp64": 61.3}),
    ("AMD Instinct MI250X", 1638, {"fp16": 191.5}, {"fp32": 23.9}),
    ("AMD Instinct MI250", 1638, {"fp16": 181.0}, {"fp32": 22.6}),
    ("AMD Instinct MI210", 1638, {"int8": 181.0}, {"fp64": 22.6}),
    ("AMD Instinct MI100", 1229, {"bf16": 92.3}, {"fp64": 11.5}),
]


@pytest.mark.parametrize(("name", "bandwidth", "matrix", "vector"), NAMED)
def test_a_name_picks_its_own_line(
    name: str, bandwidth: int, matrix: dict[str, float], vector: dict[str, float]
) -> None:
    found = peaks.of_device(name)
    assert found is not None and (found.bandwidth, found.source) == (bandwidth * 1e9, "data sheet")
    for dtype, rate in matrix.items():
        assert found.matrix[dtype] == pytest.approx(rate * 1e12)
    for dtype, rate in vector.items():
        assert found.vector[dtype] == pytest.approx(rate * 1e12)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "AMD Instinct MI250X/MI250",
        "NVIDIA A100-SXM4-40G",
        "NVIDIA L400",
        "NVIDIA H2000",
        "NVIDIA A100X",
        "NVIDIA H100 CNX",
    ],
)
def test_a_name_that_only_looks_like_one_picks_none(name: str) -> None:
    assert peaks.of_device(name) is None


RATES = Peaks(
    1.0, {"fp16": 8.0, "int8": 16.0, "fp4": 32.0, "fp64": 3.0}, {"fp32": 2.0, "fp64": 1.0, "int8": 5.0}, "s"
)


@pytest.mark.parametrize(
    ("dtype", "on_matrix", "on_vector"),
    [
        ("fp16", 8.0, 2.0),  # on other units small floats are computed with as fp32
        ("bf16", None, 2.0),
        ("fp8", None, 2.0),
        ("uint8", 16.0, None),
        ("int8", 16.0, 5.0),
        ("fp4x2", 32.0, None),
        ("complex128", 3.0, None),
        ("complex64", 2.0, None),  # no matrix unit takes fp32 here
        ("fp32", 2.0, 2.0),
        ("fp64", 3.0, 1.0),
        ("tf32", None, None),
        ("", None, None),
    ],
)
def test_the_rate_of_a_type(dtype: str, on_matrix: float | None, on_vector: float | None) -> None:
    assert (RATES.rate(dtype, True), RATES.rate(dtype, False)) == (on_matrix, on_vector)


def test_doubles_of_a_device_without_matrix_units_for_them_run_on_the_others() -> None:
    found = Peaks(None, {"int8": 16.0}, {"fp64": 1.0, "int8": 5.0, "int32": 4.0}, "s")
    assert found.rate("fp64", True) == found.rate("complex128", True) == 1.0
    assert found.rate("int32", True) is None


@pytest.mark.parametrize(
    ("capability", "matrix", "vector"),
    [
        ("7.0", {"fp16": 1024}, {"fp32": 128, "fp64": 64}),
        ("8.0", {"bf16": 2048, "fp64": 128, "int8": 4096}, {"fp32": 128, "fp64": 64}),
        ("8.6", {}, {"fp32": 256}),
        ("8.9", {}, {"fp32": 256}),
        ("9.0", {"fp16": 4096, "tf32": 2048, "fp8": 8192}, {"fp32": 256, "fp64": 128}),
        ("10.0", {"bf16": 8192, "tf32": 4096, "fp8": 16384, "int8": 16384}, {"fp32": 256, "fp64": 128}),
    ],
)
def test_a_capability_fixes_what_a_multiprocessor_does_in_a_cycle(
    capability: str, matrix: dict[str, int], vector: dict[str, int]
) -> None:
    found = peaks.of_device("?", capability=capability, multiprocessors=10, clock_khz=1_500, bandwidth=77)
    assert found is not None and found.bandwidth == 77
    for dtype, cycles in matrix.items():  # 10 multiprocessors · 1.5 MHz
        assert found.matrix[dtype] == cycles * 15_000_000
    assert dict(found.vector) == {dtype: cycles * 15_000_000 for dtype, cycles in vector.items()}


def test_what_is_not_known_of_a_device_is_left_out() -> None:
    assert peaks.of_device("?", capability="9.0", multiprocessors=10) is None
    assert peaks.of_device("?", capability="9.0", clock_khz=10) is None
    assert peaks.of_device("?", capability="6.1", multiprocessors=10, clock_khz=10) is None
    assert peaks.of_device("?", bandwidth=5) == Peaks(5.0, {}, {}, "device")
    clocked = peaks.of_device("?", capability="9.0", multiprocessors=1, clock_khz=1)
    assert clocked is not None and clocked.bandwidth is None


def test_each_device_of_a_trace_has_its_own_peaks(build: Build) -> None:
    rows = [
        device(0, name="Graphics Device"),
        device(1, name="Tesla T4", memory_bandwidth=250_000_000_000),
        device(3, name="?", compute_capability="8.6", multiprocessors=20, clock_khz=2_000_000),
    ]
    found = peaks.of_trace(build(device=rows))
    assert sorted(found) == [1, 3]
    assert (found[1].bandwidth, found[1].matrix["fp16"]) == (250e9, 65e12)
    assert dict(found[3].vector) == {"fp32": 256 * 20 * 2e9}
