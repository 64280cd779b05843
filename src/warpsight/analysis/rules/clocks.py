"""Clocks: time lost because the GPU ran below its maximum clock, and NVML's reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.intervals import Intervals
from warpsight.model.naming.clock_reasons import REASONS

Column = npt.NDArray[Any]
_LEAST_LOSS = 0.02


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about clocks, one per device."""
    if not facts.trace.count("counter"):
        return
    fastest = {
        device: khz / 1000
        for device, khz in facts.trace.rows("device", "device", "clock_khz")
        if (khz or 0) > 0
    }
    for device, busy in facts.busy.items():
        if device is not None:
            yield from _device(facts, device, busy, fastest.get(device))


def _series(facts: Facts, device: int, name: str) -> tuple[Column, Column]:
    time, value, names = facts.counters(device)
    if name not in names:
        return time[:0], value[:0]
    chosen = names[name]
    return time[chosen], value[chosen]


def _device(facts: Facts, device: int, busy: Intervals, fastest: float | None) -> Iterator[Finding]:
    """Weight clock samples by the time up to halfway to their neighbors; only busy time counts."""
    time, clock = _series(facts, device, "sm_clock")
    if len(time) < 3:
        return
    from warpsight.model import intervals

    edges = np.concatenate([[time[0]], (time[1:] + time[:-1]) // 2, [time[-1]]])
    worked = np.diff(intervals.measure(busy, edges)).astype(float)
    if worked.sum() <= 0:
        return
    highest = float(clock.max())
    best = highest if fastest is None else max(fastest, highest)
    lost = float((worked * (1 - clock / best)).sum())
    # Nothing is sampled outside this time; the samples inside represent all busy time.
    cost = int(lost / worked.sum() * busy.total)
    reasons = []
    for name, text in REASONS.items():
        at, value = _series(facts, device, name)
        if len(at) == len(time):
            share = float((worked * (value > 0)).sum() / worked.sum())
            if share >= 0.05:
                reasons.append((share, text))
    reasons.sort(reverse=True)
    if cost < _LEAST_LOSS * facts.length or (not reasons and fastest is None):
        return
    mean = float((worked * clock).sum() / worked.sum())
    why = f" because of {reasons[0][1]} ({reasons[0][0]:.0%} of the busy time)" if reasons else ""
    severity = "warning" if reasons else "note"
    text = f"clock throttling: GPU {device} ran at {mean:,.0f} MHz instead of {best:,.0f} MHz while busy{why}"
    slowest = int(np.argmin(np.where(worked > 0, clock, np.inf)))
    yield Finding(
        severity, text, {"device": device, "mean": mean, "best": best, "lowest": float(clock[slowest])},
        "clocks/throttled", cost if reasons else None, _evidence(facts, device, clock, worked), _ADVICE if reasons else None,
        at=(int(edges[slowest]), int(edges[slowest + 1])),
    )  # fmt: skip


_ADVICE = (
    "Compute-bound kernels lose in proportion to the clock: check cooling and the power limit (nvidia-smi -q -d "
    "PERFORMANCE,POWER), spread the load over more GPUs, or use lower precision; memory-bound kernels lose less."
)


def _evidence(facts: Facts, device: int, clock: Column, worked: Column) -> tuple[str, ...]:
    low = float(clock[worked > 0].min())
    out = [f"lowest clock while busy {low:,.0f} MHz"]
    for name, unit in (("power", "W"), ("temperature", "°C")):
        _, value = _series(facts, device, name)
        if len(value):
            out.append(f"{name} up to {value.max():,.0f} {unit}")
    return tuple(out)
