"""When a device worked, on which kind of work, and when it was idle.

Every instant belongs to one row at most in each of three tiers: kernels first, then collectives, then copies and fills. Rows of
one tier that run at the same time share the instant equally, so the rows' own times add up to the time of their tier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.classes import COMMUNICATION, COMPUTE, COPY
from warpsight.model import intervals
from warpsight.model.intervals import Intervals

Column = NDArray[Any]
#: Tier of each kind of device work (:data:`warpsight.model.work.KINDS`).
TIER = np.array([COMPUTE, COMMUNICATION, COPY, COPY], np.int8)


@dataclass(frozen=True)
class Busy:
    """One device's work, in ns.

    Attributes:
        own: Each row's share of the instants that belong to its tier.
        total: Time of each tier: compute, communication, copy.
        begin: Start of the first work that has a length.
        end: End of the last.
        idle_begin: Start of each stretch without any work between them.
        idle_end: Its end.
        next: The row that begins there, of those given to :func:`busy`.
        exposed: For each row that is no kernel, in their order, the time in which no kernel ran.
    """

    own: Column
    total: tuple[int, int, int]
    begin: int
    end: int
    idle_begin: Column
    idle_end: Column
    next: Column
    exposed: Column

    @property
    def span(self) -> int:
        """Time from the start of the first work to the end of the last, ns; zero-length work is ignored."""
        return self.end - self.begin

    @property
    def covered(self) -> Intervals:
        """The moments with any work."""
        if self.end <= self.begin:
            return intervals.EMPTY
        return Intervals(np.append(self.begin, self.idle_end), np.append(self.idle_begin, self.end))


def busy(start: Column, end: Column, kind: Column) -> Busy:
    """The busy and idle time of rows sorted by `start`; `kind` indexes :data:`warpsight.model.work.KINDS`."""
    if not bool((end >= start).all()):
        end = np.maximum(end, start)
    own = np.zeros(len(start))
    covered = [0]  # by the tiers so far
    higher = kernels = intervals.EMPTY
    tier = TIER[kind]
    exposed = np.zeros(np.count_nonzero(tier), np.int64)
    done = 0
    first_of: Column | None = None  # the first row of each busy stretch
    for number in range(3):
        rows = np.flatnonzero(tier == number)
        done += len(rows)
        if len(rows):
            begin, stop = (start, end) if len(rows) == len(start) else (start[rows], end[rows])
            hidden = None
            if number:
                hidden = intervals.coverage(kernels, begin, stop)
                exposed[tier[tier > 0] == number] = stop - begin - hidden
            if len(higher) and higher is not kernels:
                hidden = intervals.coverage(higher, begin, stop)
            own[rows] = _own(begin, stop, higher, hidden)
            if done == len(start):  # the rows are sorted, so their union needs no sort of its own
                if bool((end > start).all()):
                    higher, first_of = intervals.joined(start, end)
                else:
                    higher = intervals.union(start, end)
            else:
                mine = intervals.union(begin, stop)
                higher = intervals.merged(higher, mine) if len(higher) else mine
            if not number:
                kernels = higher
        covered.append(higher.total)
    total = np.diff(covered).tolist()
    following = np.searchsorted(start, higher.start[1:], "left") if first_of is None else first_of[1:]
    following = following.astype(np.int32) if len(start) < 1 << 31 else following
    first, final = (int(higher.start[0]), int(higher.end[-1])) if len(higher) else (0, 0)
    return Busy(
        own,
        (total[0], total[1], total[2]),
        first,
        final,
        higher.end[:-1],
        higher.start[1:],
        following,
        exposed,
    )


def _own(start: Column, end: Column, higher: Intervals, hidden: Column | None) -> Column:
    """Each row's share of the time not claimed by a higher tier; rows that run at the same time share it equally.

    `hidden` is the time of each row that the higher tiers cover, None: there are none.
    """
    own = np.empty(len(start))
    np.subtract(end, start, out=own, casting="unsafe")
    if not len(start):
        return own
    first = np.ones(len(start), bool)  # begins once everything before it has ended
    np.greater_equal(start[1:], intervals.reach(end)[:-1], out=first[1:])
    alone = first & np.append(first[1:], True)
    if hidden is not None:
        own -= hidden
    together = np.flatnonzero(~alone)
    if len(together):
        own[together] = _shared(start[together], end[together], higher)
    return own


def _shared(start: Column, end: Column, higher: Intervals) -> Column:
    """Own time of rows that overlap each other.

    Between two neighboring moments at which one of them begins or ends, the time that no higher tier has is divided by the
    number of rows that run; `done` is how much a row that ran from the beginning would have got by each moment.
    """
    count = len(start)
    moments = np.concatenate([start, end])
    order = np.argsort(moments, kind="stable")
    place = np.empty(2 * count, np.int64)
    place[order] = np.arange(2 * count)
    moments = moments[order]
    free = np.diff(moments, append=moments[-1])
    if len(higher):
        # Nothing runs after the last moment, so free capacity there does not count.
        free = free - np.diff(intervals.measure(higher, moments), append=0)
    depth = np.cumsum(np.where(order < count, 1, -1))
    share = np.where(depth > 0, free / np.maximum(depth, 1), 0.0)
    done = np.concatenate([np.zeros(1), np.cumsum(share)])
    out: Column = done[place[count:]] - done[place[:count]]
    return out


def whole(own: Column, total: int) -> Column:
    """Round the times of groups to whole nanoseconds that add up to `total` exactly: the largest group absorbs the difference."""
    out = np.rint(own).astype(np.int64)
    if len(out):
        out[int(np.argmax(out))] += total - int(out.sum())
    return out
