"""What a tensor argument holds: elements that share memory are read once."""

from __future__ import annotations

import pytest

from warpsight.analysis.ops.arguments import Tensor, call


@pytest.mark.parametrize(
    ("shape", "strides", "distinct"),
    [
        ((4, 5), (5, 1), 20),
        ((4, 5), None, 20),
        ((4, 5), (5,), 20),  # strides of something else
        ((4, 5), (0, 1), 5),  # expanded: one row again and again
        ((4, 5), (0, 0), 1),
        ((3, 3), (1, 1), 5),  # windows that overlap
        ((3, 4), (2, 1), 8),
        ((4, 5), (-5, 1), 20),
        ((0, 5), (5, 1), 0),
        ((), (), 1),
    ],
)
def test_elements_that_differ_in_memory(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, distinct: int
) -> None:
    one = Tensor(shape, "fp32", strides)
    assert one.distinct == distinct
    assert one.bytes == 4 * distinct


def test_tensors_of_a_list_without_a_size_are_left_out() -> None:
    found = call("aten::cat", "[[[2, 3], [4, -1]], []]", (b'["TensorList", "Scalar"]', b"null", b'["", "0"]'))
    assert found.tensor_list() == (Tensor((2, 3), "", None),)
