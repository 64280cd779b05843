"""How much each rank has to do in each step, and whether the largest share moves from rank to rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.classes import COMMUNICATION
from warpsight.cluster.steps import Steps
from warpsight.cluster.waiting import Waiting

Column = NDArray[Any]
#: A rank's extra work counts as lasting if most steps out of this many show it.
_LASTING = 5


@dataclass(frozen=True)
class MovingLoad:
    """Work by which the busiest rank of a step exceeds the others, if the busiest rank differs from step to step.

    Attributes:
        cost: That work over all steps, ns.
        by_rank: The part of each rank (by its place), ns.
        factor: Work of the busiest rank in a typical step as a multiple of the others' work.
    """

    cost: int
    by_rank: Column
    factor: float


def busy(waiting: Waiting, listed: Steps) -> Column:
    """Time of each rank (row) in each judged step (column) in which it did not communicate, ns."""
    out = np.zeros((len(waiting.job.summaries), len(listed) + 1))
    for rank, one in enumerate(waiting.job.summaries):
        kind, interval, time = (one.account[name].to_numpy() for name in ("class", "interval", "time"))
        worked = kind != COMMUNICATION
        step = np.minimum(listed.stretches[rank][interval[worked]], len(listed))
        np.add.at(out[rank], step, time[worked])
    out = out[:, :-1]
    out[:, listed.end <= listed.judged_from] = 0
    return out


def moving_load(worked: Column) -> MovingLoad | None:
    """The part of the ranks' work (ranks × steps, ns) that is uneven in a step and not in the steps around it.

    A rank or stage that has more work in many steps is a problem of its own; this is the remaining unevenness, as with sequences
    of unequal length.
    """
    ranks, count = worked.shape
    if ranks < 3 or count < _LASTING:
        return None
    more = worked - np.median(worked, axis=0)
    padded = np.pad(more, ((0, 0), (_LASTING // 2,) * 2), mode="reflect")
    flat = worked - np.median(np.lib.stride_tricks.sliding_window_view(padded, _LASTING, axis=1), axis=2)
    most = flat.argmax(0)
    others = np.median(np.sort(flat, axis=0)[:-1], axis=0)
    excess = np.maximum(flat.max(0) - others, 0)
    factor = float(np.median(1 + excess / np.maximum(others, 1)))
    return MovingLoad(int(excess.sum()), np.bincount(most, excess, ranks), factor)
