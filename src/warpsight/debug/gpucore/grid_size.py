"""How many blocks a grid was launched with."""

from __future__ import annotations

import numpy as np

from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.device_code.elf import Array


def launched_blocks(core: GpuCore, block_grid: Array) -> tuple[int | None, ...]:
    """The number of blocks of each row of the grid table.

    Driver 580 writes (1,1,1) as the size of grids of cooperative launches, and cuda-gdb shows the same. A block on the device
    that lies outside this size reveals it.

    Args:
        core: the dump.
        block_grid: row of the grid table for each block, -1 if unknown.

    Returns:
        The blocks of each row; None where the dump does not have the grid's true size.
    """
    sizes = core.table(Kind.GRIDS).rows["grid"].astype(np.int64)
    index = core.table(Kind.BLOCKS).rows["index"].astype(np.int64)
    known = block_grid >= 0
    outside = np.zeros(len(block_grid), bool)
    outside[known] = (index[known] >= sizes[block_grid[known]]).any(axis=1)
    wrong = set(block_grid[outside].tolist())
    return tuple(None if row in wrong else int(size.prod()) for row, size in enumerate(sizes))
