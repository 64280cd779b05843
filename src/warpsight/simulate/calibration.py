"""A step's time without recording: the recorder's cost removed, or the device's clocks adjusted.

Recording costs time per call, most of it inside the vendor's library, where no recorder can measure it. If the step's time
without a recorder is known, the cost per call follows: it is the value that makes the re-timed step that long.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpsight.analysis.retime.program import Program
from warpsight.analysis.retime.solving import Times, solve

#: The most that recording a call can cost (ns), and the least that is left of a call's own time.
_MOST, _LEAST = 10_000, 0.2
#: A step this near to the target (part of it) is right.
_NEAR = 0.002
#: Halvings of an interval.
_HALVINGS = 14


def calibrated(program: Program, target_ns: float, step: Callable[[Times], float]) -> Program:
    """The program whose step takes the given time.

    If the recorded step is longer, its calls become cheaper and, if that is not enough, so does all host code. If the recorded
    step is shorter, the device's work changes in proportion. A note says by how much.
    """
    recorded = step(solve(program))
    notes = program.notes
    if recorded > target_ns:
        cost = _solved(lambda x: step(solve(_cheaper(program, x))), target_ns, 0.0, _MOST)
        program = _cheaper(program, cost)
        recorded = step(solve(program))
        notes = (*notes, f"recording is assumed to have cost {cost / 1_000:.1f} µs a call")
    if recorded > (1 + _NEAR) * target_ns:
        left = 1 / _solved(lambda x: step(solve(_hosted(program, 1 / x))), target_ns, 1.0, 1 / _LEAST)
        program = _hosted(program, left)
        recorded = step(solve(program))
        notes = (*notes, f"host code is assumed to last {left:.2f} times as long without the recorder")
    if abs(recorded - target_ns) > _NEAR * target_ns:
        factor = _solved(lambda x: step(solve(_scaled(program, 1 / x))), target_ns, 0.5, 2.0)
        program = _scaled(program, 1 / factor)
        notes = (
            *notes,
            f"device work is assumed to last {1 / factor:.3f} times as long without the recorder",
        )
    return program.but(notes=notes)


def _solved(length: Callable[[float], float], target: float, low: float, high: float) -> float:
    """The least x from `low` to `high` at which a falling length reaches the target, or its minimum."""
    floor = length(high)
    goal = max(target, floor + 0.001 * abs(floor))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if length(middle) <= goal else (middle, high)
    return high


def _cheaper(program: Program, cost: float) -> Program:
    """Make calls this much shorter: their own time and that of the code before them, in proportion."""
    calls = program.base // 2
    before, own = program.lag[0 : 2 * calls : 2], program.lag[1 : 2 * calls : 2]
    whole = np.maximum(before, 0) + np.maximum(own, 0)
    left = np.maximum(1 - cost / np.maximum(whole, 1), _LEAST)
    lag = program.lag.copy()
    lag[0 : 2 * calls : 2] = np.where(before > 0, np.round(before * left), before)
    lag[1 : 2 * calls : 2] = np.where(own > 0, np.round(own * left), own)
    return program.but(lag=lag)


def _hosted(program: Program, factor: float) -> Program:
    lag = np.where(program.lag > 0, np.round(program.lag * factor), program.lag)
    return program.but(lag=lag.astype(np.int64))


def _scaled(program: Program, factor: float) -> Program:
    return program.but(duration=np.round(program.duration * factor).astype(np.int64))
