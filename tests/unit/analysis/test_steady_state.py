"""Steady iterations and those that stand out, one by one."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.analysis.base.typical import half
from warpsight.analysis.steps.iterations import outliers, steady_state

DURATIONS = st.lists(st.sampled_from((0, 74, 75, 76, 100, 124, 125, 126, 131, 400)), min_size=1, max_size=12)


def steady(duration: list[int]) -> list[bool]:
    found = of_length(duration, median(duration[len(duration) // 2 :]))
    inner = [i for i, good in enumerate(found) if good]
    left = [one for one, good in zip(duration, found, strict=True) if not good]
    if len(left) <= len(inner):
        return found
    other = median(left)
    alike = [i for i, one in enumerate(duration) if not found[i] and abs(one - other) <= other / 4]
    around = len(alike) > len(inner) and alike[0] < inner[0] and inner[-1] < alike[-1]
    return of_length(duration, other) if around else found


def of_length(duration: list[int], usual: float) -> list[bool]:
    near = [abs(one - usual) <= usual / 4 for one in duration]
    begins = [
        i for i, good in enumerate(near) if good and sum(near[i : i + 3]) * 3 >= 2 * len(near[i : i + 3])
    ]
    if sum(near) < 2 or not begins:
        return [True] * len(duration)
    last = max(i for i, good in enumerate(near) if good)
    found = [begins[0] <= i <= last for i in range(len(duration))]
    second = found[len(found) // 2 :]
    inside = [good for good, there in zip(near, found, strict=True) if there]
    outside = [good for good, there in zip(near, found, strict=True) if not there]
    unusual = inside.count(False) / len(inside)
    many = 5 * len(outside) >= len(found)
    varied = unusual >= (0.25 if many else 0.4) and unusual ** begins[0] >= 0.001
    varied = bool(outside) and (varied or (many and 4 * sum(outside) >= len(outside)))
    return found if 2 * sum(second) >= len(second) and not varied else [True] * len(found)


@given(DURATIONS)
def test_the_steady_state_is_from_the_first_usual_stretch_to_the_last_usual_iteration(
    duration: list[int],
) -> None:
    assert steady_state(np.array(duration)).tolist() == steady(duration)


def test_a_few_slow_iterations_late_in_a_short_loop_are_not_its_steady_state() -> None:
    duration = np.array([979, 972, 973, 6300, 6450, 896])
    assert steady_state(duration).all()
    assert np.flatnonzero(outliers(duration, steady_state(duration))).tolist() == [3, 4]


@given(DURATIONS, st.data())
def test_an_outlier_is_far_from_the_median_by_a_share_and_by_the_spread(
    duration: list[int], data: st.DataObject
) -> None:
    among = data.draw(st.lists(st.booleans(), min_size=len(duration), max_size=len(duration)))
    chosen = [one for one, good in zip(duration, among, strict=True) if good]
    if len(chosen) < 3:
        expected = [False] * len(duration)
    else:
        usual = median(chosen)
        spread = 1.4826 * median(abs(one - usual) for one in chosen)
        expected = [abs(one - usual) > max(5 * spread, 0.3 * usual + 1e-9) for one in duration]
    assert outliers(np.array(duration), np.array(among)).tolist() == expected


@given(st.lists(st.integers(0, 50), max_size=8))
def test_half_of_the_time_is_in_pieces_at_least_as_long_as_the_typical_one(lengths: list[int]) -> None:
    found, whole = half(np.array(lengths, np.int64)), sum(lengths)
    if not whole:
        assert found == 0
        return
    assert 2 * sum(one for one in lengths if one >= found) >= whole
    assert 2 * sum(one for one in lengths if one > found) < whole


@pytest.mark.parametrize(
    ("lengths", "typical"),
    [([1, 1, 1, 500, 700], 700), ([5], 5), ([2, 2], 2), ([3, 1, 2], 3), ([0, 0], 0), ([], 0)],
)
def test_the_typical_piece(lengths: list[int], typical: int) -> None:
    assert half(np.array(lengths, np.int64)) == typical
