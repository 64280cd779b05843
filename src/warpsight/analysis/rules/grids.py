"""How many blocks kernels were launched with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.model import intervals
from warpsight.model.work import COMMUNICATION, KERNEL, everything, wanted

if TYPE_CHECKING:
    from warpsight.model import StoredTrace
    from warpsight.model.selection import Rows

Column = npt.NDArray[Any]


def blocks(trace: StoredTrace) -> Column:
    """Blocks of each launch shape by id, 0 if not recorded; the last entry means no shape."""
    shapes, _ = trace.columns("shape", {"id": 0, "grid_x": 0, "grid_y": 0, "grid_z": 0})
    out = np.zeros(int(shapes["id"].max(initial=0)) + 2, np.int64)
    out[shapes["id"]] = shapes["grid_x"].astype(np.int64) * shapes["grid_y"] * shapes["grid_z"]
    return out


def kernels(trace: StoredTrace, rows: Rows, window: tuple[int, int], longer: int = -1) -> dict[str, Column]:
    """Kernels that began in a window: `start`, `duration` (ns), `name_id`, `device` (-1: unknown), `blocks` (0: unknown).

    Also `place`, the row of each in all device work. Only kernels longer than `longer` ns count, and no collectives, for
    which few blocks suffice.
    """
    whole = everything(trace)
    work = whole.work
    chosen = np.array([wanted(rows, queue) for queue in work.queues], bool)[work.queue]
    chosen &= (work.kind == KERNEL) & (work.start >= window[0]) & (work.start < window[1])
    if longer >= 0:
        chosen &= work.end - work.start > longer
    places = np.flatnonzero(chosen)
    devices = np.array([-1 if queue.device is None else queue.device for queue in work.queues], np.int64)
    return {
        "place": places,
        "start": work.start[places],
        "duration": work.end[places] - work.start[places],
        "name_id": work.name_id[places],
        "device": devices[work.queue[places]],
        "blocks": blocks(trace)[_shapes(trace)[whole.kernel_rows(places)]],
    }


def _shapes(trace: StoredTrace) -> Column:
    return trace.columns("kernel", {"shape_id": -1})[0]["shape_id"]


def unfilled(trace: StoredTrace, places: Column) -> Column:
    """How long each of some kernels ran while all kernels on its device together had fewer blocks than multiprocessors (ns).

    Arguments:
        trace: The trace.
        places: Those kernels, in all device work.
    """
    whole = everything(trace)
    work = whole.work
    sizes, shapes = blocks(trace), _shapes(trace)
    units = {device: count for device, count in trace.rows("device", "device", "multiprocessors") if count}
    most = max(units.values(), default=0)
    out: Column = work.end[places] - work.start[places]
    for device, index in work.per_device():
        mine = np.flatnonzero(np.isin(work.queue[places], work.devices[device]))
        if not len(mine):
            continue
        limit = units.get(-1 if device is None else device, most)
        running = index[work.kind[index] <= COMMUNICATION]
        size = sizes[shapes[whole.kernel_rows(running)]]
        few = (size > 0) & (size < limit)  # without its blocks recorded, a kernel may fill any device
        small, large = running[few], running[~few]
        filled = intervals.merged(
            intervals.union(work.start[large], work.end[large]),
            _together(work.start[small], work.end[small], size[few], limit),
        )
        out[mine] -= intervals.coverage(filled, work.start[places[mine]], work.end[places[mine]])
    return out


def _together(start: Column, end: Column, size: Column, limit: int) -> intervals.Intervals:
    """When kernels of fewer blocks than `limit` had that many together."""
    moments = np.concatenate([start, end])
    order = np.argsort(moments, kind="stable")
    moments, level = moments[order], np.cumsum(np.concatenate([size, -size])[order])
    full = np.flatnonzero(level[:-1] >= limit)
    return intervals.union(moments[full], moments[full + 1])
