"""Delays as a function of where and when: counter-based random numbers, without state or clock.

The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), which
cuRAND also has. The device computes it; `tests/race_model/delays.py` does the same in NumPy. For an occurrence:

* key: the low and high 32 bits of the plan's seed, the low ones XOR the point's number (`Point.number`);
* counter: occurrence, launch, CTA, warp, in this order, 32 bits each;
* of the four results x0 to x3: the occurrence waits when x0 < :func:`threshold`, a comparison in 64 bits;
  its delay is floor + (x1 · (ceiling − floor + 1) >> 32), a product in 64 bits, which is the floor when both are equal.

Launch counts the launches of the point's code in the process from 0, CTA is the linear number in the grid (x fastest), warp the
linear number in the CTA, and occurrence counts from 0 how often this warp reached this point in this launch.

Under plans of mode `pct` a warp's waits follow from its priority.
"""

from __future__ import annotations


def threshold(probability: float) -> int:
    """The limit below which a random 32-bit word lies with this probability; 2³² for 1."""
    return int(probability * 2**32)


def bound(depth: int, warps: int, steps: int) -> float:
    """A lower bound for the probability that a priority schedule shows a bug of this depth in one launch.

    It is 1 / (n · k^(d − 1)) for n warps with k steps in all, from the paper on PCT, and holds if a wait lasts longer than other
    warps take to get blocked.
    """
    return 1 / (warps * float(warps * steps) ** (depth - 1))
