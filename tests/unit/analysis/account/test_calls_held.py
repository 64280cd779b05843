"""One axis for the moments of all threads."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import EPOCH
from warpsight.analysis.account import calls_held
from warpsight.analysis.account.calls_held import axis


def test_each_thread_has_a_stretch_of_its_own_and_moments_outside_go_to_its_ends():
    process, thread = np.array([0, 1, 0, 0]), np.array([7, 7, 8, 7])
    on = axis(process, thread, EPOCH, EPOCH + 50)
    number = on.number(process, thread)
    assert sorted(set(number.tolist())) == [0, 1, 2]
    assert number[0] == number[3]
    moments = np.array([-1, 0, 50, 70]) + EPOCH
    places = [on.at(np.full(4, n), moments) for n in range(3)]
    for at in places:
        assert at[0] == at[1]  # before the axis begins
        assert at[1] < at[2] < at[3]  # its end belongs to it; what is beyond is told from that
    assert places[0].max() < places[1].min() < places[1].max() < places[2].min()


def test_threads_that_are_not_on_the_axis_have_no_number():
    on = axis(np.array([0, 0]), np.array([7, 8]), 0, 10)
    assert on.number(np.array([0, 0, 1, 0]), np.array([9, 8, 7, 7])).tolist() == [-1, 1, -1, 0]
    alone = axis(np.array([3]), np.array([7]), 0, 10)
    assert alone.number(np.array([3, 3, 0]), np.array([7, 8, 7])).tolist() == [0, -1, -1]
    none = np.zeros(0, np.int64)
    assert on.number(none, none).tolist() == [] == alone.number(none, none).tolist()


def test_an_axis_without_length_holds_its_moment():
    on = axis(np.array([0]), np.array([7]), 10, 10)
    assert on.at(np.array([0, 0]), np.array([10, 5])).tolist() == [0, 0]


def test_which_moments_lie_on_the_axis():
    on = axis(np.array([0]), np.array([5]), 100, 200)
    assert on.holds(np.array([99, 100, 200, 201, 202])).tolist() == [False, True, True, True, False]
    assert on.early(np.array([90, 100, 110])).tolist() == [10, 0, 0]


#: Begin, end (both on the axis), how long before the axis it began, and how long it really is.
STRETCH = st.tuples(st.just(0) | st.integers(0, 20), st.integers(0, 12), st.integers(0, 5), st.integers(0, 9))


@settings(derandomize=True, max_examples=200)
@given(st.lists(STRETCH, max_size=8))
def test_of_stretches_the_first_to_begin_holds_a_moment_and_of_equal_ones_the_longest(made):
    stretches = [(b, b + n, early if b == 0 else 0, n + more) for b, n, early, more in made]
    start, end, early, length = (np.array([one[i] for one in stretches], np.int64) for i in range(4))
    found = calls_held._disjoint(start, end, np.arange(len(made)), [], early, length)
    held = {
        t: name for a, b, name in zip(found.start, found.end, found.name, strict=True) for t in range(a, b)
    }
    assert (found.end > found.start).all() and (found.start[1:] >= found.end[:-1]).all()
    order = sorted(range(len(made)), key=lambda i: (stretches[i][0], -stretches[i][2], -stretches[i][3]))
    expected: dict[int, int] = {}
    reached = -1
    for i in order:  # each holds what is beyond all that began before it
        for t in range(max(stretches[i][0], reached), stretches[i][1]):
            expected[t] = i
        reached = max(reached, stretches[i][1])
    assert held == expected
