"""Operators that mostly move data, by hand; and that no arguments make a model fail."""

import json

import numpy as np
import pytest

from tests.unit.analysis.ops.calls import BF16, FP32, LONG, work
from warpsight.analysis.ops import arguments, dtypes
from warpsight.analysis.ops.models import REGISTRY, evaluate


def test_addition_broadcasts_and_reads_each_input_once():
    found = work("aten::add", [32, 1, 128], [128], None, values={2: "1"})
    # 4,096 results; 4,096 + 128 read, 4,096 written, 2 B each
    assert (found.flops, found.bytes) == (4_096, 2 * (4_096 + 128 + 4_096))


def test_elements_that_a_stride_repeats_are_read_once():
    found = work("aten::mul", [8, 128], [8, 128], **{"Input Strides": [[128, 1], [0, 1]]})
    assert found.bytes == 2 * (1_024 + 128 + 1_024)


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (BF16, FP32, "fp32"), (BF16, "c10::Half", "fp32"), (LONG, BF16, "bf16"), ("int", LONG, "int64"), ("bool", "int", "int32"),
    ],
)  # fmt: skip
def test_results_have_the_promoted_type(first, second, result):
    size = dtypes.SIZES[result]
    first_size, second_size = (dtypes.SIZES[dtypes.named(name)] for name in (first, second))
    found = work("aten::add", [10], [10], None, dtype=[first, second, ""], values={2: "1"})
    assert found.bytes == 10 * (first_size + second_size + size)


def test_numbers_change_the_type_only_to_another_category():
    assert work("aten::mul", [10], None, values={1: "2.5"}).bytes == 10 * 4  # bf16 stays
    assert work("aten::mul", [10], None, dtype=LONG, values={1: "2.5"}).bytes == 10 * (
        8 + 4
    )  # int64 becomes fp32
    assert (
        work("aten::mul", [10], [], dtype=[BF16, "double"]).bytes == 10 * 4 + 8
    )  # a tensor without dimensions


def test_comparisons_write_truth_values_and_compute_nothing():
    found = work("aten::gt", [100], None, dtype=FP32, values={1: "0"})
    assert (found.flops, found.bytes) == (0, 400 + 100)


def test_in_place_and_given_results_have_their_own_type():
    assert (
        work("aten::add_", [100], [100], None, dtype=[FP32, BF16, ""], values={2: "1"}).bytes
        == 400 + 200 + 400
    )
    assert work("aten::exp", [100], [100], dtype=[BF16, FP32]).bytes == 200 + 400


def test_where_takes_its_type_from_the_values():
    found = work("aten::where", [64], [64], None, dtype=["bool", BF16, ""], values={2: "0."})
    assert (found.flops, found.bytes) == (0, 64 + 128 + 128)


def test_copy_casts():
    assert work("aten::copy_", [100], [100], None, dtype=[FP32, BF16, ""], values={2: "False"}).bytes == 600
    assert work("aten::_to_copy", [100], *[None] * 6, values={1: "6", 5: "False"}).bytes == 200 + 400


def test_lists_have_no_types_in_the_file():
    found = evaluate(
        arguments.call(
            "aten::cat", "[[[2, 3], [4, 3]], []]", (b'["TensorList", "Scalar"]', b"null", b'["", "0"]')
        )
    )
    assert (found.family, found.flops, found.bytes) == ("copy", 0, None)
    assert found.reason == "element types are not in the file"


def test_softmax_may_widen():
    shape = [4, 100]
    assert work("aten::_softmax", shape, None, None, values={1: "-1", 2: "False"}).bytes == 400 * 4
    assert work("aten::_softmax", shape, None, None, values={1: "-1", 2: "True"}).bytes == 400 * 6
    assert work("aten::_softmax", shape, None, None, values={1: "-1", 2: "True"}).flops == 2_000


