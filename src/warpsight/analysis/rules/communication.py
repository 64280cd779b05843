"""Traces of several ranks: who waits for whom is the cluster's question."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.facts import Facts
from warpsight.model.work import COMMUNICATION


def check(facts: Facts) -> Iterator[Finding]:
    """Where to ask which rank the others wait for."""
    work = facts.work
    ranks = len(np.unique(work.process[work.kind == COMMUNICATION]))
    if ranks < 2:
        return
    yield Finding("note", f"{ranks} ranks meet in collectives: warpsight cluster analyze says which of them the others wait for",
                  {"ranks": ranks}, "communication/ranks", None, (),
                  f"warpsight cluster analyze {facts.trace.path}")  # fmt: skip
