"""One axis for the moments of all threads."""

from __future__ import annotations

import numpy as np

from tests.unit.analysis.conftest import EPOCH
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
        assert at[1] < at[2] < at[3]  # its end belongs to it; what lies beyond is told from that
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
