"""Every byte of a ring's blocks is taken once, however often and in whatever pieces the blocks are written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.capture.segments.blocks import BlockTracker
from warpsight.capture.segments.segment import Block

#: Ring, number of the block, bytes written so far, whether that is all, whether the recorder counts what is missing before it.
WRITTEN = st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 4), st.booleans(), st.booleans())


def block(writer: int, sequence: int, size: int, sealed: bool, counted: bool = False) -> Block:
    return Block(1, 1, 1, 0, sequence, 0, writer, 0, 1, sealed, counted, 0, np.zeros(size, np.uint8))


@given(st.lists(WRITTEN, max_size=14), st.integers(0, 14))
def test_blocks_are_taken_as_a_list_of_bytes_says(
    written: list[tuple[int, int, int, bool, bool]], restart: int
) -> None:
    tracker, missing, told = BlockTracker(), 0, 0
    current: dict[int, int] = {}  # the block of each ring that may still grow
    taken: dict[tuple[int, int], int] = {}
    for number, (writer, sequence, size, sealed, counted) in enumerate(written):
        if number == restart:  # another process goes on
            told += tracker.take_missing()
            tracker = BlockTracker.restore(tracker.state())
        expected = current.get(writer, 0)
        known = taken.get((writer, sequence), 0)
        found = tracker.fresh(block(writer, sequence, size, sealed, counted))
        assert found == (known if sequence >= expected and size > known else None)
        if sequence < expected:
            continue
        if sequence > expected and not counted:
            missing += sequence - expected
        current[writer] = sequence + sealed
        taken[writer, sequence] = max(size, known)
    assert told + tracker.take_missing() == missing
    assert tracker.take_missing() == 0


@pytest.mark.parametrize(("anywhere", "missing"), [(False, 5), (True, 0)])
def test_a_window_of_a_ring_begins_anywhere(anywhere: bool, missing: int) -> None:
    tracker = BlockTracker(anywhere=anywhere)
    assert tracker.fresh(block(3, 5, 8, True)) == 0
    assert tracker.missing == missing
    assert tracker.fresh(block(3, 7, 8, True)) == 0
    assert tracker.missing == missing + 1
