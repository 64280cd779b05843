"""Traces of several ranks: which rank waits for which is a question for `cluster`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.base.facts import Facts, longest
from warpsight.model.work import COMMUNICATION, values_in


def check(facts: Facts) -> Iterator[Finding]:
    """Point to the command that finds the rank the others wait for."""
    work = facts.work
    chosen = np.flatnonzero(work.kind == COMMUNICATION)
    ranks = len(values_in(work.process[chosen]))
    if ranks < 2:
        return
    text = (
        f"{ranks} ranks meet in collectives: warpsight cluster analyze says which of them the others wait for"
    )
    yield Finding(
        "note",
        text,
        {"ranks": ranks},
        "communication/ranks",
        at=longest(work.start[chosen], work.end[chosen]),
    )
