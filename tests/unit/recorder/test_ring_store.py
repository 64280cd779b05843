"""What a ring's store of raw data keeps for the window while the recording ends."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import cast

import pytest

from warpsight.recorder.drain.arena import OwnRows
from warpsight.recorder.output import RAW
from warpsight.recorder.ring import definitions
from warpsight.recorder.ring.bound import Bound
from warpsight.recorder.ring.store import RingStore


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each merge of definition files drops texts of single events."""
    seen: list[bool] = []
    monkeypatch.setattr(definitions, "merge", lambda files, *, drop_once: seen.append(drop_once))
    return seen


def store_of(folder: Path, age: float) -> RingStore:
    """A store of one second with two definition files that were closed `age` seconds ago."""
    arena = folder / RAW / "1"
    arena.mkdir(parents=True)
    for number in range(2):
        path = arena / f"definitions-{number}.seg"
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    return RingStore(folder, cast(OwnRows, None), Bound(1.0, 1 << 40))


def test_texts_of_events_that_have_left_the_window_go(tmp_path: Path, dropped: list[bool]) -> None:
    store_of(tmp_path, 100).compact()
    assert dropped == [True]


def test_texts_of_the_window_stay_however_long_the_recording_takes_to_end(
    tmp_path: Path, dropped: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path, 0)
    store.hold()
    wall, passed = time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: wall + 60)
    monkeypatch.setattr(time, "monotonic", lambda: passed + 60)
    store.compact()
    assert True not in dropped
