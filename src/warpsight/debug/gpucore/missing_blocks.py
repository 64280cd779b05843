"""Grids of which not all blocks are on the device, while those that are wait: barriers of more blocks than fit.

Blocks are given to the device in the order of their numbers (x fastest, then y, z), as far as anybody has seen; no document
promises it. So a block that is missing below the highest number on the device has ended, and those above have not started.
Blocks of clusters come in another order: of those it is only known that they are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.groups import Place
from warpsight.debug.gpucore.lane_map import LaneMap
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.wait_graph import WaitGraph
from warpsight.device_code.polling import counts_in_memory, reads_grid_size

_NAMED = 4


@dataclass(frozen=True)
class MissingBlocks:
    """A grid with blocks that are not on the device, while all that are poll memory.

    Attributes:
        grid: row of the grid table.
        blocks: launched; resident: on the device.
        ended, not_started: the others, by the order of their numbers; None for grids with clusters.
        some_ended: indices of the first blocks that have ended.
        by_name: whether the functions' names say that it is a barrier of the grid.
        by_code: whether the kernel reads the number of blocks and counts with atomics on global memory, as such barriers do.
    """

    grid: int
    blocks: int
    resident: int
    ended: int | None
    not_started: int | None
    some_ended: tuple[tuple[int, int, int], ...]
    by_name: bool
    by_code: bool

    @property
    def text(self) -> str:
        """What it means, in sentences."""
        first = (
            f"{self.resident:,} of {self.blocks:,} blocks are on the device, and each of them polls memory"
        )
        rest = self.blocks - self.resident
        if self.not_started is None:
            return (
                f"{first}. The other {rest:,} have ended or have not started; which, the dump does not say."
            )
        named = ", ".join(f"({x},{y},{z})" for x, y, z in self.some_ended)
        ended = f"{self.ended:,} {'has' if self.ended == 1 else 'have'} ended" if self.ended else ""
        if ended and self.ended == len(self.some_ended):
            ended += f": {named}"
        if not self.not_started:
            return f"{first}. By the order of block numbers, {ended}."
        also = f"; {ended}" if ended else ""
        have = "1 has" if self.not_started == 1 else f"{self.not_started:,} have"
        start = f"{first}. By the order of block numbers, {have} not started, and cannot before one of these ends{also}."
        if self.by_name:
            return f"{start} They wait at a barrier of the whole grid, which includes the blocks that have not started."
        if self.by_code:
            return (
                f"{start} The kernel reads the number of its blocks and counts with atomics in global memory: if that is a "
                "barrier of the whole grid, it waits for blocks that cannot start. A cooperative launch "
                "(cudaLaunchCooperativeKernel) refuses a grid that does not fit."
            )
        return f"{start} If what they poll for comes from a block that has not started, it never comes."


def missing_blocks(
    lanes: LaneMap, places: Sequence[Place], graph: WaitGraph, code: Code
) -> list[MissingBlocks]:
    """The grids whose blocks on the device all poll memory while others are missing."""
    found = []
    for grid in range(len(lanes.core.table(Kind.GRIDS))):
        polling = [
            n
            for n, place in enumerate(places)
            if place.grid == grid and place.wait and place.wait.poll and place.wait.poll.space != "shared"
            and place.wait.kind == "memory"
        ]  # fmt: skip
        resident = np.flatnonzero(lanes.block_grid == grid)
        if polling and set(np.unique(lanes.block[lanes.at(polling)]).tolist()) == set(resident.tolist()):
            by_name = any(n in graph.grid_barriers for n in polling)
            one = _of_grid(lanes, grid, resident.tolist(), by_name, _counts_blocks(code, places, polling))
            found += [one] if one.resident < one.blocks else []
    return found


def _of_grid(lanes: LaneMap, grid: int, resident: list[int], by_name: bool, by_code: bool) -> MissingBlocks:
    row, blocks = lanes.core.table(Kind.GRIDS).rows[grid], lanes.core.table(Kind.BLOCKS).rows[resident]
    size = row["grid"].astype(np.int64)
    launched = int(size.prod())
    if row["cluster"].any() or blocks["cluster_size"].any():
        return MissingBlocks(grid, launched, len(resident), None, None, (), by_name, by_code)
    index = blocks["index"].astype(np.int64)
    number = index[:, 0] + size[0] * (index[:, 1] + size[1] * index[:, 2])
    highest = int(number.max())
    gone = np.setdiff1d(np.arange(highest), number)
    first = tuple(
        (int(n % size[0]), int(n // size[0] % size[1]), int(n // (size[0] * size[1]))) for n in gone[:_NAMED]
    )
    return MissingBlocks(
        grid, launched, len(resident), len(gone), launched - 1 - highest, first, by_name, by_code
    )


def _counts_blocks(code: Code, places: Sequence[Place], polling: list[int]) -> bool:
    """Whether the code around some places reads the grid's size and counts in memory."""
    locations = [location for n in polling if (location := code.locate(places[n].address)) is not None]
    flows = [code.flow(location) for location in locations]
    return any(reads_grid_size(flow) for flow in flows) and any(counts_in_memory(flow) for flow in flows)
