"""The window of calls stays bounded however long a program runs, and never forgets a launch that waits."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.capture import correlation
from warpsight.capture.correlation import FIRST_OPENCL, LAUNCH, UNKNOWN, CallWindow, Correlations


def put(window: CallWindow, first: int, count: int) -> np.ndarray:
    ids = window.unwrap(np.arange(first, first + count).astype(np.uint32))
    window.put(ids, (ids % 100).astype(np.int32), ids * 10, np.full(count, LAUNCH, np.uint8))
    return ids


def test_calls_are_found_and_unknown_ones_said_so() -> None:
    window = CallWindow(0)
    ids = put(window, 50, 10)
    stack, start = window.get(np.array([49, 50, 59, 60]))
    assert stack.tolist() == [UNKNOWN, 50, 59, UNKNOWN]
    assert start[1:3].tolist() == [500, 590]
    window.see(ids[:4])
    assert window.seen(ids).tolist() == [True] * 4 + [False] * 6


def test_a_long_run_keeps_launches_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlation, "WINDOW_IDS", 1000)
    window = CallWindow(0)
    for first in range(1, 20_000, 200):
        ids = put(window, first, 200)
        window.see(ids[ids % 777 != 0])
    assert window._size <= 1000
    waiting = np.arange(777, 20_000, 777)
    stack, start = window.get(waiting)
    assert stack.tolist() == (waiting % 100).tolist()
    assert start.tolist() == (waiting * 10).tolist()
    assert not window.seen(waiting).any()
    window.see(waiting)
    assert window.seen(waiting).all()


def test_a_damaged_id_does_not_size_memory() -> None:
    window = CallWindow(0)
    put(window, 1, 5)
    put(window, 2_000_000_000, 5)
    assert len(window._arrays["call"]) == correlation.WINDOW_IDS


def test_ids_of_cuda_and_opencl_have_windows_of_their_own_once_both_are_used() -> None:
    windows = Correlations()
    ids = np.array([5, FIRST_OPENCL + 3, 6, FIRST_OPENCL + 4], np.uint32)
    session = np.zeros(4, np.int64)
    assert [chosen for _, chosen in windows.split(session, ids)] == [slice(None)]
    windows.opencl = True
    rows = {tuple(ids[chosen].tolist()) for _, chosen in windows.split(session, ids)}
    assert rows == {(5, 6), (FIRST_OPENCL + 3, FIRST_OPENCL + 4)}
    for window, chosen in windows.split(session, ids):
        unwrapped = window.unwrap(ids[chosen])
        window.put(unwrapped, unwrapped.astype(np.int32), unwrapped, np.ones(2, np.uint8))
    again = Correlations.restore(windows.state())
    assert again.opencl
    for window, chosen in again.split(session, ids):
        assert window.get(ids[chosen].astype(np.int64))[0].tolist() == ids[chosen].tolist()


def test_state_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlation, "SAVED_IDS", 10)
    window = CallWindow(3)
    ids = put(window, 1, 100)
    window.see(ids[5:])
    again = CallWindow.restore({name: values.copy() for name, values in window.state().items()})
    stack, _ = again.get(ids[[0, 4, 95]])
    assert stack.tolist() == [1, 5, 96]
    assert again.seen(ids[:6]).tolist() == [False] * 5 + [True]
    assert again.full(ids[:1]).tolist() == [3 << 32 | 1]


def test_of_ids_that_partly_lie_outside_those_inside_are_known() -> None:
    window = CallWindow(0)
    ids = put(window, 1, 10)
    window.see(ids[:4])
    later = np.arange(3, 30, dtype=np.int64)
    assert window.seen(later)[:8].tolist() == [True, True] + [False] * 6


def test_device_rows_of_calls_that_are_not_known_yet_change_nothing() -> None:
    window = CallWindow(0)
    ids = put(window, 50, 10)
    window.see(np.array([ids[2], ids[-1] + 1, ids[-1] + 5000]))
    assert window.seen(ids).tolist() == [False, False, True] + [False] * 7
    window.see(np.zeros(0, np.int64))
    assert window.seen(np.zeros(0, np.int64)).tolist() == []


#: What a segment brings: how many calls, how far their ids are from the newest, and what part of them launches something.
SEGMENT = st.tuples(st.integers(1, 12), st.integers(-6, 9), st.integers(1, 4))


@settings(max_examples=30)
@given(
    segments=st.lists(SEGMENT, min_size=1, max_size=25),
    choice=st.randoms(use_true_random=False),
    session=st.integers(0, 2),
    first=st.sampled_from((1, 100, (1 << 32) - 60)),
)
def test_a_window_answers_as_a_dictionary_of_all_calls_would(segments, choice, session, first) -> None:
    """Of calls that left the window only launches without a kernel are known; none is ever mixed up with another."""
    calls: dict[int, tuple[int, int, bool]] = {}
    arrived: set[int] = set()
    with mock.patch.multiple(correlation, WINDOW_IDS=64, SAVED_IDS=8):
        window = CallWindow(session)
        newest, recent = first, 32  # how many of the newest ids are known for certain
        for count, lead, part in segments:
            ids = np.arange(newest + lead, newest + lead + count)
            ids = ids[ids >= first]
            if not len(ids):
                continue
            unwrapped = window.unwrap((ids % (1 << 32)).astype(np.uint32))
            assert unwrapped.tolist() == ids.tolist()
            stack = np.array([choice.randrange(50) for _ in ids], np.int32)
            launch = (ids % part == 0).astype(np.uint8) * LAUNCH
            again = np.isin(ids, list(calls))  # a call that is told twice stays a launch if it was one
            window.put(unwrapped, stack, ids * 3, launch)
            for place, number in enumerate(ids.tolist()):
                before = bool(again[place] and calls[number][2])
                calls[number] = int(stack[place]), number * 3, bool(launch[place]) or before
            newest = max(newest, int(ids[-1]) + 1)
            came = np.array([i for i in calls if choice.random() < 0.2 and newest - i <= recent], np.int64)
            window.see(came)
            arrived |= set(came.tolist())
            if choice.random() < 0.1:
                window, recent = CallWindow.restore(window.state()), 8
            asked = np.array([choice.randrange(first, newest + 5) for _ in range(6)], np.int64)
            for number, found, start in zip(
                asked.tolist(), *(c.tolist() for c in window.get(asked)), strict=True
            ):
                known = calls.get(number)
                if known is None:
                    assert found == UNKNOWN
                elif newest - number <= recent or (
                    known[2] and number not in arrived and newest - number > 64
                ):
                    assert (found, start) == known[:2]
                else:
                    assert found == UNKNOWN or (found, start) == known[:2]
            launched = np.array([i for i, call in calls.items() if call[2]], np.int64)
            assert window.seen(launched).tolist() == [i in arrived for i in launched.tolist()]


@settings(max_examples=40)
@given(
    st.lists(st.integers(-40, 40), min_size=1, max_size=30),
    st.sampled_from((50, (1 << 31) - 20, (1 << 32) - 20, (1 << 33) + 5)),
    st.integers(0, 3),
)
def test_ids_of_32_bits_that_wrap_are_unwrapped_and_unique_in_the_process(steps, first, session) -> None:
    window = CallWindow(session)
    window.reference = first
    ids = first + np.cumsum(steps)
    ids = ids[ids > 0]
    for piece in np.array_split(ids, 4):
        assert window.unwrap((piece % (1 << 32)).astype(np.uint32)).tolist() == piece.tolist()
    full = window.full(ids)
    assert full.tolist() == [i >> 32 << 48 | session << 32 | i % (1 << 32) for i in ids.tolist()]
    assert window.own(full).tolist() == ids.tolist()


def test_the_end_of_a_batch_may_lie_on_both_sides_of_half_the_range() -> None:
    window = CallWindow(0)
    half = 1 << 31
    assert window.unwrap(np.array([half + 10], np.uint32)).tolist() == [half + 10]
    # 2^31 before the newest is still before it, and what is 2^31 ahead is before the wrap, too
    assert window.unwrap(np.array([10], np.uint32)).tolist() == [10]
    assert window.unwrap(np.array([9], np.uint32)).tolist() == [(1 << 32) + 9]
    assert window.unwrap(np.array([5], np.uint32)).tolist() == [(1 << 32) + 5]
    assert window.reference == (1 << 32) + 9


def test_the_first_calls_may_lie_further_apart_than_a_window_reaches() -> None:
    window = CallWindow(0)
    ids = np.array([5, correlation.WINDOW_IDS * 4], np.int64)
    window.put(ids, np.array([1, 2], np.int32), np.zeros(2, np.int64), np.full(2, LAUNCH, np.uint8))
    again = CallWindow.restore(window.state())
    assert again.get(ids)[0].tolist()[1] == 2
