"""Collectives by name, exposed time, and bandwidth from recorded sizes."""

import pytest

from tests.unit.analysis.conftest import NAMES, kernel
from warpsight.analysis.stats.communication import bus_factor, communication

OTHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_kernels_are_grouped_by_collective_and_device(build):
    rows = [
        kernel(0, 100, 3),
        kernel(200, 300, 3),
        kernel(250, 50, 1, stream=9),
        kernel(600, 40, 5),
        kernel(0, 70, 3, device=1),
    ]
    result = communication(build(names=(*NAMES, OTHER), kernel=rows))
    found = {(r["device"], r["operation"]): r for r in result.tables["collectives"].to_pylist()}
    reduce = found[0, "all-reduce"]
    assert (reduce["kernels"], reduce["time"], reduce["max"], reduce["mean"]) == (2, 400, 300, 200)
    assert reduce["exposed"] == 100 + 250  # the gemm hid 50 of it
    assert (reduce["algorithm"], reduce["protocol"], reduce["reduction"], reduce["dtype"]) == (
        "ring",
        "ll",
        "sum",
        "f32",
    )
    assert found[0, "all-gather"]["time"] == 40
    assert found[1, "all-reduce"]["time"] == 70
    assert [f.values for f in result.findings] == [{"kernels": 4}]


def test_bandwidth_comes_from_sizes_and_the_kernel_that_moved_them(build):
    collective = {
        "operation": "all-reduce",
        "bytes": 8_000,
        "ranks": 4,
        "dtype": "f32",
        "group": "dp",
        "process": 0,
    }
    trace = build(kernel=[kernel(0, 100, 3, correlation=1), kernel(200, 300, 3, correlation=2)],
                  collective=[{**collective, "correlation": 1, "duration": 5}, {**collective, "correlation": 2},
                              {**collective, "operation": "broadcast", "ranks": None, "duration": 400},
                              {**collective, "operation": "all-gather", "ranks": None, "duration": 400},
                              {**collective, "correlation": 77}])  # fmt: skip
    result = communication(trace)
    found = {r["operation"]: r for r in result.tables["sized"].to_pylist()}
    reduce = found["all-reduce"]
    assert (reduce["count"], reduce["bytes"], reduce["time"]) == (2, 16_000, 400)
    assert reduce["algorithm_bandwidth"] == pytest.approx(40e9)
    assert reduce["bus_bandwidth"] == pytest.approx(60e9)
    assert found["broadcast"]["bus_bandwidth"] == pytest.approx(20e9)
    assert found["all-gather"]["bus_bandwidth"] is None  # depends on ranks, which are not known
    assert [f.values for f in result.findings] == [{"collectives": 1, "of": 5}]


@pytest.mark.parametrize(
    ("operation", "ranks", "factor"),
    [("all-reduce", 2, 1), ("all-reduce", 8, 1.75), ("all-gather", 8, 0.875), ("reduce-scatter", 8, 0.875),
     ("all-to-all", 8, 0.875), ("reduce", 8, 1), ("broadcast", 8, 1), ("all-reduce", 1, 0), ("all-reduce", 0, 1)],
)  # fmt: skip
def test_bus_factors_are_those_of_nccl_tests(operation, ranks, factor):
    assert bus_factor(operation, ranks) == factor
