"""Columns with and without one value for all rows are the same column, row for row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.capture import columns
from warpsight.capture.columns import Nullable
from warpsight.model.schema import TABLES

KERNEL = {column.name: column for column in TABLES["kernel"].columns}
NUMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=6)


def test_one_value_is_known_by_how_it_is_stored() -> None:
    assert columns.one_value(columns.spread(7, 3))
    assert not columns.one_value(columns.spread(7, 1))  # nothing to save
    assert not columns.one_value(np.array([7, 7, 7]))
    assert not columns.one_value(7)


@given(NUMBERS, st.integers(1, 4), st.data())
def test_rows_are_chosen_alike_however_a_column_is_stored(
    values: list[int], count: int, data: st.DataObject
) -> None:
    for column in (np.array(values), columns.spread(values[0], count)):
        plain = column.tolist()
        mask = data.draw(st.lists(st.booleans(), min_size=len(plain), max_size=len(plain)))
        order = data.draw(st.permutations(range(len(plain))))
        assert columns.pick(column, np.array(mask)).tolist() == [
            v for v, good in zip(plain, mask, strict=True) if good
        ]
        assert columns.pick(column, np.array(order)).tolist() == [plain[i] for i in order]
        assert columns.pick(column, slice(1, 3)).tolist() == plain[1:3]
        assert columns.take(column, np.array(order)).tolist() == [plain[i] for i in order]
        assert columns.bits(column, 2).tolist() == [bool(v & 2) for v in plain]
        null = columns.zero_is_null(column)
        expected = [v or None for v in plain]
        assert columns.arrow(KERNEL["correlation"], null, len(plain)).to_pylist() == expected
        moved = null.take(np.array(order))
        assert columns.arrow(KERNEL["correlation"], moved, len(plain)).to_pylist() == [
            expected[i] for i in order
        ]
        assert columns.constant(column) == columns.constant(null) == (len(set(plain)) == 1)


@pytest.mark.parametrize(
    ("values", "constant"),
    [
        (None, True), (5, True), ("text", False), (np.zeros(0), True), (np.array([1, 2, 1]), False), (np.array([1, 1]), True),
        (np.array([1, 1, 2]), False), (pa.array([1, 1]), False), (Nullable(np.array([1, 2]), None), False),
    ],
)  # fmt: skip
def test_a_column_is_constant_when_every_row_has_its_number(values: Any, constant: bool) -> None:
    assert columns.constant(values) == constant


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("correlation", None, [None, None]), ("correlation", 9, [9, 9]), ("correlation", np.array([3, 4], np.uint32), [3, 4]),
        ("graph_level", True, [True, True]), ("graph_level", np.array([1, 0]), [True, False]),
        ("correlation", Nullable(np.array([3, 4]), None), [3, 4]),
        ("correlation", Nullable(np.array([3, 4]), np.array([True, False])), [None, 4]),
        ("correlation", Nullable(np.array([3, 4]), np.array([True, True])), [None, None]),
        ("correlation", pa.array([1, None]), [1, None]),
    ],
)  # fmt: skip
def test_a_column_of_a_part(name: str, values: Any, expected: list[Any]) -> None:
    assert columns.arrow(KERNEL[name], values, 2).to_pylist() == expected


@given(st.lists(st.sampled_from([0, 1, 2, 5, 9]), max_size=6))
def test_numbers_without_a_name_are_unknown(values: list[int]) -> None:
    names = {1: "one", 5: "five"}
    found = columns.enumerated(np.array(values, np.int64), names, "other")
    assert found.to_pylist() == [names.get(value, "other") for value in values]
    assert columns.enumerated(np.zeros(2, np.int64), {}).to_pylist() == ["unknown"] * 2


def test_numbers_far_from_any_name_are_unknown() -> None:
    numbers = np.array([0, 1, 2, 1 << 31, (1 << 64) - 1], np.uint64)
    assert columns.enumerated(numbers, {1: "one"}).to_pylist() == ["unknown", "one", *["unknown"] * 3]
    assert columns.enumerated(np.array([-1, 1, -(1 << 31)], np.int32), {1: "one"}).to_pylist()[1:] == [
        "one",
        "unknown",
    ]
    assert columns.enumerated(np.array([255, 3], np.uint8), {255: "last"}).to_pylist() == ["last", "unknown"]