def test_sum_over_some_and_over_all_dimensions():
    some = work("aten::sum", [8, 16, 4], None, None, None, dtype=FP32, values={1: "[0, -1]", 2: "False"})
    assert (some.flops, some.bytes) == (512, 4 * (512 + 16))
    assert work("aten::sum", [8, 16, 4], None, dtype=FP32).bytes == 4 * 513
    assert (
        work("aten::sum", [8, 16], None, dtype="int").bytes == 4 * 128 + 8
    )  # integers are summed in 64 bits


def test_maximum_along_a_dimension_has_places_too():
    found = work("aten::max", [8, 16], None, None, dtype=FP32, values={1: "1", 2: "False"})
    assert found.bytes == 4 * 128 + 8 * (4 + 8)
    assert work("aten::max", [8, 16], [8, 16], dtype=FP32).bytes == 3 * 4 * 128  # of two tensors


def test_reduction_without_values_knows_what_is_read():
    found = work("aten::sum", [8, 16], None, None, None, **{"Concrete Inputs": []})
    assert (found.flops, found.bytes) == (128, None)


def test_embedding_reads_a_row_for_each_index():
    found = work("aten::embedding", [1000, 64], [4, 50], None, None, None, dtype=[BF16, LONG, "", "", ""],
                 values={2: "-1", 3: "False", 4: "False"})  # fmt: skip
    # 200 indices of 8 B, 200 rows of 64 read and written
    assert (found.flops, found.bytes) == (0, 1_600 + 2 * 200 * 64 * 2)


def test_pooling_counts_its_windows():
    values = {1: "[2, 2]", 2: "[]", 3: "[0, 0]", 4: "[1, 1]", 5: "False"}
    found = work("aten::max_pool2d_with_indices", [8, 16, 21, 20], *[None] * 5, values=values)
    # 10×10 results of 4 each (the last row of 21 fits no window), with places of 8 B
    assert (found.flops, found.bytes) == (8 * 16 * 100 * 4, 8 * 16 * (420 * 2 + 100 * 10))
    up = work("aten::max_pool2d_with_indices", [8, 16, 21, 20], *[None] * 5, values={**values, 5: "True"})
    assert up.flops == 8 * 16 * 110 * 4


@pytest.mark.parametrize(
    ("name", "shapes", "values", "flops", "elements"),
    [
        ("aten::native_layer_norm", ([32, 128], None, [128], [128], None), {1: "[128]", 4: "1e-05"}, 5 * 4096, 2 * 4096 + 256),
        ("aten::_fused_rms_norm", ([32, 128], None, [128], None), {1: "[128]"}, 4 * 4096, 2 * 4096 + 128),
        ("aten::native_batch_norm", ([8, 16, 5, 5], [16], [16], [16], [16], None, None, None),
         {5: "True", 6: "0.1", 7: "1e-05"}, 5 * 3200, 2 * 3200 + 6 * 16),
        ("aten::native_batch_norm", ([8, 16, 5, 5], [16], [16], [16], [16], None, None, None),
         {5: "False", 6: "0.1", 7: "1e-05"}, 2 * 3200, 2 * 3200 + 4 * 16),
    ],
)  # fmt: skip
def test_norms(name, shapes, values, flops, elements):
    found = work(name, *shapes, values=values)
    assert (found.flops, found.bytes) == (flops, 2 * elements)


def test_views_do_nothing():
    found = work("aten::transpose", [8, 16], None, None, values={1: "0", 2: "1"})
    assert (found.family, found.flops, found.bytes) == ("view", 0, 0)


def test_an_operator_without_a_model_is_unknown():
    found = work("mylib::fused_everything", [8, 16])
    assert (found.family, found.flops, found.bytes) == ("unknown", None, None)
    assert found.reason == "there is no model of the operator"


