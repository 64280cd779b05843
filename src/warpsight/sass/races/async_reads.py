"""Shared memory read by the async proxy: bulk copies out of it, and warpgroup matrix products.

It sees stores of other instructions only after a `fence.proxy.async`, which is not an event of the Sanitizer and is found in the
code. A matrix product reads until its warp has waited for its group, so it is checked twice: where it begins, and where that wait
ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.events.kinds import BY_NAME
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedLaunch

Array = npt.NDArray[Any]
_COPIES = [
    BY_NAME[name].number for name in ("bulk_store", "bulk_reduce", "bulk_shared", "bulk_reduce_shared")
]
_PRODUCT, _WAIT = BY_NAME["wgmma"].number, BY_NAME["wgmma_wait"].number
_BLOCK_BYTES = 16


@dataclass(frozen=True)
class AsyncReads:
    """Ranges of shared memory that are read.

    Attributes:
        event: row of the launch's events at which the range is read; instruction: row of the reading instruction.
        lane: the first lane that took part. begin, bytes: the range, in the block's own shared memory.
        over: row of the wait for a product, which is `event` at its end; the number of events if nothing waits for it; -1 for
            copies.
    """

    event: Array
    instruction: Array
    lane: Array
    begin: Array
    bytes: Array
    over: Array


def async_reads(trace: EventTrace, launch: TracedLaunch, events: Events) -> AsyncReads:
    """The ranges that a launch's copies and products read."""
    low = np.uint64(0xFFFFFFFF)
    a, b = events.first_operand(0), events.first_operand(1)
    copies = np.flatnonzero(np.isin(events.kind, _COPIES))
    products = np.flatnonzero(events.kind == _PRODUCT)
    over = _waited_for(trace, launch, events, products)
    waited = over < len(events)
    none = np.full(len(copies), -1)
    rows = [
        (
            copies,
            copies,
            b[copies] & low,
            (b[copies] >> np.uint64(32) & np.uint64(0xFFFF)) * np.uint64(_BLOCK_BYTES),
            none,
        )
    ]
    for matrix in (a[products], b[products]):
        begin, size = matrix & low, matrix >> np.uint64(32)
        rows.append((products, products, begin, size, over))
        rows.append((over[waited], products[waited], begin[waited], size[waited], over[waited]))
    event, instruction, begin, size, over = (np.concatenate(column) for column in zip(*rows, strict=True))
    lane = np.argmax(events.take(instruction).active, axis=1)
    return AsyncReads(
        event, instruction, lane, begin.astype(np.int64) & 0xFFFFFF, size.astype(np.int64), over
    )


def _waited_for(trace: EventTrace, launch: TracedLaunch, events: Events, products: Array) -> Array:
    """The wait after which each product is complete; the number of events if there is none."""
    found = np.full(len(products), len(events))
    waits = np.flatnonzero(events.kind == _WAIT)
    if not len(products) or not len(waits):
        return found
    pcs, inverse = np.unique(events.pc[products], return_inverse=True)
    ends = np.array(["gsb0" in trace.sass(place) for place in trace.places(launch, pcs)])
    ends = ends[inverse] if ends.any() else np.ones(len(products), bool)
    warp = events.block.astype(np.int64) * launch.warps + events.warp
    for one in np.unique(warp[products]):
        own, waiting = np.flatnonzero(warp[products] == one), waits[warp[waits] == one]
        last = np.cumsum(ends[own])
        group = last - ends[own]  # number of the group that a product belongs to
        committed = np.concatenate([[0], last])[np.searchsorted(products[own], waiting)]
        done = np.maximum.accumulate(committed - events.first_operand(0)[waiting].astype(np.int64))
        place = np.maximum(np.searchsorted(done, group, "right"), np.searchsorted(waiting, products[own]))
        found[own] = np.append(waiting, len(events))[place]
    return found
