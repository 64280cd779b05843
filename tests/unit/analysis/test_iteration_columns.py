"""What is told of iterations that are known: their middle, their window, their rows, how busy they were, and which were slow."""

from __future__ import annotations

import numpy as np

from tests.unit.analysis.conftest import EPOCH, kernel
from warpsight.analysis.steps.iterations import Iterations, busy, slow
from warpsight.model import work as device_work


def made(build, durations, steady=None, outlier=None, labels=None, start=EPOCH):
    """Iterations of these lengths, with a kernel of process 0 in each and one of process 1 beside all of them."""
    begins = start + np.append(0, np.cumsum(durations))
    kernels = [kernel(int(b), max(int(d) // 2, 1)) for b, d in zip(begins, durations, strict=False)]
    kernels.append(kernel(start, int(sum(durations)), process=1))
    work = device_work.everything(build(kernel=kernels)).work
    count = len(durations)
    rows = np.flatnonzero(work.process == 0)
    return Iterations(
        0, "ranges", begins[:-1], np.array(durations), np.arange(count), rows,
        np.ones(count, bool) if steady is None else np.array(steady, bool),
        np.zeros(count, bool) if outlier is None else np.array(outlier, bool), labels or [""] * count, work,
    )  # fmt: skip


def test_the_middle_is_that_of_the_steady_state_without_its_last_turn(build):
    assert made(build, [900, 100, 120, 130, 50], [0, 1, 1, 1, 1]).median == 120
    assert made(build, [900, 100, 700], [0, 1, 0]).median == 100
    assert made(build, [900, 100, 700], [0, 0, 0]).median == 700
    # The last of all turns is the one without a pause, whether the steady state reaches it or not.
    assert made(build, [900, 100, 120, 10], [0, 1, 1, 0]).median == 110


def test_the_window_reaches_from_the_first_steady_turn_to_the_end_of_the_last(build):
    one = made(build, [900, 100, 300, 130, 50], [0, 1, 0, 1, 0])
    assert one.window() == (EPOCH + 900, EPOCH + 1_430)
    assert made(build, [900, 100], [0, 0]).window() is None


def test_each_row_is_of_one_turn(build):
    one = made(build, [100, 100, 100, 100])
    grouped = Iterations(**{**vars(one), "first": np.array([0, 1, 3])})
    assert [grouped.rows_of(number).tolist() for number in range(3)] == [
        one.rows[:1].tolist(), one.rows[1:3].tolist(), one.rows[3:].tolist(),
    ]  # fmt: skip


def test_turns_are_busy_while_their_own_process_works(build):
    assert busy(made(build, [900, 100, 301])).tolist() == [450, 50, 150]


def test_slow_turns_are_one_finding_about_the_slowest(build):
    marks = {
        "steady": [0, 1, 1, 1, 1, 1, 1],
        "outlier": [0, 0, 0, 1, 0, 1, 1],
        "labels": ["", "", "", "step 3", "", "", ""],
    }
    (found,) = slow(made(build, [5_000, 100, 100, 400, 100, 20, 300], **marks))
    assert found.saves_ns == 500
    assert found.values == {
        "iterations": 2,
        "usual": 100,
        "worst": 400,
        "number": 3,
        "label": "step 3",
        "process": 0,
    }
    assert found.text == "step 3 took 400 ns, 4.0 times the usual 100 ns; 2 of 6 iterations stand out"
    marks["outlier"] = [0, 0, 0, 0, 0, 1, 1]
    (found,) = slow(made(build, [5_000, 100, 100, 100, 100, 20, 300], **marks))
    assert found.text == "iteration 6 took 300 ns, 3.0 times the usual 100 ns"
    marks["outlier"] = [0, 0, 0, 0, 0, 1, 0]
    assert slow(made(build, [5_000, 100, 100, 100, 100, 20, 100], **marks)) == []
    assert slow(made(build, [100] * 4)) == []
