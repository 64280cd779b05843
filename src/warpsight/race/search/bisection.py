"""Bisection with an unreliable oracle: the place in a sequence of nested sets where failures begin.

Sets 0 ⊂ 1 ⊂ … ⊂ n are nested. From an unknown position on they *can* fail: a run of such a set fails with probability p, a run of
an earlier set with a smaller probability q, and neither is known. The posterior is over the position, p and q together; each run
tests the set whose outcome is most informative about the position, in bits. This is probabilistic bisection (Horstein 1963;
Burnashev and Zigangirov 1974; Waeber, Frazier and Henderson, SIAM J. Control Optim. 2013) with both rates estimated on the way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_P = (0.02, 0.04, 0.07, 0.11, 0.16, 0.22, 0.29, 0.37, 0.46, 0.56, 0.67, 0.78, 0.88, 0.95, 0.985, 0.998)
_Q = (0.0005, 0.003, 0.01, 0.025, 0.06, 0.15, 0.35)
#: Every pair of rates in which failing sets fail at least twice as often.
RATES = np.array([(p, q) for p in _P for q in _Q if p >= 2 * q])
#: The weight of earlier evidence about the rates when other sets are searched, whose rates may differ (a power prior).
_KEPT = 0.85


def entropy(rate: Floats) -> Floats:
    """Entropy, in bits, of a run that fails at this rate."""
    inside = np.clip(rate, 1e-12, 1 - 1e-12)
    return np.asarray(-inside * np.log2(inside) - (1 - inside) * np.log2(1 - inside))


def forgetful(rates: Floats) -> Floats:
    """The belief about the rates, discounted for a search over other sets."""
    kept = rates**_KEPT
    return np.asarray(kept / kept.sum())


class Bisection:
    """The belief about the position where failures begin.

    Attributes:
        weight: probability of each pair of :data:`RATES` (rows) and position (columns); the last position: no set can fail.
    """

    def __init__(self, positions: Floats, rates: Floats) -> None:
        """Begin with these independent beliefs; `positions` has one more entry than there are sets."""
        self.weight: Floats = np.outer(rates, positions / positions.sum())

    @property
    def position(self) -> Floats:
        """Probability of each position."""
        return np.asarray(self.weight.sum(0))

    @property
    def rates(self) -> Floats:
        """Probability of each pair of rates."""
        return np.asarray(self.weight.sum(1))

    def best(self) -> int:
        """The set whose next outcome is most informative about the position."""
        belief = self.position
        known = np.maximum(belief, 1e-300)
        failing, harmless = RATES[:, 0] @ self.weight, RATES[:, 1] @ self.weight
        # A run of set m fails at rate p where the position is at most m, and at q beyond it.
        below, above = np.cumsum(failing), np.cumsum(harmless[::-1])[::-1]
        unsure_below = np.cumsum(belief * entropy(failing / known))
        unsure_above = np.cumsum((belief * entropy(harmless / known))[::-1])[::-1]
        gain = entropy(below[:-1] + above[1:]) - unsure_below[:-1] - unsure_above[1:]
        return int(np.argmax(gain))

    def learn(self, which: int, failed: bool) -> None:
        """Take in the outcome of a run of a set."""
        p, q = (RATES if failed else 1 - RATES).T
        self.weight[:, : which + 1] *= p[:, None]
        self.weight[:, which + 1 :] *= q[:, None]
        self.weight /= self.weight.sum()
