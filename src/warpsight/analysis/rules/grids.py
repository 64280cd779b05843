"""How many blocks kernels were launched with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.model import intervals
from warpsight.model.work import COMMUNICATION, KERNEL, Work, everything, wanted

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


def _unfilled(work: Work, places: Column, running: Column, sizes: Column, units: dict[int, int]) -> Column:
    """How long each of some kernels ran while all kernels on its device together had fewer blocks than multiprocessors (ns).

    Arguments:
        work: What ran.
        places: Those kernels, in `work`.
        running: All kernels and collectives, in `work`.
        sizes: The blocks of each of `running`; 0, not recorded, may fill any device.
        units: Multiprocessors by device.
    """
    out: Column = work.end[places] - work.start[places]
    most = max(units.values(), default=0)
    for device, index in work.per_device():
        at = np.flatnonzero(np.isin(running, index))
        change = np.where(sizes[at] > 0, sizes[at], most)
        moments = np.concatenate([work.start[running[at]], work.end[running[at]]])
        order = np.argsort(moments, kind="stable")
        moments, level = moments[order], np.cumsum(np.concatenate([change, -change])[order])
        full = np.flatnonzero(level[:-1] >= units.get(-1 if device is None else device, most))
        filled = intervals.union(moments[full], moments[full + 1])
        mine = np.flatnonzero(np.isin(places, index))
        out[mine] -= intervals.coverage(filled, work.start[places[mine]], work.end[places[mine]])
    return out


def kernels(trace: StoredTrace, rows: Rows, window: tuple[int, int], longer: int = -1) -> dict[str, Column]:
    """Kernels that began in a window: `start`, `duration` (ns), `name_id`, `device` (-1: unknown), `blocks` (0: unknown).

    Also `unfilled`, the part of the duration (ns) in which the kernel and concurrent kernels had fewer blocks than the device has
    multiprocessors. Only kernels longer than `longer` ns count, and no collectives, for which few blocks suffice.
    """
    whole = everything(trace)
    work = whole.work
    chosen = np.array([wanted(rows, queue) for queue in work.queues], bool)[work.queue]
    chosen &= (work.kind == KERNEL) & (work.start >= window[0]) & (work.start < window[1])
    if longer >= 0:
        chosen &= work.end - work.start > longer
    places = np.flatnonzero(chosen)
    shapes, sizes = trace.columns("kernel", {"shape_id": -1})[0]["shape_id"], blocks(trace)
    running = np.flatnonzero(work.kind <= COMMUNICATION)
    units = {device: count for device, count in trace.rows("device", "device", "multiprocessors") if count}
    devices = np.array([-1 if queue.device is None else queue.device for queue in work.queues], np.int64)
    return {
        "unfilled": _unfilled(work, places, running, sizes[shapes[whole.kernel_rows(running)]], units),
        "start": work.start[places],
        "duration": work.end[places] - work.start[places],
        "name_id": work.name_id[places],
        "device": devices[work.queue[places]],
        "blocks": sizes[shapes[whole.kernel_rows(places)]],
    }
