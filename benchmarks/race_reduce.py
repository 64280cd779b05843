"""Runs that `race reduce` needs, simulated, beside what information theory allows: `python benchmarks/race_reduce.py [SEARCHES]`.

k of N = 256 points are needed: a set with all of them fails with p = 0.3, another with q = 0.01. The least number of runs of
any search that is right in 95% is Fano's bound over the capacity of the channel: ((1 − ε) log2 C(N, k) − h(ε)) / C.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from warpsight.race.search.bisection import entropy
from warpsight.race.search.minimal import Search, exact

POINTS, P, Q = 256, 0.3, 0.01


def simulated(k: int, seed: int, p: float = P, q: float = Q) -> tuple[bool, int]:
    """Whether a search ended on the right points, and its runs."""
    random = np.random.default_rng([k, seed])
    needed = frozenset(random.choice(POINTS, k, replace=False).tolist())
    search = Search(POINTS, lambda points: bool(random.random() < (p if needed <= set(points) else q)))
    found = search.run()
    return found.fails and frozenset(found.elements) == needed, search.calls


def floor(k: int, error: float = 0.05) -> float:
    """The least runs of a search that errs this often."""
    share = np.linspace(0.001, 0.999, 999)
    h = lambda rate: float(entropy(np.array(rate)))  # noqa: E731
    capacity = (entropy(share * P + (1 - share) * Q) - share * h(P) - (1 - share) * h(Q)).max()
    return float(((1 - error) * math.log2(math.comb(POINTS, k)) - h(error)) / capacity)


def main() -> None:
    searches = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print("  k   floor    mean     p95     max   right   noiseless (allowed)")
    for k in (1, 2, 4, 8):
        results = [simulated(k, seed) for seed in range(searches)]
        calls = np.array([calls for _, calls in results])
        noiseless = []
        for seed in range(searches):
            needed = set(np.random.default_rng([k, seed]).choice(POINTS, k, replace=False).tolist())
            asked: list[int] = []
            exact(POINTS, lambda points: asked.append(1) or needed <= set(points))  # type: ignore[func-returns-value]  # noqa: B023
            noiseless.append(len(asked))
        allowed = int(k * math.log2(POINTS) + 2 * k + 1)
        right = sum(right for right, _ in results) / searches
        print(f"{k:3} {floor(k):7.0f} {calls.mean():7.0f} {np.quantile(calls, 0.95):7.0f} {calls.max():7} {right:7.1%}"
              f"   {max(noiseless)} ({allowed})")  # fmt: skip


if __name__ == "__main__":
    main()