@pytest.mark.parametrize("seed", range(20))
def test_no_arguments_make_a_model_fail(seed):
    """Files hold anything: each model gives an estimate or a reason."""
    rng = np.random.default_rng(seed)
    odd = [[], None, [0], [3], [3, 4], [2, 3, 4], [2, 3, 4, 5], [[2], [3]], "x", [-1, 2], [1 << 40, 1 << 40]]
    kinds = [BF16, FP32, LONG, "Scalar", "ScalarList", "TensorList", "", "?", None, 7]
    texts = ["", "1", "0", "-1", "True", "[2, 2]", "[0]", "[True, False]", "nan", "[x]", None]
    for name in REGISTRY:
        count = int(rng.integers(0, 13))
        dims, types, values = (
            [choices[int(i)] for i in rng.integers(0, len(choices), count)] for choices in (odd, kinds, texts)
        )
        told = arguments.of_attributes(json.dumps({"Input type": types, "Concrete Inputs": values}))[0]
        found = evaluate(arguments.call(name, json.dumps(dims), told))
        assert found.known or found.reason


@pytest.mark.parametrize(("reduction", "results", "operations"), [("0", 600, 2), ("1", 1, 3), ("2", 1, 3)])
def test_a_mean_squared_error_reads_both_sides_and_may_sum_up(reduction, results, operations):
    found = work("aten::mse_loss", [20, 30], [30], None, dtype=[FP32, BF16, ""], values={2: reduction})
    assert (found.flops, found.bytes) == (operations * 600, 4 * 600 + 2 * 30 + 4 * results)


def test_padding_widens_the_last_dimensions_first():
    found = work("aten::constant_pad_nd", [4, 5], None, None, values={1: "[1, 2, 3, 4]"})
    assert (found.flops, found.bytes) == (0, 2 * (4 * 5 + (4 + 7) * (5 + 3)))


@pytest.mark.parametrize(
    ("weight", "bias", "statistics", "training", "elements"),
    [
        ([16], None, None, "True", 16), (None, [16], None, "True", 16), (None, None, [16], "False", 2 * 16),
        (None, None, [16], "True", 4 * 16),  # mean and variance are read and written
    ],
)  # fmt: skip
def test_a_norm_reads_what_it_is_given(weight, bias, statistics, training, elements):
    shapes = ([8, 16, 5, 5], weight, bias, statistics, statistics, None, None, None)
    found = work("aten::native_batch_norm", *shapes, values={5: training, 6: "0.1", 7: "1e-05"})
    assert found.bytes == 2 * (2 * 3200 + elements)


def test_repeating_copies_and_computes_nothing() -> None:
    found = work("aten::repeat", [4, 5], None, values={1: "[3, 1, 2]"})
    assert (found.flops, found.bytes, found.matrix) == (0, 2 * (20 + 3 * 4 * 10), False)


def test_rows_that_an_index_selects_are_read_and_written() -> None:
    found = work("aten::index_select", [6, 40], None, [3], dtype=[BF16, "", LONG], values={1: "0"})
    assert (found.flops, found.bytes) == (0, 3 * 8 + 2 * 3 * 40 * 2)


@pytest.mark.parametrize(("weights", "each"), [(None, 1), ([5], 2)])
def test_weights_of_a_bag_are_multiplied_as_well(weights: list[int] | None, each: int) -> None:
    found = work("aten::embedding_bag", [10, 8], [5], [2], None, None, None, weights, None,
                 dtype=[FP32, LONG, LONG, "", "", "", FP32, ""], values={3: "False", 4: "0", 5: "False", 7: "False"})  # fmt: skip
    assert found.flops == 5 * 8 * each


def test_the_gradient_of_an_average_has_no_places_to_read() -> None:
    largest = work("aten::max_pool2d_with_indices_backward", [2, 3, 4, 4], [2, 3, 8, 8], *[None] * 5, [2, 3, 4, 4],
                   dtype=[FP32] * 7 + [LONG])  # fmt: skip
    average = work("aten::avg_pool2d_backward", [2, 3, 4, 4], [2, 3, 8, 8], *[None] * 6, dtype=FP32)
    assert (largest.flops, average.flops) == (2 * 3 * 16, 2 * 3 * 64)
