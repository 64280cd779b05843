"""Usual times: medians by code where there are enough observations, within bounds."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.retime import usual


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 3), st.booleans()), max_size=14))
def test_a_code_that_was_seen_three_times_has_a_median_of_its_own(rows: list[tuple[int, int, bool]]) -> None:
    values, code = np.array([v for v, _, _ in rows], np.int64), np.array([c for _, c, _ in rows], np.int64)
    chosen = np.flatnonzero([good for _, _, good in rows])
    every = [v for v, _, good in rows if good]
    own = [[v for v, c, good in rows if good and c == one] for one in range(5)]
    shared = int(median(every)) if every else 7
    found = usual.by_code(values, code, chosen, 5, 7)
    assert found.tolist() == [int(median(of)) if len(of) >= 3 else shared for of in own]


def test_without_codes_there_is_one_usual_time() -> None:
    none = np.zeros(0, np.int64)
    assert usual.by_code(none, none, none, 0, 7).tolist() == [7]


@pytest.mark.parametrize(
    ("time", "longest"), [(0, 10_000), (2_500, 10_000), (2_501, 10_004), (25_000, 100_000), (25_001, 100_000)]
)
def test_four_times_the_usual_is_still_usual_from_10_to_100_us(time: int, longest: int) -> None:
    assert usual.longest(np.array([time])).tolist() == [longest]
