"""The rank to blame for a late entry: a rank may come last because it waited for another rank earlier, in another group.

    group A   rank 0 |== waits for 1 ==|~~|                          rank 1 works too long: rank 0 waits for it in A,
              rank 1 |---- works ------|~~|                          therefore enters B late, and rank 2 waits there
    group B   rank 0                      |-- works --|~~|           for rank 0. Rank 1 is to blame for both.
              rank 2      |========= waits for 0 =====|~~|

A rank is compared with the one that entered first, over the time since both took part in the group's previous operation. If part
of the delay is extra waiting, the blame for it goes to the rank that it waited for, and so on (Böhme, Geimer, Wolf, Arnold:
Identifying the root causes of wait states in large-scale parallel applications, 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.cluster.waiting import GroupOperations, Waiting

Column = NDArray[Any]
#: Maximum rounds of passing blame on, and the share below which it stops.
_ROUNDS, _REST = 256, 1e-3


def blame(waiting: Waiting) -> list[Column]:
    """The delay for which the last rank of each operation of each group is itself to blame, ns of the mean other rank's time.

    The sum is what ranks waited in collectives; sends and receives pass blame on, and keep some if a stage works too long.
    """
    groups = waiting.groups
    counts = [len(met.rows) for met in groups]
    direct = np.concatenate([_direct(met, len(waiting.job.summaries)) for met in groups] or [np.zeros(0)])
    edges = _edges(waiting, counts) if len(groups) > 1 else None
    own = direct
    if edges is not None and len(edges.operation):
        handed = np.bincount(edges.operation, edges.share, len(direct))
        own, moving = np.zeros(len(direct)), direct
        for _ in range(_ROUNDS):
            own = own + moving * (1 - handed)
            moving = np.bincount(edges.cause, moving[edges.operation] * edges.share, len(direct))
            if moving.sum() <= _REST * direct.sum():
                break
        own = own + moving
    return np.split(own, np.cumsum(counts)[:-1]) if groups else []


def _direct(met: GroupOperations, ranks: int) -> Column:
    """The wait of the typical rank of the group, as the share of it that the mean rank of the job has."""
    if not len(met.rows):
        return np.zeros(0)
    others = (met.group.row[met.rows] >= 0).sum(1) - 1
    return np.where(met.paired, 0.0, met.cost * others / max(ranks - 1, 1))


@dataclass(frozen=True)
class _Edges:
    """Which share of the blame for an operation goes to an earlier one, by their numbers over all groups."""

    operation: Column
    cause: Column
    share: Column


def _edges(waiting: Waiting, counts: Sequence[int]) -> _Edges:
    lengths = [len(one.collectives) for one in waiting.job.summaries]
    first = np.concatenate([[0], np.cumsum(lengths)])
    number = np.full(int(first[-1]), -1, np.int64)  # the operation behind each row of all ranks' collectives
    wait = np.zeros(int(first[-1]))
    before = np.concatenate([[0], np.cumsum(counts)])
    for base, met in zip(before[:-1].tolist(), waiting.groups, strict=True):
        for column, rank in enumerate(met.group.ranks):
            row = met.group.row[met.rows, column]
            there = np.flatnonzero(row >= 0)
            number[first[rank] + row[there]] = base + there
            wait[first[rank] + row[there]] = met.exposed[there, column]
    parts = [
        _of_group(met, base, first, number, wait)
        for base, met in zip(before[:-1].tolist(), waiting.groups, strict=True)
    ]
    return _Edges(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _of_group(
    met: GroupOperations, base: int, first: Column, number: Column, wait: Column
) -> tuple[Column, ...]:
    """The edges from a group's operations to what their last rank waited in since the operation before."""
    none = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    if len(met.rows) < 2:
        return none
    ranks, row = np.array(met.group.ranks), met.group.row[met.rows]
    operation = np.arange(1, len(met.rows))
    early = met.wait[operation].argmax(1)
    late = met.last[operation]
    late_by = met.wait[operation, early]
    known = (late_by > 0) & (row[operation, early] >= 0)
    known &= (row[operation - 1, early] >= 0) & (row[operation - 1, late] >= 0)
    operation, early, late, late_by = (column[known] for column in (operation, early, late, late_by))
    begin, size = _window(row, operation, late, first[ranks[late]])
    others, other_size = _window(row, operation, early, first[ranks[early]])
    keep = size > 0
    operation, late_by, begin, size, others, other_size = (
        column[keep] for column in (operation, late_by, begin, size, others, other_size)
    )
    if not len(operation):
        return none
    place = np.repeat(np.arange(len(operation)), size)
    step = np.arange(len(place)) - np.repeat(np.cumsum(size) - size, size)
    own = wait[begin[place] + step]
    total = np.concatenate([[0.0], np.cumsum(wait)])
    theirs = total[others + other_size] - total[others]
    # Ranks that did the same operations are compared one by one.
    alike = (size == other_size)[place]
    beside = wait[np.where(alike, others[place] + step, 0)]
    ours = np.bincount(place, own, len(operation))
    less = (theirs / np.maximum(ours, 1))[place]
    excess = np.maximum(np.where(alike, own - beside, own * (1 - less)), 0)
    among = np.bincount(place, excess, len(operation))
    handed = np.clip((ours - theirs) / late_by, 0, 1)
    share = excess / np.maximum(among, 1)[place] * handed[place]
    cause = number[begin[place] + step]
    real = (share > 0) & (cause >= 0)
    return base + operation[place[real]], cause[real], share[real]


def _window(row: Column, operation: Column, column: Column, first: Column) -> tuple[Column, Column]:
    """Where a rank's collectives between a group's operation and the one before it begin, and how many there are."""
    begin = row[operation - 1, column] + 1
    return first + begin, np.maximum(row[operation, column] - begin, 0)
