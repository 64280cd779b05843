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


def _alone(work: Work, places: Column) -> Column:
    """How long each of some kernels was the only one on its device (ns)."""
    out: Column = work.end[places] - work.start[places]
    for _, index in work.per_device():
        running = index[work.kind[index] <= COMMUNICATION]
        time, level = intervals.depth(work.start[running], work.end[running])
        shared = np.flatnonzero(level[:-1] > 1)
        together = intervals.union(time[shared], time[shared + 1])
        mine = np.flatnonzero(np.isin(places, running))
        out[mine] -= intervals.coverage(together, work.start[places[mine]], work.end[places[mine]])
    return out


def kernels(trace: StoredTrace, rows: Rows, window: tuple[int, int], longer: int = -1) -> dict[str, Column]:
    """Kernels that began in a window: `start`, `duration` (ns), `name_id`, `device` (-1: unknown), `blocks` (0: unknown).

    And `alone`, the part of the duration (ns) in which no other kernel or collective ran on the device: what has company leaves
    no multiprocessors idle. Only those that took longer than `longer` ns, and no collectives: few blocks suffice for those,
    whatever the device.
    """
    whole = everything(trace)
    work = whole.work
    chosen = np.array([wanted(rows, queue) for queue in work.queues], bool)[work.queue]
    chosen &= (work.kind == KERNEL) & (work.start >= window[0]) & (work.start < window[1])
    if longer >= 0:
        chosen &= work.end - work.start > longer
    places = np.flatnonzero(chosen)
    shape = trace.columns("kernel", {"shape_id": -1})[0]["shape_id"][whole.kernel_rows(places)]
    devices = np.array([-1 if queue.device is None else queue.device for queue in work.queues], np.int64)
    return {
        "alone": _alone(work, places),
        "start": work.start[places],
        "duration": work.end[places] - work.start[places],
        "name_id": work.name_id[places],
        "device": devices[work.queue[places]],
        "blocks": blocks(trace)[np.where(shape < 0, -1, shape)],
    }
