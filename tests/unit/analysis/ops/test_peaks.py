"""Peaks of devices: by name, by capability, or not at all."""

import pytest

from warpsight.analysis.ops import peaks


@pytest.mark.parametrize(
    ("name", "bandwidth", "bf16"),
    [
        ("NVIDIA H100 80GB HBM3", 3.352e12, 989.4e12),
        ("NVIDIA H100 PCIe", 2.039e12, 756e12),
        ("NVIDIA H200", 4.8e12, 989.4e12),
        ("NVIDIA GH200 480GB", 4e12, 989.4e12),
        ("NVIDIA A100-SXM4-40GB", 1.555e12, 312e12),
        ("NVIDIA A100-SXM4-80GB", 2.039e12, 312e12),
        ("NVIDIA A100 80GB PCIe", 1.935e12, 312e12),
        ("NVIDIA B200", 8e12, 2250e12),
        ("NVIDIA GB200", 8e12, 2500e12),
        ("NVIDIA L40S", 0.864e12, 362e12),
        ("AMD Instinct MI300X", 5.3e12, 1307.4e12),
    ],
)
def test_known_devices(name, bandwidth, bf16):
    found = peaks.of_device(name)
    assert (found.bandwidth, found.rate("bf16", True)) == (bandwidth, bf16)


@pytest.mark.parametrize(
    "name", ["", "Graphics Device", "AMD Radeon Graphics", "AMD Instinct MI250X / MI250", "NVIDIA GB300"]
)
def test_unknown_devices_have_no_peaks(name):
    assert peaks.of_device(name) is None


def test_an_unknown_name_of_a_known_capability_counts_its_multiprocessors():
    found = peaks.of_device("A100-PG509-200", capability="8.0", multiprocessors=108, clock_khz=1_410_000)
    # 108 · 1.41 GHz · 2,048
    assert found.rate("bf16", True) == pytest.approx(311.9e12, rel=1e-3)
    assert (found.bandwidth, found.source) == (None, "multiprocessors × clock")
    assert peaks.of_device("A100-PG509-200", capability="8.0", multiprocessors=108) is None


def test_what_the_trace_says_of_the_memory_wins():
    assert peaks.of_device("NVIDIA H200", bandwidth=4_900_000_000_000).bandwidth == 4.9e12


def test_types_without_a_rate_have_none():
    found = peaks.of_device("NVIDIA A100-SXM4-80GB")
    assert found.rate("fp8", True) is None
    assert found.rate("int64", False) is None
    assert (
        found.rate("bf16", False) == found.rate("fp32", False) == 19.5e12
    )  # small floats are computed with as fp32
    assert found.rate("fp32", True) == 19.5e12
