"""The few questions a recording's summary asks of the trace that was just written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import warpsight.model


@dataclass(frozen=True)
class KernelShare:
    """A kernel and its share of all kernel time."""

    name: str
    calls: int
    duration: int
    share: float


@dataclass(frozen=True)
class Highlights:
    """`busy`: share of the time between first and last device work in which a device worked; None without any."""

    kernels: tuple[KernelShare, ...]
    stacks: int
    busy: float | None
    span: int


_TOP = """
WITH sums AS (SELECT name_id, count(*) AS calls, sum(duration) AS time FROM kernel_ids WHERE start IS NOT NULL GROUP BY 1)
SELECT coalesce(n.short, '?'), calls, time, time / sum(time) OVER () FROM sums LEFT JOIN name n ON n.id = name_id
ORDER BY time DESC LIMIT 3
"""
# Sweep over intervals sorted by start: each adds what lies beyond the latest end before it.
_BUSY = """
WITH work AS (
    SELECT device, start, start + duration AS stop FROM kernel_ids WHERE start IS NOT NULL
    UNION ALL SELECT device, start, start + duration FROM memcpy
    UNION ALL SELECT device, start, start + duration FROM memset
), sweep AS (
    SELECT device, start, stop,
           max(stop) OVER (PARTITION BY device ORDER BY start
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM work
)
SELECT sum(greatest(stop - greatest(start, coalesce(before, start)), 0)), max(stop) - min(start), count(DISTINCT device)
FROM sweep
"""


def highlights(path: Path) -> Highlights:
    """Top kernels, distinct stacks and how busy the devices were."""
    with warpsight.model.open(path) as trace:
        top = [
            KernelShare(name, calls, int(time), share)
            for name, calls, time, share in trace.sql(_TOP).fetchall()
        ]
        found = trace.sql(_BUSY).fetchall()
        busy, span, devices = found[0] if found else (None, None, 0)
        share = int(busy) / (int(span) * max(devices, 1)) if busy is not None and span else None
        return Highlights(tuple(top), trace.count("stack"), share, int(span or 0))
