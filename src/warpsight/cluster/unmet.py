"""Collectives that some ranks waited in and others never joined, from the recordings alone."""

from __future__ import annotations

import numpy as np

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.cluster.job import Job
from warpsight.cluster.matching import Communicator

#: A wait counts when it is so many times the longest usual operation of its rank, and this share of the job's time.
_TIMES, _SHARE = 10, 0.05


def unmet(job: Job) -> list[Finding]:
    """The first operation of each group that a rank never joined while others waited long in it, the cause first.

    A rank that itself waits in another group does not come because of what it waits for.
    """
    found = [one for one in (_of(job, group) for group in job.groups) if one is not None]
    waiting = {rank for one in found for rank in one.values["waiting"]}
    return sorted(found, key=lambda one: waiting.issuperset(one.values["ranks"]))


def _of(job: Job, group: Communicator) -> Finding | None:
    there = group.row >= 0
    last = np.where(there.any(0), len(group) - 1 - there[::-1].argmax(0), -1)
    first = int(last.min()) + 1
    if first >= len(group) or first < 1:
        return None
    length = np.where(there, group.of(job.summaries, "end") - group.of(job.summaries, "start"), 0)
    waiting = np.flatnonzero(there[first])
    absent = np.flatnonzero(last < first)
    longest = int(length[first, waiting].max(initial=0))
    usual = float(np.quantile(length[:first][there[:first]], 0.95))
    if longest < _TIMES * usual or longest < _SHARE * job.length:
        return None
    ranks = [job.summaries[group.ranks[column]].about.rank for column in absent.tolist()]
    others = [job.summaries[group.ranks[column]].about.rank for column in waiting.tolist()]
    about = job.summaries[group.ranks[int(absent[0])]].about
    operation = group.operations[int(group.common[first])]
    text = (f"rank {', '.join(map(str, ranks))} never came to the {operation} number {first + 1:,} of group {group.key!r}, in "
            f"which rank {', '.join(map(str, others))} waited {words.duration(longest)}")  # fmt: skip
    place, seen = about.afterwards
    if place:
        text += f": it was in {place}"
    evidence = (
        (f"rank {about.rank} was seen there for {words.duration(seen)} after its last work",) if place else ()
    )
    values = {"group": group.key, "number": first, "ranks": ranks, "waiting": others, "name": place or None}
    return Finding("error", text, values, "cluster/hang", None, evidence,
                   "Look at what this rank did instead of the collective: a loader, an exception that was caught, a branch that "
                   "the others do not take.")  # fmt: skip
