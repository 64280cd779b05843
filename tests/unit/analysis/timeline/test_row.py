"""What of a row of the timeline lies in a stretch of time."""

from __future__ import annotations

import numpy as np

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
