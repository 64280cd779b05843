"""How the launches of a run's iterations make one value per cell."""

import numpy as np
import pytest

from warpsight.analysis.diff.turns import RunTurns


def turns(place, kind, share=None):
    count = len(kind)
    ones = np.ones(count)
    return RunTurns(
        "range 'step #'", "step", len(set(kind)), np.array(place), ones / count, ones, ones, np.array(kind),
        ones / count if share is None else np.array(share),
    )  # fmt: skip


def value(found, length, cell=None):
    cell = np.zeros(len(length), np.int64) if cell is None else np.array(cell)
    length = np.array(length)
    return np.bincount(cell, length * found.undisturbed(cell, length)).tolist()


def test_each_launch_of_a_cell_counts_by_the_faster_half_of_its_like():
    length = [10, 12, 90, 12, 11, 13]
    assert value(turns([0, 0, 1, 1, 2, 2], [0, 0, 0]), length) == pytest.approx([10.5 + 12])


def test_one_disturbed_kernel_leaves_the_others_of_its_iteration():
    # The first turn has a slow gemm, the second a slow softmax.
    length = [90, 5, 10, 80, 11, 6, 10, 5]
    found = turns([0, 0, 1, 1, 2, 2, 3, 3], [0] * 4)
    assert value(found, length, [0, 1] * 4) == pytest.approx([10, 5])


def test_kinds_of_iterations_count_by_how_often_they_occur():
    # Three turns train (10 ns), one evaluates in the same place (50 ns).
    assert value(turns([0, 1, 2, 3], [0, 0, 0, 1]), [10, 10, 10, 50]) == pytest.approx([20])


def test_work_outside_of_the_iterations_does_not_count():
    assert value(turns([-1, 0, 1, -1], [0, 0]), [1000, 10, 10, 1000]) == pytest.approx([10])


def test_several_processes_count_alike_however_many_iterations_each_has():
    # One process has one turn of 10 ns, another three of 30 ns: a turn takes 20 ns on average of the processes.
    found = turns([0, 1, 2, 3], [0, 1, 1, 1], [1 / 2, 1 / 6, 1 / 6, 1 / 6])
    assert value(found, [10, 30, 30, 30]) == pytest.approx([20])
