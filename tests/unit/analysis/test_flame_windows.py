"""The window of one iteration, over all processes that have it."""

import pytest

from tests.unit.analysis.conftest import kernel, launch
from warpsight.analysis.flame.windows import iteration_window
from warpsight.errors import UsageError


def step(at, process):
    return {"start": at, "duration": 0, "name": "step", "kind": "step", "thread": 100, "process": process}


@pytest.fixture
def trace(build):
    """Two processes with three steps of 1,000 ns, the second 100 ns behind the first."""
    rows = {"kernel": [], "launch": [], "user_event": []}
    for process in (0, 1):
        for number in range(3):
            at = 10_000 + 1_000 * number + 100 * process
            rows["launch"].append(launch(at, 10, number + 1, process=process))
            rows["kernel"].append(
                kernel(at + 20, 500, correlation=number + 1, process=process, context=process + 1)
            )
            rows["user_event"].append(step(at + 900, process))
    return build(**rows)


def test_an_iteration_lasts_from_its_first_begin_to_its_last_end(trace):
    assert iteration_window(trace, 1, None, None) == (11_020, 12_120)
    assert iteration_window(trace, 0, None, None) == (10_020, 11_120)


def test_a_requested_window_cuts_it(trace):
    assert iteration_window(trace, 1, 11_500, 11_900) == (11_500, 11_900)
    assert iteration_window(trace, 1, 5_000, 50_000) == (11_020, 12_120)


def test_an_iteration_that_is_not_there_is_refused(trace, build):
    with pytest.raises(UsageError, match="has 3 iterations, from 0; there is no iteration 3"):
        iteration_window(trace, 3, None, None)
    with pytest.raises(UsageError, match="no iterations were found"):
        iteration_window(build(kernel=[kernel(0, 10)]), 0, None, None)
