"""Element types by name and number, and the rates of known devices against each other."""

from __future__ import annotations

import pytest

from tests.unit.analysis.ops.calls import work
from warpsight.analysis.ops import dtypes, peaks

#: Bytes of an element by number (c10/core/ScalarType.h): unsigned and signed integers, floats, complex, quantized, 8 bits.
BYTES = {
    0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 8: 4, 9: 8, 10: 16, 11: 1, 12: 1, 13: 1, 14: 4, 15: 2, 23: 1, 24: 1,
    25: 1, 26: 1, 27: 2, 28: 4, 29: 8, 44: 1, 45: 1,
}  # fmt: skip


def test_numbers_of_types_have_the_sizes_of_torch() -> None:
    assert {
        number: dtypes.size(dtypes.numbered(number)) for number in range(64) if dtypes.numbered(number)
    } == BYTES
    assert dtypes.numbered(None) == dtypes.numbered(-1) == ""


@pytest.mark.parametrize("name", ["aten::softmax", "aten::log_softmax", "aten::_safe_softmax"])
def test_a_softmax_that_names_a_type_gives_that_type(name: str) -> None:
    shape = [4, 100]
    assert work(name, shape, None, None, values={1: "-1", 2: "7"}).bytes == 400 * (2 + 8)
    assert work(name, shape, None, None, values={1: "-1"}).bytes == 400 * (2 + 2)
    assert work(name, shape, None, None, values={1: "-1", 2: "7"}).flops == 5 * 400


def test_a_gradient_of_a_softmax_has_the_type_of_the_input() -> None:
    shape = [4, 100]
    found = work(
        "aten::_softmax_backward_data", shape, shape, None, None, dtype="float", values={2: "-1", 3: "5"}
    )
    assert (found.flops, found.bytes) == (4 * 400, 400 * (4 + 4 + 2))
    assert work("aten::_masked_softmax", shape, shape, None, dtype=["float", "bool", ""]).bytes == 400 * (
        4 + 1 + 4
    )


#: Where int8 is not twice as fast as fp16: with fp32 sums half as fast on consumer GPUs, no faster on MI100 and MI200.
INT8 = {"RTX 4090": 4, "RTX 3090": 4, "RTX 2080": 4, "MI250": 1, "MI210": 1, "MI100": 1}
#: fp4 is thrice fp8 on the B300, which traded other units for it.
FP4 = {"B300": 3}


@pytest.mark.parametrize("known", peaks._TABLE, ids=lambda known: str(known.name))
def test_rates_of_a_device_are_in_the_proportions_of_its_units(known: peaks._Known) -> None:
    half = known.matrix.get("fp16")
    rates = {name: rate / half for name, rate in known.matrix.items()} if half else {}
    factor = next((number for name, number in INT8.items() if name in known.name), 2)
    wanted = {"bf16": 0.5 if "MI100" in known.name else 1, "tf32": 0.5, "fp8": 2, "int8": factor}
    for name, expected in wanted.items():
        assert rates.get(name, expected) == pytest.approx(expected, rel=0.02), name
    if "fp4" in rates:
        expected = next((number for name, number in FP4.items() if name in known.name), 2)
        assert rates["fp4"] / rates["fp8"] == pytest.approx(expected, rel=0.01)
    if known.vector.get("fp64", 0) > 2:  # a data-center GPU: half of fp32, or all of it on MI200
        ratio = known.vector["fp32"] / known.vector["fp64"]
        assert any(ratio == pytest.approx(one, rel=0.03) for one in (1, 2))
    assert 7 * known.vector["fp32"] > 50  # the slowest has 8 TFLOP/s
    assert 300 <= known.bandwidth <= 8_000 and 0.5 <= known.bandwidth / known.vector["fp32"] / 10 <= 20


def test_rates_per_cycle_double_with_each_generation() -> None:
    halves = {number: matrix["fp16"] for number, (matrix, _) in peaks._PER_CYCLE.items() if "fp16" in matrix}
    assert halves == {"7.0": 1024, "8.0": 2048, "9.0": 4096, "10.0": 8192}
    for number, (matrix, vector) in peaks._PER_CYCLE.items():
        for name, times in (("bf16", 1), ("tf32", 0.5), ("fp8", 2), ("int8", 2)):
            assert matrix.get(name, times * halves.get(number, 0)) == times * halves.get(number, 0)
        assert vector["fp32"] == 128 * (
            1 + (number not in ("7.0", "8.0"))
        )  # two operations of each of 64 or 128 lanes
        assert vector.get("fp64", vector["fp32"] / 2) == vector["fp32"] / 2


@pytest.mark.parametrize(
    ("name", "units", "clock"),
    [
        ("NVIDIA A100-SXM4-80GB", 108, 1.410), ("NVIDIA H100 80GB HBM3", 132, 1.980), ("NVIDIA L40S", 142, 2.520),
        ("NVIDIA A40", 84, 1.740), ("NVIDIA A10", 72, 1.695), ("NVIDIA L4", 58, 2.040), ("Tesla V100-SXM2-16GB", 80, 1.530),
        ("Tesla T4", 40, 1.590), ("NVIDIA GeForce RTX 4090", 128, 2.520), ("NVIDIA GeForce RTX 3090", 82, 1.695),
        ("NVIDIA RTX A6000", 84, 1.800), ("AMD Instinct MI300X", 304, 2.100), ("AMD Instinct MI210", 104, 1.700),
    ],
)  # fmt: skip
def test_fp32_is_two_operations_of_every_lane_and_cycle(name: str, units: int, clock: float) -> None:
    lanes = 64 if any(one in name for one in ("A100", "V100", "T4", "MI210")) else 128
    found = peaks.of_device(name)
    assert found is not None
    assert found.rate("fp32", False) == pytest.approx(units * lanes * 2 * clock * 1e9, rel=0.01)
