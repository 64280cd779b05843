"""The delays of a plan (:mod:`warpsight.race.counter`) in NumPy: what a device must compute."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.race.counter import threshold
from warpsight.race.plan import Plan, Point

Words = npt.NDArray[np.uint32]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def philox(counter: tuple[npt.ArrayLike, ...], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Philox4x32-10: four words of 32 random bits for each counter of four words."""
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(word).astype(np.uint64) & _LOW for word in counter))
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (second >> _32) ^ c1 ^ np.uint64(k0),
            second & _LOW,
            (first >> _32) ^ c3 ^ np.uint64(k1),
            first & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return (c0.astype(np.uint32), c1.astype(np.uint32), c2.astype(np.uint32), c3.astype(np.uint32))


def delays(
    plan: Plan,
    point: Point,
    launch: npt.ArrayLike,
    cta: npt.ArrayLike,
    warp: npt.ArrayLike,
    occurrence: npt.ArrayLike,
) -> npt.NDArray[np.int64]:
    """The delay of each occurrence in ns; -1 where it does not wait. Whether the plan selects the warp is not asked."""
    key = ((plan.seed & 0xFFFFFFFF) ^ point.number, plan.seed >> 32)
    x0, x1, _, _ = philox((occurrence, launch, cta, warp), key)
    span = np.uint64(plan.ceiling_ns - plan.floor_ns + 1)
    drawn = plan.floor_ns + ((x1.astype(np.uint64) * span) >> _32).astype(np.int64)
    waits = x0.astype(np.uint64) < np.uint64(threshold(plan.probability))
    found: npt.NDArray[np.int64] = np.where(waits, drawn, np.int64(-1))
    return found


def priority_delays(
    plan: Plan, launch: npt.ArrayLike, warp: npt.ArrayLike, step: npt.ArrayLike, warps: int
) -> npt.NDArray[np.int64]:
    """The wait at each step of a warp under a plan of mode `pct`; -1 where nothing waits.

    Args:
        plan: with depth and steps.
        launch: of the kernel's code.
        warp: its number in the grid, of `warps`.
        step: how often the warp came to any point of the plan in this launch.
        warps: of the launch.
    """
    if not plan.probability:
        return np.full(np.broadcast(launch, warp, step).shape, -1, np.int64)
    key = (plan.seed & 0xFFFFFFFF, plan.seed >> 32)
    number, at = np.asarray(warp, np.uint64), np.asarray(step, np.uint64)
    span = np.uint64(plan.ceiling_ns - plan.floor_ns)
    lower = span // np.uint64(2) if plan.depth > 1 else span
    drawn, _, _, _ = philox((number, number >> _32, launch, 0), key)
    wait = (drawn.astype(np.uint64) * (lower + np.uint64(1))) >> _32
    latest = np.zeros((), np.uint64)
    for change in range(1, plan.depth):
        low, high, place, _ = (word.astype(np.uint64) for word in philox((change, 0, launch, 1), key))
        chosen = (high << _32 | low) % np.uint64(warps)
        changed_at = (place * np.uint64(plan.steps)) >> _32
        holds = (chosen == number) & (changed_at <= at) & (changed_at >= latest)
        latest = np.where(holds, changed_at, latest)
        behind = span - (span - lower) * np.uint64(change - 1) // np.uint64(plan.depth)
        wait = np.where(holds, behind, wait)
    return np.asarray(plan.floor_ns + wait.astype(np.int64))
