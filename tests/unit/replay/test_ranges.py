"""`ws.step` and `ws.capture_frame` tell the library in the program where ranges start and end."""

from __future__ import annotations

from typing import Any

import pytest

import warpsight as ws
from warpsight.inside import capsules


class Library:
    """Stands for the injected library: keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes]] = []

    def __getitem__(self, function: str) -> Any:
        return lambda name: self.told.append((function.rpartition("_")[2], name.value))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(capsules, "_library", lambda: made)
    return made


def test_a_frame_ends_where_its_block_ends(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSIGHT_CAPSULE", "folder=x")
    with pytest.raises(ValueError, match="in the frame"), ws.capture_frame():
        raise ValueError("in the frame")
    assert library.told == [("begin", b"warpsight:frame"), ("end", b"warpsight:frame")]


def test_a_step_ends_one_range_and_begins_the_next(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSIGHT_CAPSULE", "folder=x")
    ws.step()
    assert library.told == [("end", b"warpsight:step"), ("begin", b"warpsight:step")]


def test_nothing_is_told_where_nothing_is_cut_out(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPSIGHT_CAPSULE", raising=False)
    ws.step()
    with ws.capture_frame():
        pass
    assert library.told == []
