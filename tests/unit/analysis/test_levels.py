"""Levels of ranges, rows without a launch, and the nearest launches, against one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.merge import compat
from warpsight.analysis.ranges import open as ranges
from warpsight.analysis.steps import iterations


@dataclass
class Streams:
    """Work of some streams."""

    process: np.ndarray
    rows: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.process)

    def per_queue(self) -> list[tuple[None, np.ndarray]]:
        return [(None, own) for own in self.rows]


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.integers(-1, 30), max_size=10))
def test_every_range_is_on_the_level_of_its_depth(parents: list[int]) -> None:
    parent = [min(one, place - 1) for place, one in enumerate(parents)]  # an outer range comes first

    def depth(place: int) -> int:
        return 1 + depth(parent[place]) if parent[place] >= 0 else 0

    depths = [depth(place) for place in range(len(parent))]
    expected = [
        [i for i, one in enumerate(depths) if one == level] for level in range(max(depths, default=0), 0, -1)
    ]
    assert [level.tolist() for level in ranges.levels(np.array(parent, np.int64))] == expected


@settings(derandomize=True, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 2), st.booleans(), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    )
)
def test_work_without_a_launch_belongs_to_the_turn_before_it_on_its_stream(
    rows: list[tuple[int, int, bool, int]],
) -> None:
    """Process, stream, whether the launch is there, its turn."""
    process = np.array([row[0] for row in rows])
    mine = np.flatnonzero(process == rows[0][0])
    launched = np.array([i for i in mine.tolist() if rows[i][2]], np.int64)
    turn = np.full(len(rows), -1, np.int32)
    turn[launched] = [rows[i][3] for i in launched.tolist()]
    expected = turn.tolist()
    for place in mine.tolist():
        if not rows[place][2]:
            before = [i for i in launched.tolist() if i < place and rows[i][1] == rows[place][1]]
            expected[place] = rows[before[-1]][3] if before else -1
    queues = [
        [i for i, row in enumerate(rows) if row[:2] == key] for key in sorted({row[:2] for row in rows})
    ]
    work = Streams(process, [np.array(own, np.int64) for own in [*queues, []]])
    iterations._carried_on(turn, cast(Any, work), mine, launched)
    assert turn.tolist() == expected


@settings(derandomize=True, max_examples=80)
@given(st.lists(st.integers(0, 20), max_size=6), st.lists(st.integers(0, 20), max_size=6), st.integers(1, 6))
def test_the_nearest_launch_is_the_first_of_equally_near_ones(
    times: list[int], starts: list[int], tolerance: int
) -> None:
    expected = []
    for time in times:
        place = min(range(len(starts)), key=lambda i: (abs(starts[i] - time), i), default=-1)
        expected.append(place if place >= 0 and abs(starts[place] - time) < tolerance else -1)
    assert compat._nearest(times, starts, tolerance) == expected


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        ("main;f", ["main", "f"]),
        ("main; cudaLaunchKernel ;f", ["main", "cudaLaunchKernel", "f"]),
        ("main;__device_stub__Z1kv;cudaLaunchKernel@plt;g", ["main", "cudaLaunchKernel", "g"]),
    ],
)
def test_a_launch_is_one_frame_under_whichever_name(text: str, frames: list[str]) -> None:
    assert compat._frames(text) == frames
