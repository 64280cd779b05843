import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.analysis.diff.design import Design


def taken(sides):
    """A design from a text such as `ABBA`: which side each run in order of time belongs to."""
    times = [[i + 1 for i, side in enumerate(sides) if side == which] for which in "AB"]
    return Design.of(*times)


@pytest.mark.parametrize(
    ("sides", "in_turn", "apart"),
    [("ABABABABAB", True, False), ("ABBAABBA", True, False), ("BABABABA", True, False), ("AAAAABBBBB", False, True),
     ("BBBBAAAA", False, True), ("AABBAABB", False, False), ("ABABABA", False, False)],
)  # fmt: skip
def test_the_order_in_time_says_whether_the_sides_took_turns(sides, in_turn, apart):
    design = taken(sides)
    assert (design.in_turn, design.apart) == (in_turn, apart)


def test_neighbors_in_time_are_pairs():
    one, two = taken("ABBAABBA").pairs()
    design = taken("ABBAABBA")
    assert not design.after[one].any() and design.after[two].all()
    assert np.abs(design.order[one] - design.order[two]).tolist() == [1] * 4


@pytest.mark.parametrize("times", [([None] * 5, [1] * 5), ([1] * 5, [2] * 5), ([3, 1, 2], [None, 4, 5])])
def test_without_distinct_times_the_order_given_counts(times):
    design = Design.of(*times)
    assert not design.timed and not design.in_turn
    assert design.order.tolist() == list(range(len(design)))


@pytest.mark.parametrize(
    ("runs", "p", "testable"),
    [
        ((1, 1), 1.0, False),
        ((3, 3), 0.1, False),
        ((4, 4), 2 / 70, True),
        ((5, 5), 2 / 252, True),
        ((2, 8), 2 / 45, True),
    ],
)
def test_the_smallest_p_decides_whether_runs_can_tell(runs, p, testable):
    design = Design.of(*([None] * count for count in runs))
    assert design.smallest_p == pytest.approx(p) and design.testable == testable


@given(st.integers(1, 5), st.integers(1, 5))
def test_relabelings_are_all_of_them_once_the_observed_first(one, two):
    design = Design.of([None] * one, [None] * two)
    labels = design.relabelings()
    assert labels[0].tolist() == design.after.tolist()
    assert len({tuple(row) for row in labels.tolist()}) == len(labels) == comb(one + two, one)
    assert {sum(row) for row in labels.tolist()} == {two}


def test_many_runs_are_relabeled_by_a_fixed_sample():
    design = Design.of([None] * 12, [None] * 12)
    labels = design.relabelings()
    assert len(labels) == 2_001 and (labels.sum(axis=1) == 12).all()
    assert (labels == design.relabelings()).all()


def test_pairs_cover_every_run_once():
    for sides in itertools.product(("AB", "BA"), repeat=4):
        one, two = taken("".join(sides)).pairs()
        assert sorted([*one.tolist(), *two.tolist()]) == list(range(8))
