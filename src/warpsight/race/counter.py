"""Delays as a function of where and when: counter-based random numbers, without a state and without a clock.

The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), which
cuRAND has too. The device computes the same function. For an occurrence:

* key: the low and high 32 bits of the plan's seed, the low ones XOR the point's number (`Point.number`);
* counter: occurrence, launch, CTA, warp, in this order, 32 bits each;
* of the four results x0 to x3: the occurrence waits when x0 < :func:`threshold`, a comparison in 64 bits;
  its delay is floor + (x1 · (ceiling − floor + 1) >> 32), a product in 64 bits, which is the floor when both are equal.

Launch counts the launches of the point's code in the process from 0, CTA is the linear number in the grid (x fastest), warp the
linear number in the CTA, and occurrence counts from 0 how often this warp came to this point in this launch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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


def threshold(probability: float) -> int:
    """What a word of 32 bits is below with this probability; 2³² for 1."""
    return int(probability * 2**32)


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
