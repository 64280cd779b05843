"""The few questions a recording's summary asks of the trace that was just written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import warpsight.model
from warpsight.analysis.account.classes import IDLE
from warpsight.analysis.account.own_cost import OwnCost, own_cost
from warpsight.analysis.rules import shares
from warpsight.analysis.rules.base.facts import Facts


@dataclass(frozen=True)
class _KernelShare:
    """A kernel and its share of all kernel time."""

    name: str
    calls: int
    duration: int
    share: float


@dataclass(frozen=True)
class Highlights:
    """The parts of a trace that the summary shows.

    Attributes:
        stacks: Number of distinct stacks.
        busy: Share of the time between first and last device work in which the devices worked; None without any.
        span: The longest such time of any device (ns).
        own_cost: What recording cost; None if the recorder measured nothing.
        first: What most of the time was spent on, in the words of `analyze`; "" without device work.
    """

    kernels: tuple[_KernelShare, ...]
    stacks: int
    busy: float | None
    span: int
    own_cost: OwnCost | None
    first: str = ""


_TOP = """
WITH sums AS (SELECT name_id, count(*) AS calls, sum(duration) AS time FROM kernel_ids WHERE start IS NOT NULL GROUP BY 1)
SELECT coalesce(n.short, '?'), calls, time, time / sum(time) OVER () FROM sums LEFT JOIN name n ON n.id = name_id
ORDER BY time DESC LIMIT 3
"""


def highlights(path: Path) -> Highlights:
    """Top kernels, distinct stacks, how busy the devices were, and what recording cost."""
    with warpsight.model.open(path) as trace:
        top = [
            _KernelShare(name, calls, int(time), share)
            for name, calls, time, share in trace.sql(_TOP).fetchall()
        ]
        facts = Facts(trace)
        found = facts.account
        first = shares.largest(facts)
        spans = [times["span"] for times in found.devices.values()]
        return Highlights(
            tuple(top),
            trace.count("stack"),
            1 - found.share(*IDLE) if found.span else None,
            max(spans, default=0),
            own_cost(trace),
            first.text if first is not None else "",
        )
