"""Estimated speedups, after GPA (arXiv 2009.04061), in samples.

Where samples show in which cycles the scheduler issued nothing, those alone are taken as time that can be saved: a stall
beside which other warps issue costs nothing. GPA takes all samples of a stall.
"""

from __future__ import annotations

SCHEDULERS = 4


def removed(total: float, stalls: float) -> float:
    """When stalls end altogether: total / (total - stalls)."""
    return total / max(total - stalls, total / 100) if total else 1.0


def hidden(total: float, stalls: float, work: float) -> float:
    """When stalls are hidden behind other work of the same region: no more of them than there is work."""
    return removed(total, min(stalls, work))


def with_warps(issue: float, now: float, then: float) -> float:
    """With more warps on a multiprocessor.

    Fewer warps than schedulers leave some without work. A scheduler issues when any of its warps can: 1 - (1 - issue) ** warps.
    `issue` is what a warp reaches while the others compete, so the estimate is low where they do.

    Args:
        issue: share of its samples in which a warp issues.
        now: warps on a multiprocessor.
        then: the same after the change.
    """
    if not 0 < issue < 1 or not now or then <= now:
        return 1.0
    schedulers = min(then, SCHEDULERS) / min(now, SCHEDULERS)
    rate_now = 1 - (1 - issue) ** max(now / SCHEDULERS, 1)
    rate_then = 1 - (1 - issue) ** max(then / SCHEDULERS, 1)
    return float(schedulers * rate_then / rate_now)
