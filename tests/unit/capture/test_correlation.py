"""The window of calls stays bounded however long a program runs, and never forgets a launch that waits."""

from __future__ import annotations

import numpy as np
import pytest

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
