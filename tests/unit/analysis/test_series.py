"""Sampled numbers as step functions, against adding up every nanosecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.base import series
from warpsight.analysis.base.series import NOTHING, Series

SAMPLES = st.dictionaries(st.integers(0, 30), st.integers(1, 9), max_size=6)
WINDOWS = st.lists(st.tuples(st.integers(-5, 45), st.integers(0, 20)), max_size=6).map(sorted)


def step(samples: dict[int, int], until: int) -> Series:
    times = sorted(samples)
    return Series(np.array(times, np.int64), np.array([float(samples[t]) for t in times]), until)


@settings(derandomize=True, max_examples=60)
@given(SAMPLES, st.integers(0, 8), WINDOWS)
def test_sums_and_means_are_those_of_every_nanosecond(
    samples: dict[int, int], more: int, asked: list[tuple[int, int]]
) -> None:
    until = max(samples, default=0) + more
    values = {
        moment: samples[max(t for t in samples if t <= moment)]
        for moment in range(min(samples, default=until), until)
    }
    one = step(samples, until)
    begin = np.array([b for b, _ in asked], np.int64)
    end = begin + np.array([w for _, w in asked], np.int64)
    inside = [[values[m] for m in range(b, b + w) if m in values] for b, w in asked]
    sums, held = one.over(begin, end)
    assert sums.tolist() == [sum(of) for of in inside]
    assert held.tolist() == [len(of) for of in inside]
    assert one.integral(end).tolist() == [sum(v for m, v in values.items() if m < e) for e in end.tolist()]
    assert one.covered(end).tolist() == [sum(m < e for m in values) for e in end.tolist()]
    means = one.mean(begin, end)
    assert np.isnan(means).tolist() == [not of for of in inside]
    assert means[~np.isnan(means)].tolist() == pytest.approx([sum(of) / len(of) for of in inside if of])


def test_of_several_readings_at_one_moment_the_last_counts_and_the_last_sample_holds_as_long_as_usual() -> (
    None
):
    found = series._series(np.array([10, 20, 20, 60]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert (found.time.tolist(), found.value.tolist(), found.until) == ([10, 20, 60], [1, 3, 4], 60 + 25)
    assert series._series(np.array([10, 10]), np.array([1.0, 2.0])).until == 10
    assert len(NOTHING) == 0
