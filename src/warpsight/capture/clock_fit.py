"""How CLOCK_MONOTONIC maps to wall-clock time during a recording, from pairs of readings."""

from __future__ import annotations

from typing import Any

import numpy as np


def fit(pairs: list[tuple[int, int]]) -> dict[str, Any]:
    """Fit `realtime = monotonic + offset + drift × (monotonic - first)` to pairs of readings.

    Returns:
        The manifest's entry: `first`, `last` as [monotonic, realtime] ns, `offset` ns, `drift` in parts per
        million and `residual`, the largest distance from the line in ns; an empty dict without pairs.
    """
    if not pairs:
        return {}
    ordered = sorted(pairs)
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
