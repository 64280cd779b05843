"""The smallest set of elements that still makes a run fail, by adaptive group testing.

Elements stay in their order. The search looks for the shortest prefix that fails: its last element is needed, and everything
after it is not. That element is kept, and the search continues in the prefix before it until the kept elements fail alone. If
failure needs all of k elements, the search finds them; if any of several suffices, it finds one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from warpsight.errors import WarpsightError
from warpsight.race.search.bisection import RATES, Bisection, Floats, forgetful

#: Whether a run with these elements, ascending, failed.
Oracle = Callable[[tuple[int, ...]], bool]

#: Number of failures of the full set from which the failure rate is estimated before anything is left out.
_CALIBRATION = 3
#: Prior probability that the kept set suffices, that no element at all is needed, and that a kept element is not needed.
_SUFFICES, _NATURAL, _NEEDLESS = 0.3, 0.02, 0.05
#: An element is left out once it is needless with this probability.
_SURE = 0.95


class Undecided(WarpsightError):
    """The oracle was queried as often as allowed, and the answer is still unknown."""


@dataclass(frozen=True)
class Minimal:
    """What a search ended on.

    Attributes:
        elements: ascending; empty when a run fails without any, or when `fails` is False.
        fails: whether runs with all elements fail at all.
        confidence: probability, by the model of :mod:`~warpsight.race.search.bisection`, that the elements fail and each is
            needed.
        rate: how often runs with the elements fail, estimated.
    """

    elements: tuple[int, ...]
    fails: bool = True
    confidence: float = 1.0
    rate: float = 1.0


def shortest(low: int, high: int, fails: Callable[[int], bool]) -> int:
    """The shortest failing prefix between `low` and `high`, whose last prefix is known to fail, assuming that runs do not err."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle + 1, high)
    return low


def exact(count: int, oracle: Oracle) -> Minimal:
    """Search with a deterministic oracle, in at most k·log2(N) + 2k + 1 calls for k elements of N.

    One call tests everything. The first element takes ⌈log2(N + 1)⌉, as no element at all is one of the answers; each further one
    takes ⌈log2 r⌉ among the r that are left; and after each, one call tests the kept elements alone.
    """
    if not oracle(tuple(range(count))):
        return Minimal((), fails=False, rate=0.0)
    kept: tuple[int, ...] = ()
    length = shortest(0, count, lambda prefix: oracle(tuple(range(prefix))))
    while length:
        kept = (length - 1, *kept)
        if length == 1 or oracle(kept):
            break
        length = shortest(1, length - 1, lambda prefix: oracle((*range(prefix), *kept)))  # noqa: B023 - called at once
    return Minimal(kept)


@dataclass
class _Stage:
    """The search for one element: the belief, how many elements remain, and those kept so far."""

    belief: Bisection
    left: int
    kept: tuple[int, ...]


@dataclass
class Search:
    """A search with an unreliable oracle.

    Attributes:
        count: number of elements; oracle: runs some of them; confidence: required confidence that the result is right.
        most_calls: number of calls after which it gives up; patience: runs of everything without a failure after which nothing is
            taken to fail.
        rates: belief about the rates (:data:`~warpsight.race.search.bisection.RATES`) from an earlier search.
    """

    count: int
    oracle: Oracle
    confidence: float = 0.95
    most_calls: int = 20_000
    patience: int = 200
    rates: Floats = field(default_factory=lambda: np.full(len(RATES), 1 / len(RATES)))
    calls: int = field(default=0, init=False)

    def run(self) -> Minimal:
        """Search, confirm each element, and return the result.

        Raises:
            Undecided: after :attr:`most_calls` calls.
        """
        stages = [self._stage(self.count, (), _NATURAL, self.rates)]
        if not self._calibrate(stages[0]):
            return Minimal((), fails=False, rate=0.0)
        while True:
            stage = stages[-1]
            belief = stage.belief.position
            likely = int(belief.argmax())
            if belief[likely] < 1 - (1 - self.confidence) / 2:
                self._ask(stage, stage.belief.best())
            elif likely == 0:
                return self._confirmed(stage)
            elif likely <= stage.left:
                beyond = max(float(belief[likely + 1 :].sum()), 1e-4)
                kept = (likely - 1, *stage.kept)
                stages.append(self._stage(likely - 1, kept, beyond, stage.belief.rates))
            elif len(stages) == 1:
                return Minimal((), fails=False, rate=0.0)
            else:
                stages.pop()
                self._revise(stages[-1].belief, float(belief[likely]))

    def first(self) -> int:
        """Search only for the shortest failing prefix.

        Raises:
            Undecided: after :attr:`most_calls` calls, and when not even all elements fail.
        """
        stage = self._stage(self.count, (), _NATURAL, self.rates)
        while stage.belief.position.max() < self.confidence:
            self._ask(stage, stage.belief.best())
        self.rates = stage.belief.rates
        if (found := int(stage.belief.position.argmax())) > self.count:
            raise Undecided("runs that failed before no longer fail")
        return found

    def _stage(self, left: int, kept: tuple[int, ...], beyond: float, rates: Floats) -> _Stage:
        """A search among the first elements; `beyond`: probability that a needed element was left out before."""
        suffices = _SUFFICES if kept else _NATURAL
        positions = np.full(left + 2, (1 - beyond - suffices) / max(left, 1))
        positions[0], positions[-1] = suffices if left else 1 - beyond, beyond
        return _Stage(Bisection(positions, forgetful(rates)), left, kept)

    def _calibrate(self, stage: _Stage) -> bool:
        """Run everything until it has failed often enough to estimate its rate; returns whether it ever failed."""
        failures = asked = 0
        while failures < _CALIBRATION:
            if asked >= self.patience and not failures:
                return False
            failures += self._ask(stage, stage.left)
            asked += 1
        return True

    def _ask(self, stage: _Stage, prefix: int) -> bool:
        failed = self._call((*range(prefix), *stage.kept))
        stage.belief.learn(prefix, failed)
        return failed

    def _call(self, elements: tuple[int, ...]) -> bool:
        if self.calls >= self.most_calls:
            raise Undecided(f"after {self.calls:,} runs it is still unknown which elements are needed")
        self.calls += 1
        return self.oracle(elements)

    @staticmethod
    def _revise(belief: Bisection, beyond: float) -> None:
        """Back up to an earlier element: the probability that the chosen elements do not reproduce the failure."""
        chosen = int(belief.position.argmax())
        above = max(float(belief.position[chosen + 1 :].sum()), 1e-300)
        belief.weight[:, chosen + 1 :] *= beyond / above
        belief.weight[:, : chosen + 1] *= (1 - beyond) / max(1 - above, 1e-300)
        belief.weight /= belief.weight.sum()

    def _confirmed(self, stage: _Stage) -> Minimal:
        """Leave out each kept element once more: only elements without which runs do not fail stay."""
        confidence, rates = float(stage.belief.position[0]), stage.belief.rates
        kept, enough = stage.kept, (1 - self.confidence) / 2 / max(len(stage.kept), 1)
        for element in stage.kept:
            rest = tuple(other for other in kept if other != element)
            belief = Bisection(np.array([_NEEDLESS, 1 - _NEEDLESS]), forgetful(rates))
            while enough < (needless := belief.position[0]) < _SURE:
                belief.learn(0, self._call(rest))
            rates = belief.rates
            kept = rest if needless >= _SURE else kept
            confidence *= float(max(needless, 1 - needless))
        self.rates = rates
        return Minimal(kept, True, confidence, float(RATES[:, 0] @ rates))
