"""Which part of a block is new: the drainer may write an open block, and later again with more rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.capture.segments.segment import Block

Array = npt.NDArray[Any]


class BlockTracker:
    """Tracks the block numbers of every ring: drops blocks already used, counts missing blocks without a Loss row."""

    def __init__(self, *, anywhere: bool = False) -> None:
        """`anywhere`: a ring's first block here may have any number, because earlier ones have been overwritten."""
        self._anywhere = anywhere
        #: writer → (block number expected next, bytes of it already taken)
        self._next: dict[int, tuple[int, int]] = {}
        self.missing = 0

    def fresh(self, block: Block) -> int | None:
        """Bytes of the payload to skip; None if all of it was used before."""
        expected, taken = self._next.get(block.writer, (block.sequence if self._anywhere else 0, 0))
        committed = len(block.payload)
        if block.sequence < expected or (
            block.sequence == expected and committed <= taken and not block.sealed
        ):
            return None
        skip = taken if block.sequence == expected else 0
        if not block.gap_counted:
            self.missing += block.sequence - expected
        if block.sealed:
            self._next[block.writer] = (block.sequence + 1, 0)
        else:
            self._next[block.writer] = (block.sequence, max(committed, skip))
        return skip if skip < committed else None

    def take_missing(self) -> int:
        """Blocks found missing since the last call."""
        count, self.missing = self.missing, 0
        return count

    def state(self) -> Array:
        """One row per writer: writer, next block, bytes taken."""
        return np.array([(w, n, t) for w, (n, t) in self._next.items()], np.int64).reshape(-1, 3)

    @classmethod
    def restore(cls, state: Array, *, anywhere: bool = False) -> BlockTracker:
        """The tracker that gave `state`."""
        tracker = cls(anywhere=anywhere)
        tracker._next = {w: (n, t) for w, n, t in state.tolist()}
        return tracker
