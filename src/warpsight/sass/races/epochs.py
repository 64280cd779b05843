"""The order established by barriers of whole blocks and whole warps: a count for each thread.

Two threads of a block that have both passed `n` barriers of the whole block are between the same two barriers. In this example

    thread 0   store (0)   barrier   load (1)   barrier
    thread 7               barrier   store (1)  barrier

the first store is before the second (0 < 1), but the load is not (1 = 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.events.kinds import BY_NAME
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import TracedLaunch
from warpsight.sass.races.accesses import Accesses

Array = npt.NDArray[Any]
BARRIER = BY_NAME["barrier"].number
_SYNCWARP = BY_NAME["syncwarp"].number


def whole_block(launch: TracedLaunch, events: Events) -> Array:
    """Which events are arrivals at a barrier that all threads of the block wait at.

    If the instruction gives the number of threads, some may only arrive (`bar.arrive`), which the Sanitizer does not report. Such
    a barrier counts as the whole block's if all warps wait there equally often, and is otherwise left to the clocks.
    """
    threads, index = events.first_operand(1), events.first_operand(0)
    arrives = events.kind == BARRIER
    warp = events.block.astype(np.int64) * launch.warps + events.warp
    one_way = []
    for barrier in np.unique(index[arrives & (threads != 0)]).tolist():
        rows = arrives & (index == barrier)
        blocks = len(np.unique(events.block[rows]))
        times = np.unique(warp[rows], return_counts=True)[1]
        if len(times) != blocks * launch.warps or len(np.unique(times)) != 1:
            one_way.append(barrier)
    whole = arrives & ((threads == 0) | (threads == np.uint64(launch.warps * 32)))
    return np.asarray(whole & ~np.isin(index, np.array(one_way, np.uint64)))


def epochs(launch: TracedLaunch, events: Events, found: Accesses) -> tuple[Array, Array]:
    """The number of block barriers, warp barriers and syncwarps that each access's thread has passed."""
    of_block = whole_block(launch, events)
    of_warp = of_block | (events.kind == _SYNCWARP) | (events.kind == BARRIER)
    return _passed(launch, events, found, of_block), _passed(launch, events, found, of_warp)


def _passed(launch: TracedLaunch, events: Events, found: Accesses, which: Array) -> Array:
    """How many of the events `which` each access's own thread took part in before it."""
    rows = np.flatnonzero(which)
    if not len(rows):
        return np.zeros(len(found), np.int64)
    chosen = events.take(rows)
    at, lane = np.nonzero(chosen.active)
    width = launch.warps * 32
    thread = chosen.block[at].astype(np.int64) * width + chosen.warp[at].astype(np.int64) * 32 + lane
    own = found.block * width + found.thread
    # One ascending key of thread and time for both; an access counts the arrivals of its thread below its own key.
    span = len(events) + 1
    arrivals = np.sort(thread * span + rows[at])
    before = np.searchsorted(arrivals, own * span + found.event)
    begin = np.searchsorted(arrivals, own * span)
    return np.asarray(before - begin, np.int64)
