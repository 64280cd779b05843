"""Who waits for whom: each collective's time split into waiting for the last rank and moving bytes.

    rank 0   |-- compute --|====== all-reduce: waits ======|~~ moves ~~|
    rank 1   |-------------------- compute ----------------|~~ moves ~~|
                                                           last entry  first end

Waiting costs only the time in which nothing else runs on the waiting device: the part that the account of that stretch counts as
communication.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.classes import COMMUNICATION
from warpsight.cluster.job import Job
from warpsight.cluster.matching import MEETINGS, POINT_TO_POINT, Communicator
from warpsight.cluster.summary import edges_of
from warpsight.model.work import summed

Column = NDArray[Any]
#: Operations paired by position are mismatched if this share of them, and this many, end on one rank this long (ns) before
#: another begins.
_ASTRAY, _FEWEST_ASTRAY, _BEFORE = 0.2, 2, 1_000_000


@dataclass(frozen=True)
class GroupOperations:
    """One group's operations that at least two ranks recorded, as arrays by operation and rank (ns, reference clock).

    Attributes:
        rows: The operations, as rows of the group.
        last: Column of the rank that entered last.
        entry: When it entered.
        wait: How long each rank waited for it.
        exposed: The part of that in which its device did nothing else.
        transfer: From the last entry to the first end, one value per operation.
        end: When the first rank left.
        paired: Which are sends and receives, whose waiting is a pipeline's.
        astray: How many operations a rank left before the last one entered, which these operations do not allow. If there are
            many, the recordings are incomplete and the match is wrong, so no waiting is known.
    """

    group: Communicator
    rows: Column
    last: Column
    entry: Column
    wait: Column
    exposed: Column
    transfer: Column
    end: Column
    paired: Column
    astray: int = 0

    @property
    def cost(self) -> Column:
        """Time that the typical other rank waited for the last one, per operation, ns."""
        if not len(self.rows):
            return np.zeros(0)
        others = self.exposed.astype(float)
        others[self.group.row[self.rows] < 0] = np.nan
        others[np.arange(len(self.rows)), self.last] = np.nan
        return np.asarray(np.nanmedian(others, axis=1))


class Waiting:
    """The waiting of a job, computed on first use."""

    def __init__(self, job: Job) -> None:
        """Keep the job; nothing is computed yet."""
        self.job = job

    @cached_property
    def groups(self) -> list[GroupOperations]:
        """Every group's operations."""
        return [self._of(group) for group in self.job.groups]

    def _of(self, group: Communicator) -> GroupOperations:
        there = group.row >= 0
        rows = np.flatnonzero(there.sum(1) > 1)
        start, end, there = (
            self.job.times(group, "start")[rows],
            self.job.times(group, "end")[rows],
            there[rows],
        )
        lowest = np.iinfo(np.int64).min
        entered = np.where(there, start, lowest)
        last = entered.argmax(1) if len(rows) else np.zeros(0, np.int64)
        entry = entered.max(1, initial=lowest)
        first_end = np.where(there, end, np.iinfo(np.int64).max).min(1, initial=np.iinfo(np.int64).max)
        transfer = np.maximum(first_end - entry, 0)
        # Clocks are known only within an error: a wait cannot be longer than the rank's own operation.
        wait = np.where(there, np.clip(entry[:, None] - start, 0, end - start), 0)
        known = all(self.job.clocks.bound(group.ranks[0], rank) is not None for rank in group.ranks)
        meets = group.is_a(MEETINGS)[rows]
        astray = int((entry[meets] > first_end[meets] + _BEFORE).sum()) if known else 0
        # If no operation overlaps its partners, the recordings were not made at the same time, and times are meaningless.
        astray = astray if max(_FEWEST_ASTRAY, _ASTRAY * meets.sum()) <= astray < meets.sum() else 0
        if not known or astray:
            wait, transfer = np.zeros_like(wait), np.zeros_like(transfer)  # it is unknown who was last
        return GroupOperations(group, rows, last, entry, wait, np.minimum(wait, self._exposed(group, rows)), transfer, first_end,
                   group.is_a(POINT_TO_POINT)[rows], astray)  # fmt: skip

    def _exposed(self, group: Communicator, rows: Column) -> Column:
        """Communication that nothing hid in the stretches that each operation reaches into, by operation and rank."""
        out = np.zeros((len(rows), len(group.ranks)), np.int64)
        for column, rank in enumerate(group.ranks):
            listed = self.job.summaries[rank].collectives
            start, end = listed["start"].to_numpy(), listed["end"].to_numpy()
            if not len(end):
                continue
            row = np.maximum(group.row[rows, column], 0)
            before = np.append(0, np.cumsum(self.exposed_by_stretch[rank]))
            edges = edges_of(listed)
            first, last = (np.searchsorted(edges, at[row], "left") for at in (start, end))
            out[:, column] = before[last + 1] - before[first]
        return out

    @cached_property
    def exposed_by_stretch(self) -> list[Column]:
        """For each rank, the communication not hidden by other work, by stretch of its account (ns)."""
        out = []
        for one in self.job.summaries:
            stretches = len(edges_of(one.collectives)) + 1
            kind, place, time = (one.account[name].to_numpy() for name in ("class", "interval", "time"))
            mine = kind == COMMUNICATION
            out.append(summed(place[mine].astype(np.int64), time[mine], stretches))
        return out

    @cached_property
    def caused(self) -> Column:
        """Exposed waiting of each rank (row) that each rank (column) caused by coming last, ns, without sends and receives."""
        count = len(self.job.summaries)
        out = np.zeros((count, count), np.int64)
        for met in self.groups:
            own = np.flatnonzero(~met.paired)
            ranks = np.array(met.group.ranks)
            guilty = ranks[met.last[own]] if len(own) else own
            for column, rank in enumerate(met.group.ranks):
                out[rank] += summed(guilty, met.exposed[own, column], count)
        return out

    @cached_property
    def cost(self) -> Column:
        """The cost of each rank's lateness, ns: the summed wait of the typical other rank."""
        out = np.zeros(len(self.job.summaries))
        for met in self.groups:
            own = np.flatnonzero(~met.paired)
            np.add.at(out, np.array(met.group.ranks)[met.last[own]], met.cost[own])
        return out

    @cached_property
    def paired_wait(self) -> Column:
        """Exposed time of each rank in sends and receives beyond the shortest of the same size, ns."""
        out = np.zeros(len(self.job.summaries), np.int64)
        for met in self.groups:
            own = np.flatnonzero(met.paired)
            for column, rank in enumerate(met.group.ranks):
                out[rank] += int(met.exposed[own, column].sum())
        return out
