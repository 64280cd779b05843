"""When a device worked, on what, and when it did nothing.

Every instant belongs to one row at most in each of three tiers: kernels first, then collectives, then copies and fills. Rows of
one tier that run at the same time share the instant equally, so the rows' own times add up to the time of their tier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.classes import COMMUNICATION, COMPUTE, COPY
from warpsight.model import work as device_work

Column = NDArray[Any]
#: Tier of each kind of device work (:data:`warpsight.model.work.KINDS`).
TIER = np.array([COMPUTE, COMMUNICATION, COPY, COPY], np.int8)


@dataclass(frozen=True)
class Busy:
    """One device's work, in ns.

    Attributes:
        own: Each row's share of the instants that belong to its tier.
        total: Time of each tier: compute, communication, copy.
        idle_begin: Begin of each stretch without any work between the first and the last.
        idle_end: Its end.
        next: The row that begins there.
    """

    own: Column
    total: tuple[int, int, int]
    idle_begin: Column
    idle_end: Column
    next: Column


def busy(start: Column, end: Column, kind: Column) -> Busy:
    """The busy and idle time of rows sorted by `start`; `kind` indexes :data:`warpsight.model.work.KINDS`."""
    end = np.maximum(end, start)
    tier = TIER[kind]
    reach = np.maximum.accumulate(end) if len(end) else end
    # A row that begins when all before it have ended starts a cluster; clusters of one row have the instant to themselves.
    first = np.ones(len(start), bool)
    np.greater_equal(start[1:], reach[:-1], out=first[1:])
    own = (end - start).astype(float)
    total = np.zeros(3, np.int64)
    alone = first & np.append(first[1:], True)
    for number in range(3):
        chosen = alone & (tier == number)
        total[number] = int((end - start)[chosen].sum())
    shared = np.flatnonzero(~alone)
    if len(shared):
        own[shared], more = _shared(start[shared], end[shared], tier[shared])
        total += more
    gap = np.flatnonzero(first)[1:] if len(first) else np.zeros(0, np.int64)
    gap = gap[start[gap] > reach[gap - 1]]
    return Busy(own, (int(total[0]), int(total[1]), int(total[2])), reach[gap - 1], start[gap], gap)


def _shared(start: Column, end: Column, tier: Column) -> tuple[Column, Column]:
    """Own time of rows that overlap, and the exact time of each tier.

    Between two neighboring moments at which anything begins or ends, the highest tier that runs has the time, divided by the
    number of its rows; `done[t]` is how much of it a row of tier t that ran from the beginning would have got by then.
    """
    count = len(start)
    origin = int(start[0])
    moments = np.concatenate([start, end]) - origin
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    place = np.empty(2 * count, np.int64)
    place[order] = np.arange(2 * count)
    length = np.diff(moments, append=moments[-1])
    own, total = np.zeros(count), np.zeros(3, np.int64)
    free = np.ones(2 * count, bool)  # no higher tier runs from this moment on
    for number in range(3):
        mine = tier == number
        if not mine.any():
            continue
        step = np.zeros(2 * count, np.int64)
        step[place[:count][mine]] = 1
        step[place[count:][mine]] = -1
        depth = np.cumsum(step)
        runs = free & (depth > 0)
        total[number] = int(length[runs].sum())
        share = np.where(runs, length / np.maximum(depth, 1), 0.0)
        done = np.concatenate([np.zeros(1), np.cumsum(share)])
        own[mine] = done[place[count:][mine]] - done[place[:count][mine]]
        free &= depth == 0
    return own, total


def by_group(group: Column, own: Column, total: int, groups: int) -> Column:
    """Whole nanoseconds of each group; they add up to `total` exactly, the largest group takes what rounding left."""
    if not groups:
        return np.zeros(0, np.int64)
    if len(own) and float(own.max()) * len(own) < 1 << 52 and (own == np.rint(own)).all():
        out = device_work.summed(group, own.astype(np.int64), groups)
    else:
        out = np.rint(np.bincount(group, weights=own, minlength=groups)).astype(np.int64)
    out[int(np.argmax(out))] += total - int(out.sum())
    return out
