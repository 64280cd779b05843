"""FLOP and bytes of matrix products and convolutions, against numbers worked out by hand."""

import pytest

from tests.unit.analysis.ops.calls import BF16, FP8, FP32, work


def told(estimate):
    return estimate.flops, estimate.bytes


def test_mm():
    # 2 · 512 · 384 · 256 products and sums; (512·256 + 256·384 + 512·384) elements of 2 B
    assert told(work("aten::mm", [512, 256], [256, 384])) == (100_663_296, 851_968)


def test_addmm_adds_its_addend_unless_beta_is_zero():
    # 2 · 64 · 16 · 32 = 65,536, and 64 · 16 additions; (16 + 64·32 + 32·16 + 64·16) · 2 B
    shapes = ([16], [64, 32], [32, 16])
    assert told(work("aten::addmm", *shapes, None, None, values={3: "1", 4: "1"})) == (66_560, 7_200)
    assert told(work("aten::addmm", *shapes, None, None, values={3: "0", 4: "1"})) == (65_536, 7_168)


def test_bmm_and_baddbmm():
    # 4 · 2 · 64 · 16 · 32 = 262,144; baddbmm adds 4 · 64 · 16 = 4,096
    assert work("aten::bmm", [4, 64, 32], [4, 32, 16]).flops == 262_144
    added = work("aten::baddbmm", [4, 64, 16], [4, 64, 32], [4, 32, 16], None, None, values={3: "1", 4: "1"})
    # 2 B · 4 · (64·16 read, 64·32, 32·16, 64·16 written)
    assert told(added) == (266_240, 36_864)


def test_linear_over_all_leading_dimensions():
    # 2·3 rows of 64 · 32 · 16: 2 · 2 · 3 · 64 · 16 · 32, and 6 · 64 · 16 for the bias
    assert work("aten::linear", [2, 3, 64, 32], [16, 32], [16]).flops == 393_216 + 6_144


@pytest.mark.parametrize(
    ("a", "b", "flops"),
    [
        ([2, 3, 64, 32], [32, 16], 2 * 6 * 64 * 16 * 32),
        ([5, 1, 8, 4], [3, 4, 2], 2 * 5 * 3 * 8 * 2 * 4),  # batches 5×1 and 3 are broadcast to 5×3
        ([64], [64, 16], 2 * 16 * 64),
        ([8, 64], [64], 2 * 8 * 64),
        ([64], [64], 2 * 64),
    ],
)
def test_matmul_broadcasts(a, b, flops):
    assert work("aten::matmul", a, b).flops == flops


def test_products_of_complex_numbers_are_four_products():
    assert work("aten::mm", [8, 4], [4, 2], dtype="c10::complex<float>").flops == 4 * 2 * 8 * 4 * 2


def test_scaled_mm_writes_the_type_it_is_told():
    shapes = ([64, 128], [128, 96], [1], [1], None, None, None, None)
    found = work(
        "aten::_scaled_mm",
        *shapes,
        dtype=[FP8, FP8, FP32, FP32, "", "", "", ""],
        values={6: "15", 7: "False"},
    )
    # 64·128 + 128·96 bytes in, 64·96 results of bf16, two scales of 4 B
    assert told(found) == (2 * 64 * 96 * 128, 8_192 + 12_288 + 12_288 + 8)
    assert found.dtype == "fp8"


def test_groups_of_rows_each_with_their_matrix():
    # 64 rows, whichever group each belongs to: 2 · 64 · 96 · 128
    found = work(
        "aten::_grouped_mm", [64, 128], [4, 128, 96], [4], None, None, dtype=[BF16, BF16, "int", "", ""]
    )
    assert (found.family, found.flops) == ("grouped gemm", 1_572_864)
    inner = work("aten::_grouped_mm", [8, 64], [64, 16], [4], None, None, dtype=[BF16, BF16, "int", "", ""])
    assert inner.flops == 2 * 8 * 16 * 64  # 64 is shared out among four results


def test_shapes_that_do_not_fit_are_unknown():
    found = work("aten::mm", [512, 256], [255, 384])
    assert told(found) == (None, None)
    assert "do not fit" in found.reason


def test_without_types_bytes_are_unknown_and_flops_are_not():
    found = work("aten::mm", [512, 256], [256, 384], **{"Input type": []})
    assert (found.flops, found.bytes, found.reason) == (
        100_663_296,
        None,
        "element types are not in the file",
    )


