"""Grids with blocks missing from the device while all others wait: more blocks in a barrier than fit.

In practice, blocks start in the order of their numbers (x fastest, then y, z), though no document promises it. A missing block
below the highest number on the device has therefore ended. A missing block above it has not started if the device is full; if a
multiprocessor has room for it, it has ended, too. Blocks of clusters start in another order, so they are only known to be
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.explanation import polled_at
from warpsight.debug.gpucore.groups import SourceSite
from warpsight.debug.gpucore.lane_map import LaneMap
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.waiting.graph import WaitGraph
from warpsight.device_code.elf import Array
from warpsight.device_code.flow.polling import counts_in_memory, reads_grid_size

_NAMED = 4
_COOPERATIVE = "A cooperative launch (cudaLaunchCooperativeKernel) refuses a grid that does not fit."


@dataclass(frozen=True)
class MissingBlocks:
    """A grid with blocks missing from the device, while all its present blocks poll memory.

    Attributes:
        grid: row of the grid table.
        blocks: blocks launched, None if the dump does not say; resident: blocks on the device.
        ended, not_started: numbers of the missing blocks; None for grids with clusters, and if the number of blocks is not known.
        some_ended: indices of the first blocks that have ended.
        free: multiprocessors with room for one of the grid's blocks.
        by_name: whether the functions' names say that it is a barrier of the grid.
        by_code: whether the kernel reads the number of blocks and counts with atomics on global memory, as such barriers do.
        count: the polled value, if it counts the blocks that have arrived at such a barrier.
    """

    grid: int
    blocks: int | None
    resident: int
    ended: int | None
    not_started: int | None
    some_ended: tuple[tuple[int, int, int], ...]
    free: int
    by_name: bool
    by_code: bool
    count: int | None

    @property
    def text(self) -> str:
        """The explanation, in sentences."""
        if self.blocks is None:
            return (
                f"{self.resident:,} blocks are on the device, and each of them waits at a barrier of the whole grid. The "
                "dump does not hold the size of a cooperative launch, but such a launch starts all its blocks, so another "
                "block has ended without reaching the barrier."
            )
        are = "block is" if self.blocks == 1 else "blocks are"
        first = f"{self.resident:,} of {self.blocks:,} {are} on the device, and each of them polls memory"
        if self.not_started is None or self.ended is None:
            rest = self.blocks - self.resident
            return f"{first}. The other {rest:,} have ended or have not started; the dump does not say which."
        if self.not_started:
            return f"{first}. {self._not_started()}"
        return f"{first}. {self._ended()}"

    def _not_started(self) -> str:
        several = self.not_started != 1
        other = f"The other {self.not_started:,}" if not self.ended else f"{self.not_started:,} more"
        start = f"{other} cannot start before one of these ends"
        if self.ended:
            start = f"{self._names()}; {start}"
        if self.by_name:
            which = f"which includes {'them' if several else 'it'}"
            return f"{start}, and these wait at a barrier of the whole grid, {which}. {_COOPERATIVE}"
        if self.count is not None:
            included = f"a count that includes {'them' if several else 'it'}"
            return f"{start}, and these wait for {included}: it is at {self.count:,} of {self.blocks or 0:,}. {_COOPERATIVE}"
        if self.by_code:
            return (
                f"{start}, and these seem to wait for a count that includes {'them' if several else 'it'}: the kernel reads the "
                f"number of its blocks and counts with atomics in global memory. {_COOPERATIVE}"
            )
        return f"{start}. If what these poll for comes from a block that has not started, it never comes."

    def _ended(self) -> str:
        several = self.ended != 1
        ended = self._names()
        free = "1 multiprocessor has" if self.free == 1 else f"{self.free:,} multiprocessors have"
        reason = f" ({free} room for more)" if self.free else ""
        if self.count is not None and self.blocks and self.count < self.blocks:
            never = f"without being counted: the count that the others poll is at {self.count:,} of {self.blocks:,}"
            return f"{ended}{reason}, {never}."
        if self.by_name or self.by_code:
            wait = "wait" if self.by_name else "seem to wait"
            came = f"{'they have' if several else 'it has'} not come to"
            return f"{ended}{reason}. The others {wait} at a barrier of the whole grid, which {came}."
        return f"{ended}{reason}."

    def _names(self) -> str:
        """`block (5,1,0) has ended`, at the head of a sentence."""
        named = ", ".join(f"({x},{y},{z})" for x, y, z in self.some_ended)
        if self.ended == 1:
            return f"Block {named} has ended"
        if self.ended == len(self.some_ended):
            return f"Blocks {named} have ended"
        return f"{self.ended:,} blocks have ended, among them {named}"


def missing_blocks(
    lanes: LaneMap, places: Sequence[SourceSite], graph: WaitGraph, code: Code
) -> list[MissingBlocks]:
    """The grids whose present blocks all poll memory while others are missing."""
    found = []
    for grid in range(len(lanes.core.table(Kind.GRIDS))):
        polling = [
            n
            for n, place in enumerate(places)
            if place.grid == grid and place.wait and place.wait.poll and place.wait.poll.space != "shared"
            and place.wait.kind == "memory"
        ]  # fmt: skip
        resident = np.flatnonzero(lanes.block_grid == grid)
        launched = lanes.launched[grid]
        if not polling or not _covers(lanes, polling, resident):
            continue
        by_name = _covers(lanes, [n for n in polling if n in graph.grid_barriers], resident)
        if launched is None and by_name:
            found.append(MissingBlocks(grid, None, len(resident), None, None, (), 0, True, False, None))
        elif launched is not None and len(resident) < launched:
            found.append(_of_grid(lanes, grid, resident, by_name, _Polling(lanes, places, polling, code)))
    return found


def _covers(lanes: LaneMap, places: list[int], blocks: Array) -> bool:
    """Whether each of some blocks has a lane at any of some places."""
    return np.array_equal(np.unique(lanes.block[lanes.at(places)]), blocks)


@dataclass(frozen=True)
class _Polling:
    """The places of a grid that poll memory."""

    lanes: LaneMap
    places: Sequence[SourceSite]
    numbers: list[int]
    code: Code

    def counts_blocks(self) -> bool:
        """Whether the surrounding code reads the grid's size and counts in memory."""
        located = (self.code.locate(self.places[number].address) for number in self.numbers)
        flows = [self.code.flow(location) for location in located if location is not None]
        return any(reads_grid_size(flow) for flow in flows) and any(counts_in_memory(flow) for flow in flows)

    def values(self) -> set[int]:
        """The last value that the first lane of each has read."""
        found = (polled_at(self.lanes, self.places[number]) for number in self.numbers)
        return {one.value for one in found if one is not None and one.value is not None}


