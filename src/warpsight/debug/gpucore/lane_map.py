"""Lane positions by warp, block, cluster and grid, ready for questions about missing lanes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpsight.debug.gpucore.grid_size import launched_blocks
from warpsight.debug.gpucore.groups import Lanes, grid_of_blocks
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.device_code.elf import Array

WARP_SIZE = 32


@dataclass(frozen=True)
class LaneMap:
    """The lanes whose block and grid the dump knows.

    Attributes:
        core: the dump.
        row: row of the lane table; place: index of the lane's place; warp, block, grid: rows of their tables; number: number of
            the lane in its warp. All of shape (n,), int64.
    """

    core: GpuCore
    row: Array
    place: Array
    warp: Array
    block: Array
    grid: Array
    number: Array

    @classmethod
    def of(cls, core: GpuCore, joined: Lanes, place_of_lane: Array) -> LaneMap:
        """Build it from the joins of the lane table and each lane's place."""
        row = np.flatnonzero((joined.block >= 0) & (joined.grid >= 0))
        number = core.table(Kind.LANES).rows["lane"][row].astype(np.int64) & (WARP_SIZE - 1)
        return cls(
            core, row, place_of_lane[row], joined.warp[row], joined.block[row], joined.grid[row], number
        )

    @cached_property
    def thread(self) -> Array:
        """The linear number of each lane's thread in its block, shape (n,)."""
        index = self.core.table(Kind.LANES).rows["thread"][self.row].astype(np.int64)
        size = self.core.table(Kind.GRIDS).rows["block"][self.grid].astype(np.int64)
        return index[:, 0] + size[:, 0] * (index[:, 1] + size[:, 1] * index[:, 2])

    @cached_property
    def block_grid(self) -> Array:
        """The grid of each row of the block table, -1 if unknown."""
        return grid_of_blocks(self.core)

    @cached_property
    def launched(self) -> tuple[int | None, ...]:
        """The launched number of blocks of each row of the grid table; None if the dump lacks it."""
        return launched_blocks(self.core, self.block_grid)

    @cached_property
    def block_threads(self) -> Array:
        """How many threads each row of the block table was launched with; 0 if unknown."""
        sizes = self.core.table(Kind.GRIDS).rows["block"].astype(np.int64).prod(axis=1)
        return np.append(sizes, 0)[self.block_grid]

    @cached_property
    def cluster(self) -> Array:
        """The cluster of each row of the block table: blocks of a cluster share a number; without clusters, each has its own."""
        blocks, grids = self.core.table(Kind.BLOCKS).rows, self.core.table(Kind.GRIDS).rows
        of_grid = np.vstack([grids["cluster"].astype(np.int64), np.zeros((1, 3), np.int64)])[self.block_grid]
        known = (blocks["cluster_size"] > 0).any(axis=1, keepdims=True)
        size = np.where(known, blocks["cluster_size"], of_grid)
        index = blocks["index"].astype(np.int64) // np.maximum(size, 1)
        keys = np.column_stack([self.block_grid, index])
        return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)

    def at(self, places: list[int]) -> Array:
        """Lanes at one of some places, shape (n,), bool."""
        return np.isin(self.place, places)

    def warps_of_blocks(self, lanes: Array) -> Array:
        """The number of warps, per row of the block table, that contain a chosen lane (mask)."""
        pairs = np.unique(np.column_stack([self.block[lanes], self.warp[lanes]]), axis=0)
        return np.bincount(pairs[:, 0], minlength=len(self.core.table(Kind.BLOCKS)))

    def lanes_of_blocks(self) -> Array:
        """How many lanes each row of the block table has left."""
        return np.bincount(self.block, minlength=len(self.core.table(Kind.BLOCKS)))

    def sharing(self, groups: Array, lanes: Array) -> Array:
        """Lanes that share a group (a number per lane) with a chosen lane (mask), shape (n,), bool."""
        return np.isin(groups, np.unique(groups[lanes]))
