"""How CLOCK_MONOTONIC maps to wall-clock time during a recording, from pairs of readings."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

#: NTP slews a clock by at most 500 parts per million; a clock that moved further was set, by hand, NTP or after a suspension.
_MOST_SLEW = 1e-3
_LEAST_STEP_NS = 1_000_000


def fit(pairs: list[tuple[int, int]]) -> dict[str, Any]:
    """Fit `realtime = monotonic + offset + drift × (monotonic - first)` to pairs of readings.

    If the wall clock was set in between, the line is fitted to the longest time between two such steps.

    Returns:
        The manifest's entry: `first`, `last` as [monotonic, realtime] ns, `offset` ns, `drift` in parts per
        million and `residual`, the largest distance from the line in ns; `steps`, if there were any, as [monotonic, ns
        forward]; an empty dict without pairs.
    """
    if not pairs:
        return {}
    ordered = sorted(pairs)
    steps = _steps(ordered)
    edges = [0, *(place for place, _ in steps), len(ordered)]
    spans = [ordered[begin:end] for begin, end in itertools.pairwise(edges)]
    found = _line(max(spans, key=lambda span: span[-1][0] - span[0][0]))
    if steps:
        found |= {"pairs": len(ordered), "steps": [[ordered[place][0], by] for place, by in steps]}
    return found


def _steps(ordered: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The readings before which the wall clock was set, and the size of each step."""
    out = []
    for place, ((before, real_before), (now, real_now)) in enumerate(itertools.pairwise(ordered), 1):
        moved = (real_now - real_before) - (now - before)
        if abs(moved) > max(_MOST_SLEW * (now - before), _LEAST_STEP_NS):
            out.append((place, moved))
    return out


def _line(ordered: list[tuple[int, int]]) -> dict[str, Any]:
    first, last = ordered[0], ordered[-1]
    monotonic = np.array([m - first[0] for m, _ in ordered], np.float64)
    ahead = np.array([r - m - (first[1] - first[0]) for m, r in ordered], np.float64)
    slope, intercept = 0.0, float(ahead[0])
    if len(ordered) > 1 and last[0] > first[0]:
        centred = monotonic - monotonic.mean()
        slope = float((centred * (ahead - ahead.mean())).sum() / (centred**2).sum())
        intercept = float(ahead.mean() - slope * monotonic.mean())
    residual = float(np.abs(ahead - intercept - slope * monotonic).max())
    return {
        "unit": "ns",
        "first": list(first),
        "last": list(last),
        "pairs": len(ordered),
        "offset": first[1] - first[0] + round(intercept),
        "drift": slope * 1e6,
        "residual": round(residual),
    }
