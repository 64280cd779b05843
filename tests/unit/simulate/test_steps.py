"""The length of iterations, and which of them count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from warpsight.analysis.retime.solving import Times
from warpsight.simulate import simulation, steps

NONE = np.zeros(0, np.int64)


def loop(rows: list[int], first: list[int], steady: list[bool]) -> Any:
    """What the step's length needs of iterations."""
    return cast(
        Any, SimpleNamespace(rows=np.array(rows, int), first=np.array(first), steady=np.array(steady))
    )


def times(start: list[int], end: list[int]) -> Times:
    return Times(NONE, NONE, np.array(start), np.array(end))


def test_an_iteration_lasts_to_the_first_begin_of_the_next_and_the_last_to_its_last_end() -> None:
    """Rows in another order than their times: the second iteration begins with its second row."""
    found = steps.durations(
        loop([0, 1, 2, 3, 4], [0, 2, 4], [True] * 3), times([10, 20, 50, 40, 90], [15, 99, 60, 45, 97])
    )
    assert found.tolist() == [30, 50, 7]
    assert steps.durations(loop([], [], []), times([], [])).tolist() == []


def test_work_of_no_length_at_the_end_has_no_length_below_zero() -> None:
    assert steps.durations(loop([0, 1], [0, 1], [True] * 2), times([10, 30], [12, 25])).tolist() == [20, 0]


@pytest.mark.parametrize(
    ("steady", "counted"),
    [("0110", "0100"), ("0111", "0110"), ("0100", "0100"), ("0000", "1110"), ("1", "1"), ("0", "1")],
)
def test_steady_iterations_count_but_for_the_last(steady: str, counted: str) -> None:
    found = steps.counted(loop([], [], [one == "1" for one in steady]))
    assert "".join("01"[one] for one in found.tolist()) == counted


@pytest.mark.parametrize(("unreturned", "end"), [([], 900), ([1], 70), ([0, 1], 70)])
def test_calls_that_never_returned_have_no_end(unreturned: list[int], end: int) -> None:
    graph = SimpleNamespace(calls=SimpleNamespace(unreturned=np.array(unreturned, int)),
                            by_thread=SimpleNamespace(call=np.array([0, 1])))  # fmt: skip
    found = steps.span(
        cast(Any, SimpleNamespace(graph=graph)),
        Times(np.array([5, 20]), np.array([60, 900]), np.array([8]), np.array([70])),
    )
    assert (found.begin, found.end, found.length) == (5, end, end - 5)
    empty = steps.span(cast(Any, SimpleNamespace(graph=graph)), Times(NONE, np.array([1, 2]), NONE, NONE))
    assert empty.begin == 0


def test_a_predicted_step_has_the_spread_of_the_recorded_ones_in_proportion() -> None:
    """Steps of 90, 110, 90 and 110 ns (±10) become half as long: 1.96 · 10 / √4 / 2 = 4.9 ns."""

    class Loop(SimpleNamespace):
        def __len__(self) -> int:
            return len(self.first)

    found = cast(Any, Loop(**vars(loop([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [True] * 5))))
    starts = np.array([0, 90, 200, 290, 400])
    was, now = (
        times(starts.tolist(), (starts + 50).tolist()),
        times((starts // 2).tolist(), (starts // 2 + 25).tolist()),
    )
    step = simulation._step(found, cast(Any, None), was, {0: now})
    assert (step.recorded, step.predicted, step.count) == (100, 50, 4)
    assert [step.low, step.high] == pytest.approx([45.1, 54.9])