def _of_grid(lanes: LaneMap, grid: int, resident: Array, by_name: bool, polling: _Polling) -> MissingBlocks:
    row, blocks = lanes.core.table(Kind.GRIDS).rows[grid], lanes.core.table(Kind.BLOCKS).rows[resident]
    by_code = polling.counts_blocks()
    size = row["grid"].astype(np.int64)
    launched, free = int(size.prod()), _free_multiprocessors(lanes, grid)
    if row["cluster"].any() or blocks["cluster_size"].any():
        return MissingBlocks(grid, launched, len(resident), None, None, (), free, by_name, by_code, None)
    index = blocks["index"].astype(np.int64)
    number = index[:, 0] + size[0] * (index[:, 1] + size[1] * index[:, 2])
    begun = launched if free else int(number.max()) + 1
    gone = np.setdiff1d(np.arange(begun), number)
    first = tuple(
        (int(n % size[0]), int(n // size[0] % size[1]), int(n // (size[0] * size[1]))) for n in gone[:_NAMED]
    )
    arrived = {len(resident), len(resident) + len(gone)} if by_code else set()
    count = max(polling.values() & arrived, default=None)
    return MissingBlocks(
        grid, launched, len(resident), len(gone), launched - begun, first, free, by_name, by_code, count
    )


def _free_multiprocessors(lanes: LaneMap, grid: int) -> int:
    """How many multiprocessors of a grid's device hold fewer of its blocks than another, and none of other grids.

    multiprocessor   blocks of the grid   of others
    0                2                    0           full
    1                1                    0           has room for one
    2                0                    3           not known
    """
    blocks, sms = lanes.core.table(Kind.BLOCKS), lanes.core.table(Kind.SMS)
    device = int(lanes.core.table(Kind.GRIDS).parent[grid])
    mine = np.bincount(blocks.parent[lanes.block_grid == grid], minlength=len(sms))
    others = np.bincount(blocks.parent[lanes.block_grid != grid], minlength=len(sms))
    return int(((sms.parent == device) & (others == 0) & (mine < mine.max(initial=0))).sum())
