"""What of a row of the timeline is in a stretch of time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from warpsight.analysis.timeline import part
from warpsight.analysis.timeline.row import Row


def row(*slices: tuple[int, int]) -> Row:
    start, end = (np.array(column, np.int64) for column in zip(*slices, strict=True))
    return Row("key", "stream 7", "stream", "group", start, end, np.zeros(len(start), np.int32))


def test_slices_that_only_touch_a_stretch_do_not_reach_into_it() -> None:
    found = row((0, 10), (10, 20), (20, 30))
    assert found.between(10, 20) == slice(1, 2)
    assert found.between(9, 21) == slice(0, 3)


def test_a_long_slice_reaches_over_shorter_ones_that_began_later() -> None:
    found = row((0, 100), (10, 20), (30, 40))
    assert found.between(50, 60) == slice(0, 3)


def test_the_busy_time_of_a_stretch_counts_each_moment_once() -> None:
    found = row((0, 10), (5, 20), (30, 40))
    assert (found.busy(0, 40), found.busy(8, 35), found.busy(20, 30)) == (30, 17, 0)


@pytest.mark.parametrize("seed", range(5))
def test_bins_hold_how_busy_each_was_and_what_took_most_of_it(seed: int) -> None:
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 900, 40))
    end = start + random.integers(1, 60, 40)
    name = random.integers(0, 4, 40).astype(np.int32)
    one = Row("key", "stream 7", "stream", "group", start, end, name)
    begin, stop, count = 100, 800, 7
    found = part._bins(SimpleNamespace(rows=[one]), np.array([0]), begin, stop, count)
    for number in range(count):
        low, high = begin + 100 * number, begin + 100 * (number + 1)
        covered = {t for a, b in zip(start, end, strict=True) for t in range(max(a, low), min(b, high))}
        assert found.busy[0, number] == pytest.approx(len(covered) / 100)
        time = np.zeros(4)
        np.add.at(time, name, np.maximum(np.minimum(end, high) - np.maximum(start, low), 0))
        assert (time[found.name[0, number]] == time.max()) if covered else found.name[0, number] == -1


def test_a_bin_without_work_has_no_name() -> None:
    one = row((0, 10), (90, 100))
    found = part._bins(SimpleNamespace(rows=[one]), np.array([0]), 0, 100, 10)
    assert found.busy[0].tolist() == [1.0, *[0.0] * 8, 1.0]
    assert found.name[0].tolist() == [0, *[-1] * 8, 0]
