"""Every kind of matrix product: FLOP and bytes from numbers worked out by hand, with every shape a different prime."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.ops.calls import BF16, FP8, FP32, call, work
from warpsight.analysis.ops.arguments import Unknown
from warpsight.analysis.ops.models.gemm import MODELS, broadcast

INT8, FP4 = "signed char", "c10::Float4_e2m1fn_x2"
#: m·k 5·7, k·n 7·11, m·n 5·11; 3 of a batch.
M, K, N, B = 5, 7, 11, 3


def figures(name: str, *shapes: object, **more: object) -> tuple[float | None, float | None, str, bool]:
    found = work(name, *shapes, **more)  # type: ignore[arg-type]
    return found.flops, found.bytes, found.dtype, found.matrix


def test_products_of_two_matrices() -> None:
    # 2 · 5 · 11 · 7 operations; 35 + 77 + 55 elements
    assert figures("aten::mm", [M, K], [K, N]) == (770, 334, "bf16", True)
    assert figures("aten::mm", [M, K], [K, N], dtype="double") == (770, 167 * 8, "fp64", True)
    # results of 4 bytes
    assert figures("aten::_int_mm", [M, K], [K, N], dtype=INT8) == (770, 35 + 77 + 55 * 4, "int8", True)


@pytest.mark.parametrize("name", ["aten::addmm", "aten::addmm_", "aten::_addmm_activation"])
def test_an_addend_is_one_operation_for_each_result(name: str) -> None:
    assert figures(name, [N], [M, K], [K, N], None, None, values={3: "1"}) == (
        770 + 55,
        2 * (11 + 167),
        "bf16",
        True,
    )
    assert figures(name, [M, N], [M, K], [K, N], None, None, values={3: "0.0"}) == (770, 334, "bf16", True)
    assert figures(name, [M, N], [M, K], [K, N], None, None, values={3: "0.5"})[0] == 825
    # without values nobody knows beta: the addend counts
    assert figures(name, [M, N], [M, K], [K, N], None, None, **{"Concrete Inputs": []})[0] == 825


def test_products_of_batches() -> None:
    assert figures("aten::bmm", [B, M, K], [B, K, N]) == (2_310, 1_002, "bf16", True)
    added = figures("aten::baddbmm", [B, M, N], [B, M, K], [B, K, N], None, None, values={3: "1"})
    assert added == (2_310 + 165, 2 * (3 * 167 + 165), "bf16", True)
    # one result of 5 · 11, each the sum of three products
    summed = figures("aten::addbmm", [M, N], [B, M, K], [B, K, N], None, None, values={3: "1"})
    assert summed == (2 * 55 * 21 + 55, 2 * (55 + 105 + 231 + 55), "bf16", True)
    none = figures("aten::addbmm_", [M, N], [B, M, K], [B, K, N], None, None, values={3: "0"})
    assert none == (2 * 55 * 21, 2 * (105 + 231 + 55), "bf16", True)


def test_products_with_vectors_run_beside_the_matrix_units() -> None:
    assert figures("aten::mv", [M, K], [K]) == (70, 2 * (35 + 7 + 5), "bf16", False)
    added = figures("aten::addmv", [M], [M, K], [K], None, None, values={3: "1"})
    assert added == (75, 2 * (5 + 35 + 7 + 5), "bf16", False)
    assert figures("aten::addmv_", [M], [M, K], [K], None, None, values={3: "0"})[:2] == (70, 2 * 47)
    for name in ("aten::dot", "aten::vdot"):
        assert figures(name, [K], [K]) == (14, 2 * 15, "bf16", False)
    assert figures("aten::matmul", [K], [K]) == (14, 30, "bf16", False)
    assert figures("aten::matmul", [K], [K, N]) == (2 * 77, 2 * (7 + 77 + 11), "bf16", False)
    assert figures("aten::matmul", [M, K], [K]) == (70, 2 * 47, "bf16", False)


def test_linear_has_a_result_for_each_row_and_output() -> None:
    with_bias = figures("aten::linear", [B, M, K], [N, K], [N])
    assert with_bias == (2 * 15 * 77 + 165, 2 * (105 + 77 + 11 + 165), "bf16", True)
    assert figures("aten::linear", [B, M, K], [N, K], None)[:2] == (2 * 15 * 77, 2 * (105 + 77 + 165))
    assert figures("aten::linear", [K], [N, K], None)[:2] == (154, 2 * (7 + 77 + 11))
    assert figures("aten::linear", [M, K], [K], None)[:2] == (70, 2 * (35 + 7 + 5))
    # integers of bitsandbytes give results of four bytes, torch's of their own type
    assert figures("bitsandbytes::int8_linear_matmul", [M, K], [N, K], dtype=INT8)[:2] == (
        770,
        35 + 77 + 220,
    )
    assert figures("aten::_weight_int8pack_mm", [M, K], [N, K], None, dtype=INT8)[1] == 167
    assert figures("vllm::rocm_unquantized_gemm", [M, K], [N, K], None)[:2] == (770, 334)


@pytest.mark.parametrize(
    ("a", "b", "results", "inner"),
    [
        ([M, K], [K, N], 55, 7),
        ([B, M, K], [K, N], 165, 7),
        ([M, K], [B, K, N], 165, 7),
        ([2, 1, M, K], [B, K, N], 330, 7),
        ([2, B, M, K], [2, B, K, N], 330, 7),
        ([B, M, K], [K], 15, 7),
        ([K], [B, K, N], 33, 7),
    ],
)
def test_matmul_broadcasts_all_but_its_last_two_dimensions(
    a: list[int], b: list[int], results: int, inner: int
) -> None:
    found = work("aten::matmul", a, b)
    assert found.flops == 2 * results * inner
    size = 1
    for one in a:
        size *= one
    other = 1
    for one in b:
        other *= one
    assert found.bytes == 2 * (size + other + results)
    assert found.matrix == (len(a) > 1 and len(b) > 1)


def test_a_complex_product_is_four_and_its_addend_one() -> None:
    found = figures("aten::addmm", [N], [M, K], [K, N], None, None, dtype="c10::complex<float>",
                    values={3: "1"})  # fmt: skip
    assert found == (4 * 770 + 55, 8 * (11 + 167), "complex64", True)


def scaled(
    name: str, count: int, *, tensors: dict[int, tuple[list[int], str]], values: dict[int, str]
) -> object:
    """A call of a scaled product of `count` arguments: 5·7 by 7·11 of fp8, tensors and values at their places."""
    shapes: list[object] = [[M, K], [K, N], *[None] * (count - 2)]
    kinds = [FP8, FP8, *[""] * (count - 2)]
    for place, (shape, kind) in tensors.items():
        shapes[place], kinds[place] = shape, kind
    return figures(name, *shapes, dtype=kinds, values=values)


ONE = [1]


def test_scales_and_bias_of_a_scaled_product_are_read() -> None:
    now = {2: ([M, 1], FP32), 3: ([1, N], FP32), 4: ([N], BF16)}
    # 35 + 77 bytes in, scales of 5 and 11 floats, a bias of 11 and 55 results of bf16
    assert scaled("aten::_scaled_mm", 8, tensors=now, values={6: "15"}) == (
        825, 112 + 16 * 4 + 22 + 110, "fp8", True,
    )  # fmt: skip
    plain = {2: (ONE, FP32), 3: (ONE, FP32)}
    assert scaled("aten::_scaled_mm", 8, tensors=plain, values={6: "6"}) == (770, 112 + 8 + 220, "fp8", True)
    # no type of the result: that of the first matrix
    assert scaled("aten::_scaled_mm", 8, tensors=plain, values={})[1] == 112 + 8 + 55  # type: ignore[index]


def test_before_torch_2_5_bias_and_type_stood_before_the_scales() -> None:
    early = scaled("aten::_scaled_mm", 8, tensors={2: ([N], BF16), 4: (ONE, FP32), 5: (ONE, FP32)},
                   values={3: "15"})  # fmt: skip
    assert early == (825, 112 + 22 + 110, "fp8", True)
    without = scaled("aten::_scaled_mm", 8, tensors={4: (ONE, FP32), 5: (ONE, FP32)}, values={3: "5"})
    assert without == (770, 112 + 110, "fp8", True)


def test_the_second_version_has_its_bias_and_type_further_on() -> None:
    found = scaled("aten::_scaled_mm_v2", 12, tensors={8: ([N], BF16)}, values={9: "15"})
    assert found == (825, 112 + 22 + 110, "fp8", True)
    plain = scaled("aten::_scaled_mm_v2", 12, tensors={}, values={9: "6"})
    assert plain == (770, 112 + 220, "fp8", True)


def test_an_element_of_packed_fp4_is_two_numbers() -> None:
    found = figures("aten::_scaled_mm", [M, K], [K, N], [1], [1], *[None] * 4,
                    dtype=[FP4, FP4, FP32, FP32, "", "", "", ""], values={6: "15"})  # fmt: skip
    assert found == (2 * 770, 112 + 8 + 110, "fp4x2", True)
    inner = figures("aten::_scaled_grouped_mm", [M, K], [K, N], [1], [1], [3], *[None] * 4,
                    dtype=[FP4, FP4, FP32, FP32, "int", "", "", "", ""], values={7: "15"})  # fmt: skip
    assert inner[0] == 2 * 770


def grouped(a: list[int], b: list[int], offsets: list[int] | None, bias: list[int] | None = None,
            dtype: str = "") -> object:  # fmt: skip
    found = work("aten::_grouped_mm", a, b, offsets, bias, None, dtype=[BF16, BF16, "int", BF16, ""],
                 values={4: dtype} if dtype else {})  # fmt: skip
    assert found.family == "grouped gemm"
    return found.flops, found.bytes


def test_products_of_groups_by_the_dimension_that_is_shared_out() -> None:
    assert grouped([B, M, K], [B, K, N], None) == (2_310, 2 * (105 + 231 + 165))
    assert grouped([M, K], [B, K, N], [B]) == (770, 2 * (35 + 231 + 55))  # rows
    assert grouped([B, M, K], [K, N], [B]) == (770, 2 * (105 + 77 + 55))  # columns
    # the inner dimension: a result of 55 for each of 3 groups, and 7 products shared out among them
    assert grouped([M, K], [K, N], [B]) == (770, 2 * (35 + 77 + 165))
    assert grouped([M, K], [B, K, N], [B], [N]) == (770 + 55, 2 * (35 + 231 + 11 + 55))
    assert grouped([M, K], [B, K, N], [B], dtype="6") == (770, 2 * (35 + 231) + 4 * 55)
    nothing = work("aten::_grouped_mm", [M, K], [K, N], None, None, None)
    assert nothing.flops is None and nothing.reason == "the number of groups is not in the file"


def test_scaled_products_of_groups_give_bf16_unless_they_say_otherwise() -> None:
    kinds = [FP8, FP8, FP32, FP32, "int", BF16, "", "", ""]
    shapes = ([M, K], [B, K, N], [M], [B, N], [B])
    found = figures("aten::_scaled_grouped_mm", *shapes, None, None, None, None, dtype=kinds)
    assert found == (770, 35 + 231 + 110, "fp8", True)
    found = figures("aten::_scaled_grouped_mm", *shapes, [N], None, None, None, dtype=kinds, values={7: "6"})
    assert found == (825, 35 + 231 + 22 + 220, "fp8", True)


def test_the_product_of_vllm_has_its_result_first() -> None:
    kinds = [BF16, FP8, FP8, FP32, FP32, BF16]
    found = figures("_C::cutlass_scaled_mm", [M, N], [M, K], [K, N], [M], [N], [N], dtype=kinds)
    assert found == (825, 110 + 35 + 77 + 20 + 44 + 22, "fp8", True)
    found = figures("_C::cutlass_scaled_mm", [M, N], [M, K], [K, N], [1], [1], None, dtype=kinds)
    assert found == (770, 110 + 35 + 77 + 8, "fp8", True)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::mm", ([M, K], [K + 1, N])),
        ("aten::addmm", ([N], [M, K], [K + 1, N])),
        ("aten::bmm", ([B, M, K], [B, K + 1, N])),
        ("aten::bmm", ([B, M, K], [B + 1, K, N])),
        ("aten::addbmm", ([M, N], [B, M, K], [B, K + 1, N])),
        ("aten::mv", ([M, K], [K + 1])),
        ("aten::addmv", ([M], [M, K], [K + 1])),
        ("aten::dot", ([K], [K + 1])),
        ("aten::linear", ([M, K], [N, K + 1], None)),
        ("aten::matmul", ([M, K], [K + 1, N])),
        ("aten::matmul", ([2, M, K], [3, K, N])),
        ("_C::cutlass_scaled_mm", ([M, N], [M, K], [K + 1, N], [1], [1], None)),
    ],
)
def test_shapes_that_contradict_each_other_have_no_figures(name: str, shapes: tuple[list[int], ...]) -> None:
    found = work(name, *shapes)
    assert (found.flops, found.bytes, found.reason) == (None, None, "the shapes do not fit each other")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.sampled_from([1, 1, 2, 3]), max_size=3).map(tuple), max_size=3))
def test_broadcasting_is_numpys(shapes: list[tuple[int, ...]]) -> None:
    length = max(map(len, shapes), default=0)
    columns = [[s[len(s) - place] for s in shapes if len(s) >= place] for place in range(length, 0, -1)]
    larger = [set(column) - {1} for column in columns]
    if any(len(one) > 1 for one in larger):
        with pytest.raises(Unknown, match="do not fit"):
            broadcast(*shapes)
    else:
        assert broadcast(*shapes) == tuple(max(one, default=1) for one in larger)


def test_a_dimension_of_nothing_wins_over_one() -> None:
    for one, other in product(((0,), (1,)), repeat=2):
        assert broadcast(one, other) == (0 if (0,) in (one, other) else 1,)


def test_every_model_refuses_a_call_without_shapes() -> None:
    for name, (family, model) in MODELS.items():
        assert family == ("grouped gemm" if "grouped" in name else "gemm")
        with pytest.raises(Unknown, match="shapes are not in the file"):
            model(call(name))
