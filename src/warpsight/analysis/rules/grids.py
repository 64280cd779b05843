"""How many blocks kernels were launched with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.model.work import NO_TIME

if TYPE_CHECKING:
    from warpsight.model import Trace
    from warpsight.model.selection import Rows

Column = npt.NDArray[Any]


def blocks(trace: Trace) -> Column:
    """Blocks of each launch shape by its id, 0 where they were not recorded; the last one stands for no shape."""
    shapes, _ = trace.columns("shape", {"id": 0, "grid_x": 0, "grid_y": 0, "grid_z": 0})
    out = np.zeros(int(shapes["id"].max(initial=0)) + 2, np.int64)
    out[shapes["id"]] = shapes["grid_x"].astype(np.int64) * shapes["grid_y"] * shapes["grid_z"]
    return out


def kernels(trace: Trace, rows: Rows, window: tuple[int, int]) -> dict[str, Column]:
    """Kernels that began in a window: `start`, `duration` (ns), `name_id`, `device` (-1: unknown), `blocks` (0: unknown)."""
    numbers = {
        "start": NO_TIME,
        "duration": NO_TIME,
        "process": -1,
        "device": -1,
        "stream": -1,
        "name_id": 0,
        "shape_id": -1,
    }
    columns, _ = trace.columns("kernel", numbers)
    keep = rows.mask(columns) & (columns["start"] >= window[0]) & (columns["start"] < window[1])
    keep &= columns["duration"] != NO_TIME
    shape = columns.pop("shape_id")[keep]
    known = blocks(trace)
    return {name: column[keep] for name, column in columns.items()} | {
        "blocks": known[np.where(shape < 0, -1, shape)]
    }
