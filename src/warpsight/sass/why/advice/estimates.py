"""Estimated speedups, in samples.

A scheduler issues in a cycle if any of its warps can. If each of `warps` warps would, on its own, issue in a share `alone` of its
samples, the scheduler issues in a share 1 - (1 - alone) ** warps of the cycles. Samples give both shares, and therefore the
number of competing warps; fewer stalls raise `alone`. GPA (arXiv 2009.04061) uses total / (total - stalls), which no scheduler
can reach once it issues in most cycles.
"""

from __future__ import annotations

from math import log1p

SCHEDULERS = 4
_MOST_WARPS = 64.0
_LEAST = 0.01


def without(
    total: float, issued: float, passed_over: float, idle: float | None, stalls: float, fewer: float = 0.0
) -> float:
    """Estimated time if some stalls end and some instructions are no longer executed.

    Args:
        total: all samples.
        issued: samples of warps that issued.
        passed_over: samples of warps that could have issued while another one did.
        idle: samples in cycles in which nothing was issued; None if unknown.
        stalls: samples of stalls that end.
        fewer: samples of `issued` that end.
    """
    stalls = min(stalls, total - issued)
    if not idle or not 0 < issued < total:
        return total / max(total - stalls - fewer, _LEAST * total) if total else 1.0
    left = max(issued - fewer, _LEAST * issued)
    rate = max(1 - idle / total, issued / total)
    alone = issued / (total - passed_over)
    then = min(left / max(total - passed_over - stalls - fewer, left), 1.0)
    warps = competing(rate, alone)
    return _rate(then, warps) / rate * issued / left


def with_warps(alone: float, now: float, then: float) -> float:
    """Estimated time with more warps on a multiprocessor.

    Args:
        alone: share of its samples in which a single warp would issue on its own.
        now: warps on a multiprocessor.
        then: the same after the change.
    """
    if not 0 < alone < 1 or not now or then <= now:
        return 1.0
    return throughput(alone, then) / throughput(alone, now)


def throughput(alone: float, warps: float) -> float:
    """The share of a multiprocessor's cycles in which its schedulers issue; with fewer warps than schedulers, some are idle."""
    schedulers = min(warps, SCHEDULERS) / SCHEDULERS
    return schedulers * _rate(min(max(alone, _LEAST), 1.0), max(warps / SCHEDULERS, 1))


def competing(rate: float, alone: float) -> float:
    """How many warps compete for a scheduler that issues in a share `rate` of the cycles."""
    if alone >= 1 or rate >= 1:
        return 1.0 if alone >= 1 else _MOST_WARPS
    return min(max(log1p(-rate) / log1p(-alone), 1.0), _MOST_WARPS)


def _rate(alone: float, warps: float) -> float:
    return float(1 - (1 - alone) ** warps)
