"""Operators on elements and softmax: FLOP, bytes and type worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.ops.calls import BF16, FP32, LONG, work

HALF, BOOL = "c10::Half", "bool"


def figures(name: str, *shapes: Any, **more: Any) -> tuple[float | None, float | None, str]:
    found = work(name, *shapes, **more)
    return found.flops, found.bytes, found.dtype


@pytest.mark.parametrize(
    ("values", "flops", "bytes_"),
    [
        ({2: "0"}, 2 * 24, 2 * (24 + 4 + 24)),  # none: difference and square of each
        ({2: "1"}, 3 * 24, 2 * (24 + 4 + 1)),  # mean: and one sum each, into one result
        ({2: "2"}, 3 * 24, 2 * (24 + 4 + 1)),  # sum
    ],
)
def test_a_squared_error_is_summed_up_for_a_single_result(
    values: dict[int, str], flops: int, bytes_: int
) -> None:
    assert figures("aten::mse_loss", [6, 4], [4], None, values=values) == (flops, bytes_, "bf16")


def test_the_backward_of_a_squared_error() -> None:
    found = figures("aten::mse_loss_backward", [], [6, 4], [4], None, values={3: "1"})
    assert found == (3 * 24, 2 * (1 + 24 + 4 + 24), "bf16")


def test_a_gate_has_a_sigmoid_and_a_product_for_each_result() -> None:
    assert figures("aten::glu", [3, 10], None, values={1: "-1"}) == (2 * 15, 2 * (30 + 15), "bf16")
    assert figures("_C::silu_and_mul", [3, 5], [3, 10]) == (2 * 15, 2 * (30 + 15), "bf16")  # result first


def test_dropout_writes_its_result_and_a_mask() -> None:
    assert figures("aten::native_dropout", [10], None, None, dtype=FP32) == (10, 40 + 40 + 10, "fp32")


def test_a_mask_has_no_say_in_the_type() -> None:
    one = figures("aten::masked_fill", [], [4], None, dtype=[HALF, BOOL, ""], values={2: "0"})
    assert one == (0, 2 + 4 + 4 * 2, "fp16")
    assert figures("aten::where", [4], [4], [4], dtype=[BOOL, HALF, FP32]) == (0, 4 + 8 + 16 + 16, "fp32")


def test_arithmetic_is_in_the_type_that_is_not_a_truth_value() -> None:
    assert figures("aten::gt", [4], [4], dtype=[FP32, FP32]) == (0, 16 + 16 + 4, "fp32")
    assert figures("aten::logical_not", [4], dtype=BOOL) == (0, 8, "bool")
    assert figures("aten::masked_fill", [4], [4], None, dtype=[BF16, BOOL, ""], values={2: "0"})[2] == "bf16"


@pytest.mark.parametrize(
    ("name", "shapes", "types", "size"),
    [
        ("aten::div", ([4], [4]), LONG, 4),  # integers divided are floats
        ("aten::floor_divide", ([4], [4]), LONG, 8),
        ("aten::sqrt", ([4],), LONG, 4),
        ("aten::abs", ([4],), LONG, 8),
        ("aten::bitwise_and", ([4], [4]), LONG, 8),
        ("aten::isfinite", ([4],), FP32, 1),
    ],
)
def test_what_integers_become(name: str, shapes: tuple[list[int], ...], types: str, size: int) -> None:
    found = work(name, *shapes, dtype=types)
    read = 4 * len(shapes) * {LONG: 8, FP32: 4}[types]
    assert found.bytes == read + 4 * size


@pytest.mark.parametrize(
    ("name", "count", "flops"),
    [("aten::addcmul", 3, 3), ("aten::add", 2, 1), ("aten::exp", 1, 1), ("aten::lerp", 3, 3)],
)
def test_operations_for_each_element(name: str, count: int, flops: int) -> None:
    assert figures(name, *[[7]] * count) == (7 * flops, 2 * 7 * (count + 1), "bf16")


def test_a_result_that_is_given_is_written_in_its_own_type() -> None:
    assert (
        figures("aten::add", [7], [7], None, [7], dtype=[BF16, BF16, "", FP32], values={2: "1"})[1]
        == 14 + 14 + 28
    )
    assert figures("aten::clamp", [7], [7], [7], [7], dtype=[BF16, BF16, BF16, FP32])[1] == 3 * 14 + 28
    assert figures("aten::add_", [7], [7], dtype=[BF16, FP32])[1] == 14 + 28 + 14  # in place


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("aten::_foreach_add_", 20),
        ("aten::_foreach_addcdiv", 60),
        ("aten::_foreach_copy_", 0),
        ("aten::_foreach_zero_", 0),
        ("aten::_foreach_sqrt", 20),
    ],
)
def test_an_operator_over_a_list_counts_all_its_tensors(name: str, flops: int) -> None:
    found = work(name, [[4, 3], [8]], None)
    assert (found.flops, found.bytes, found.detail) == (flops, None, "2 tensors")


@pytest.mark.parametrize(
    ("name", "values", "dtype", "size"),
    [
        ("aten::_softmax", {1: "-1", 2: "True"}, HALF, 2 + 4),  # half in, float out
        ("aten::_softmax", {1: "1", 2: "False"}, HALF, 2 + 2),
        ("aten::_log_softmax", {1: "1", 2: "True"}, HALF, 2 + 4),
        ("aten::softmax", {1: "-1", 2: "6"}, HALF, 2 + 4),
        ("aten::softmax", {1: "-1", 2: ""}, HALF, 2 + 2),
        ("aten::log_softmax", {1: "-1", 2: "5"}, FP32, 4 + 2),
    ],
)
def test_softmax_writes_the_type_it_is_told(name: str, values: dict[int, str], dtype: str, size: int) -> None:
    found = work(name, [3, 4], None, None, dtype=dtype, values=values)
    assert (found.family, found.flops, found.bytes) == ("softmax", 5 * 12, 12 * size)


def test_softmax_without_values_keeps_its_type() -> None:
    for name in ("aten::_softmax", "aten::softmax"):
        assert work(name, [3, 4], None, None, dtype=HALF, **{"Concrete Inputs": []}).bytes == 12 * 4


def test_a_masked_softmax_reads_its_mask() -> None:
    found = work("aten::_masked_softmax", [3, 4], [3, 4], None, dtype=[HALF, BOOL, ""], values={2: "1"})
    assert (found.flops, found.bytes) == (60, 24 + 12 + 24)


@pytest.mark.parametrize(
    ("values", "size"), [({2: "1", 3: "5"}, 2), ({2: "1", 3: "6"}, 4), ({2: "1", 3: ""}, 4)]
)
def test_the_gradient_of_a_softmax_has_the_type_of_its_input(values: dict[int, str], size: int) -> None:
    found = work("aten::_softmax_backward_data", [3, 4], [3, 4], None, None, dtype=FP32, values=values)
    assert (found.flops, found.bytes) == (4 * 12, 12 * (4 + 4 + size))
