"""Which moment is the nearest of others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpsight.analysis.retime.meetings import _nearest

TIMES = st.lists(st.integers(-100, 100), min_size=1, max_size=10)


@given(TIMES, TIMES)
def test_the_nearest_of_other_moments_is_that_of_a_search(times, others):
    others = sorted(others)
    found = _nearest(np.array(times), np.array(others))
    assert [abs(others[at] - time) for time, at in zip(times, found.tolist(), strict=True)] == [
        min(abs(other - time) for other in others) for time in times
    ]


def test_of_two_that_are_as_near_it_is_the_earlier():
    assert _nearest(np.array([5]), np.array([0, 10])).tolist() == [0]
