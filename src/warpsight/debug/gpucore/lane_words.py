"""Lanes in words: `warp 3 of each of the 4 blocks`, `lane 0 of warp 0 of block (2,0,0)`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpsight.debug.gpucore.lane_map import WARP_SIZE, LaneMap
from warpsight.debug.gpucore.layout import Kind
from warpsight.device_code.elf import Array

#: Maximum warps and lanes that are named individually; more are counted.
_NAMED = 4


@dataclass(frozen=True)
class Subject:
    """Lanes as the subject of a sentence.

    Attributes:
        text: in words; plural: whether the verb is plural.
    """

    text: str
    plural: bool

    def verb(self, one: str, several: str) -> str:
        """The verb, singular or plural like the subject."""
        return several if self.plural else one


def subject(lanes: LaneMap, mine: Array) -> Subject:
    """Lanes of one grid in words.

    Args:
        lanes: all lanes of the dump.
        mine: which of them to describe, shape (n,), bool; at least one.
    """
    threads = np.unique(lanes.thread[mine])
    blocks = np.unique(lanes.block[mine])
    total = int(mine.sum())
    if len(threads) * len(blocks) != total:  # the blocks differ in which of their lanes these are
        warps = len(np.unique(lanes.warp[mine]))
        of = f" ({warps:,} warps)" if warps != total else ""
        return Subject(f"{total:,} lanes{of}{_blocks(lanes, mine, blocks)}", True)
    text, plural = _threads(lanes, threads, blocks)
    return Subject(text + _blocks(lanes, mine, blocks), plural)


def _threads(lanes: LaneMap, threads: Array, blocks: Array) -> tuple[str, bool]:
    """Threads that are the same in every block: by warp and lane."""
    warps = np.unique(threads // WARP_SIZE)
    alive = np.unique(lanes.thread[np.isin(lanes.block, blocks)])
    of_warps = alive[np.isin(alive // WARP_SIZE, warps)]
    named = _numbers("warp", warps.tolist())
    if len(of_warps) == len(threads):
        if len(threads) == len(alive) and len(warps) > 1:
            return "both warps" if len(warps) == 2 else f"all {len(warps)} warps", True
        return named, len(warps) > 1
    numbers = np.unique(threads % WARP_SIZE)
    if len(numbers) * len(warps) == len(threads) and len(numbers) <= _NAMED:
        return f"{_numbers('lane', numbers.tolist())} of {named}", len(numbers) > 1
    return f"{len(threads)} lanes of {named}", True


def _numbers(noun: str, values: list[int]) -> str:
    """`warp 3`, `warps 1 to 5`, `warps 0, 2 and 5`, `12 warps`."""
    if len(values) == 1:
        return f"{noun} {values[0]}"
    if values[-1] - values[0] == len(values) - 1:
        joint = " and " if len(values) == 2 else " to "
        return f"{noun}s {values[0]}{joint}{values[-1]}"
    if len(values) <= _NAMED:
        return f"{noun}s {', '.join(map(str, values[:-1]))} and {values[-1]}"
    return f"{len(values)} {noun}s"


def _blocks(lanes: LaneMap, mine: Array, blocks: Array) -> str:
    """Which blocks; empty for a grid of one block."""
    grid = int(lanes.grid[mine][0])
    launched = lanes.launched[grid]
    present = int((lanes.block_grid == grid).sum())
    if launched == 1:
        return ""
    if len(blocks) == 1:
        return f" of {block_name(lanes, int(blocks[0]))}"
    if len(blocks) < present:
        return f" of {len(blocks):,} of {present:,} blocks"
    return f" of each of the {present:,} blocks" + (" on the device" if present != launched else "")


def block_name(lanes: LaneMap, block: int) -> str:
    """A row of the block table in words: `block (2,0,0)`."""
    index = lanes.core.table(Kind.BLOCKS).rows["index"][block].tolist()
    return f"block ({','.join(map(str, index))})"
