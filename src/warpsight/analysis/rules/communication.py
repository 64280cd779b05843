"""Collectives in which ranks wait for a slow one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.facts import Facts, longest
from warpsight.model import intervals
from warpsight.model.work import COMMUNICATION

#: A rank is a straggler when the others spend this much more time in collectives than it does.
_STRAGGLER = 1.3


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about communication kernels."""
    yield from _straggler(facts)


def _straggler(facts: Facts) -> Iterator[Finding]:
    """The rank that arrives last waits least in collectives: the others' extra time there is spent waiting for it."""
    work = facts.work
    chosen = np.flatnonzero(work.kind == COMMUNICATION)
    processes = np.unique(work.process[chosen])
    if len(processes) < 2:
        return
    time = np.array([
        intervals.union(work.start[mine], work.end[mine]).total
        for mine in (chosen[work.process[chosen] == one] for one in processes)
    ])  # fmt: skip
    last, usual = int(np.argmin(time)), float(np.median(time))
    if usual < _STRAGGLER * float(time[last]) or usual < 0.02 * facts.length:
        return
    ranks = dict(facts.trace.rows("process", "process", "rank"))
    rank = ranks.get(int(processes[last]))
    who = f"rank {rank}" if rank is not None else f"process {int(processes[last])}"
    others = chosen[work.process[chosen] != processes[last]]
    waiting = int(usual - time[last])
    text = (
        f"straggler: {who} spends {words.duration(float(time[last]))} in collectives, the others {words.duration(usual)} "
        "(median): they wait for it"
    )
    yield Finding("warning", text, {"process": int(processes[last]), "rank": rank, "waiting": waiting}, "communication/straggler",
                  waiting, (), "Look at this rank's own recording: less work, slower clocks, or a busy host?",
                  at=longest(work.start[others], work.end[others]))  # fmt: skip