CONV = {3: "[2, 1]", 4: "[1, 2]", 5: "[1, 2]", 6: "False", 7: "[0, 0]", 8: "1"}


def test_convolution_with_stride_padding_dilation_and_bias():
    # rows (20 + 2 - 2 - 1) // 2 + 1 = 10, columns (24 + 4 - 8 - 1) // 1 + 1 = 20: 2·16·10·20 = 6,400 results
    # each of 8·3·5 products and sums, and one addition for the bias
    found = work("aten::convolution", [2, 8, 20, 24], [16, 8, 3, 5], [16], *[None] * 6, values=CONV)
    assert found.flops == 6_400 * 2 * 120 + 6_400
    assert found.bytes == (2 * 8 * 20 * 24 + 16 * 8 * 3 * 5 + 16 + 6_400) * 2
    assert found.detail == "stride 2×1, padding 1×2, dilation 1×2"


def test_a_single_stride_holds_for_all_dimensions():
    values = {3: "[2]", 4: "[1]", 5: "[1]", 6: "2"}
    # (50 + 2 - 4 - 1) // 2 + 1 = 24 results of 16 channels, 2 · 4 · 5 each: groups halve the inputs
    assert (
        work("aten::conv1d", [2, 8, 50], [16, 4, 5], None, None, None, None, None, values=values).flops
        == 768 * 40
    )


def test_convolution_of_cubes():
    values = {3: "[1, 1, 1]", 4: "[1, 1, 1]", 5: "[1, 1, 1]", 6: "1"}
    found = work("aten::conv3d", [2, 4, 9, 10, 11], [6, 4, 3, 3, 3], None, *[None] * 4, values=values)
    assert found.flops == 2 * 6 * 990 * 2 * 4 * 27


def test_a_transposed_convolution_spreads_every_input():
    values = {3: "[2, 2]", 4: "[1, 1]", 5: "[0, 0]", 6: "1", 7: "[1, 1]"}
    found = work("aten::conv_transpose2d", [2, 8, 10, 12], [8, 6, 4, 4], [6], *[None] * 5, values=values)
    # 1,920 inputs · 2 · 6 · 16, and (10-1)·2 - 2 + 3 + 1 = 20 rows of 24 of 6 channels for the bias
    assert found.flops == 1_920 * 192 + 2 * 6 * 20 * 24


def test_backward_of_a_convolution_is_what_the_mask_asks_for():
    shapes = ([2, 16, 10, 20], [2, 8, 20, 24], [16, 8, 3, 5], *[None] * 8)
    values = {4: "[2, 1]", 5: "[1, 2]", 6: "[1, 2]", 7: "False", 8: "[0, 0]", 9: "1"}
    forward = 6_400 * 240

    def flops(mask):
        return work("aten::convolution_backward", *shapes, values={**values, 10: mask}).flops

    assert flops("[True, True, True]") == 2 * forward + 6_400
    assert flops("[False, True, False]") == forward


#: torch.utils.flop_counter of torch 2.11 on the same calls; it leaves out addends.
PYTORCH = [
    ("aten::mm", ([384, 32], [32, 16]), None, 393_216),
    ("aten::convolution", ([2, 8, 20, 24], [16, 8, 3, 5], None, *[None] * 6), CONV, 1_536_000),
    ("aten::convolution_backward", ([2, 16, 10, 20], [2, 8, 20, 24], [16, 8, 3, 5], *[None] * 8),
     {4: "[2, 1]", 5: "[1, 2]", 6: "[1, 2]", 7: "False", 8: "[0, 0]", 9: "1", 10: "[True, True, False]"}, 3_072_000),
    ("aten::convolution_backward", ([2, 6, 20, 24], [2, 8, 10, 12], [8, 6, 4, 4], *[None] * 8),
     {4: "[2, 2]", 5: "[1, 1]", 6: "[1, 1]", 7: "True", 8: "[0, 0]", 9: "1", 10: "[True, True, False]"}, 737_280),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "values", "flops"), PYTORCH)
def test_as_pytorch_counts(name, shapes, values, flops):
    assert work(name, *shapes, values=values).flops == flops


def test_without_values_a_convolution_is_unknown():
    found = work(
        "aten::conv2d", [2, 8, 20, 24], [16, 8, 3, 3], None, None, None, None, None, **{"Concrete Inputs": []}
    )
    assert (found.family, found.flops) == ("convolution", None)
    assert found.reason == "values of arguments are not in the file"
