"""Clocks of a recording: the line to wall-clock time, and kernels that the host's clock contradicts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.capture import clock_checks, clock_fit
from warpsight.capture.losses import LossLog

EPOCH = 1_790_000_000_123_456_789


def test_a_line_is_found_from_readings_in_any_order() -> None:
    """A wall clock that gains 20 ns per ms (20 ppm)."""
    pairs = [(5_000 + t, EPOCH + t + t * 20 // 1_000_000) for t in range(0, 10_000_000_000, 500_000_000)]
    found = clock_fit.fit(pairs[::-1])
    assert found == {
        "unit": "ns", "first": [5_000, EPOCH], "last": list(pairs[-1]), "pairs": 20, "offset": EPOCH - 5_000,
        "drift": pytest.approx(20.0), "residual": 0,
    }  # fmt: skip


def test_the_residual_is_the_largest_distance_from_the_line() -> None:
    """Readings 0, 30 and 0 ns ahead at even distances: the line is at 10, and the middle one 20 above."""
    found = clock_fit.fit([(0, 100), (1_000, 1_130), (2_000, 2_100)])
    assert (found["offset"], found["drift"], found["residual"]) == (110, pytest.approx(0, abs=1e-6), 20)


def test_one_reading_is_an_offset_and_none_is_nothing() -> None:
    assert clock_fit.fit([]) == {}
    one = clock_fit.fit([(7, EPOCH)])
    assert (one["offset"], one["drift"], one["residual"], one["pairs"]) == (EPOCH - 7, 0.0, 0, 1)
    twice = clock_fit.fit([(7, EPOCH), (7, EPOCH + 4)])  # at one moment: no line
    assert (twice["offset"], twice["drift"], twice["residual"]) == (EPOCH - 7, 0.0, 4)


def arena(rows: list[dict[str, Any]]) -> Any:
    """What the checks use of an arena."""
    return SimpleNamespace(
        loss=LossLog(rows), device=lambda number: number + 3, checks_syncs=True, checked_kernels=[]
    )


def test_kernels_before_their_launch_are_counted_by_device_with_the_worst_lead() -> None:
    rows: list[dict[str, Any]] = []
    device, start, called = (
        np.array(column)
        for column in (
            [0, 0, 0, 1, 1, 0, 1],
            [100, 200, 300, 400, 500, 50, -9],
            [100, 201, 340, 399, 0, 90, 0],
        )
    )
    lost = np.array([False] * 5 + [True, False])
    clock_checks.launches(cast(Any, arena(rows)), device, start, called, lost)
    assert len(rows) == 1
    assert (rows[0]["source"], rows[0]["count"], rows[0]["severity"], rows[0]["kind"]) == (
        "clock",
        2,
        "note",
        "kernel",
    )
    assert (rows[0]["start"], rows[0]["end"]) == (200, 300)
    assert (rows[0]["cause"], rows[0]["worst"]) == ("kernels of device 3 start before their launch call", 40)
    rows.clear()
    clock_checks.launches(cast(Any, arena(rows)), device, start, called, None)
    assert [row["count"] for row in rows] == [3]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=5),
)
def test_a_wait_is_wrong_when_a_kernel_from_before_it_ends_after_it(
    kernels: list[tuple[int, int]], waits: list[tuple[int, int]]
) -> None:
    start, length = (np.array(column) for column in zip(*kernels, strict=True))
    begun = np.array([(b, b + d) for b, d in waits], [("start", "u8"), ("end", "u8")])
    expected = sum(any(s < b and s + n > b + d for s, n in kernels) for b, d in waits)
    assert clock_checks._violations(start, start + length, begun) == expected


def test_a_wait_is_for_its_stream_or_its_context() -> None:
    rows: list[dict[str, Any]] = []
    one = arena(rows)
    kind = [
        ("context", "u4"),
        ("stream", "u4"),
        ("type", "u4"),
        ("result", "u4"),
        ("start", "u8"),
        ("end", "u8"),
    ]
    kernels = np.array([(1, 7, 0, 0, 0, 0), (1, 8, 0, 0, 0, 0), (2, 7, 0, 0, 0, 0), (2, 9, 0, 0, 0, 0)], kind)
    clock_checks.note_kernels(one, cast(Any, kernels), np.array([10] * 4), np.array([100, 5, 100, 100]))
    waits = [
        (1, 9, 3, 0, 20, 30),
        (1, 8, 3, 0, 20, 30),
        (1, 7, 3, 0, 20, 30),
        (1, 0, 4, 0, 20, 30),
        (1, 7, 3, 1, 20, 30),
        (2, 8, 3, 0, 20, 30),
    ]
    clock_checks.syncs(one, np.array(waits, kind))
    assert [(row["count"], row["cause"], row["kind"]) for row in rows] == [
        (2, "kernels of context 1 end after the wait for them ended", "sync")
    ]
    assert one.checked_kernels == []


@pytest.mark.parametrize(("streams", "counted"), [(64, 64), (65, 0)])
def test_waits_of_many_streams_are_not_compared_one_by_one(streams: int, counted: int) -> None:
    rows: list[dict[str, Any]] = []
    one = arena(rows)
    kind = [
        ("context", "u4"),
        ("stream", "u4"),
        ("type", "u4"),
        ("result", "u4"),
        ("start", "u8"),
        ("end", "u8"),
    ]
    waits = np.array([(1, number, 3, 0, 20, 30) for number in range(streams)], kind)
    clock_checks.note_kernels(one, cast(Any, waits), np.full(streams, 10), np.full(streams, 100))
    clock_checks.syncs(one, waits)
    assert sum(row["count"] for row in rows) == counted


@pytest.mark.parametrize("by", [-3_600_000_000_000, -1_500_000_000, 2_000_000, 86_400_000_000_000])
def test_a_wall_clock_that_is_set_meanwhile_leaves_the_line_and_is_told(by: int) -> None:
    times = range(0, 10_000_000_000, 500_000_000)
    found = clock_fit.fit([(t, EPOCH + t + (by if t >= 7_000_000_000 else 0)) for t in times])
    assert (found["offset"], found["drift"], found["residual"]) == (EPOCH, pytest.approx(0, abs=1e-3), 0)
    assert (found["steps"], found["pairs"]) == ([[7_000_000_000, by]], 20)


def test_a_clock_that_ntp_slews_is_not_set() -> None:
    pairs = [(t, EPOCH + t + t // 2_000) for t in range(0, 10_000_000_000, 500_000_000)]
    assert "steps" not in clock_fit.fit(pairs)
