"""The evidence of failing runs: a test that may be evaluated after every run, and a bound on the rate.

Whether a run is delayed is drawn at random. If delays do not raise the failure rate, a failing run was therefore delayed with at
most the probability of that draw, whatever the rate is and however it drifts with the machine. :class:`Evidence` bets against
this with each failing run. The product of the bets is an e-value, which ever exceeds 1/α with a probability of at most α (Ville's
inequality; Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics and safe anytime-valid inference", Statistical Science
2023). The bound on the failure rate is a confidence sequence by the same inequality (Robbins 1970), whose prior puts half of its
weight on a rate of zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Candidate ratios of the failure rate with delays to that without, and the stake on each.
_RAISED = (np.array([2.0, 5.0, 20.0, 200.0, np.inf]), np.array([0.15, 0.15, 0.1, 0.1, 0.5]))
#: The same for delays without effect; a failure is natural once ratios of NATURAL and more are refuted.
_NATURAL = (np.array([0.3, 1.0]), np.array([0.2, 0.8]))
NATURAL = 3.0


@dataclass(frozen=True)
class FailedRun:
    """A failed run or trial: whether it was delayed, and the probability with which it would not have been."""

    delayed: bool
    control_share: float


@dataclass(frozen=True)
class Evidence:
    """E-values: against "delays do not raise the rate of failing", and against "they raise it :data:`NATURAL`-fold or more"."""

    caused: float
    natural: float

    @classmethod
    def of(cls, failures: Iterable[FailedRun]) -> Evidence:
        """The evidence from these failures, in the order in which the runs began."""
        listed = list(failures)
        delayed = np.array([failure.delayed for failure in listed], bool)
        share = np.array([failure.control_share for failure in listed], float)
        return cls(_bet(*_RAISED, 1.0, delayed, share), _bet(*_NATURAL, NATURAL, delayed, share))


def _bet(
    ratios: Floats, stakes: Floats, refuted: float, delayed: npt.NDArray[np.bool_], share: Floats
) -> float:
    """The capital of a bettor who staked on these ratios against the ratio to be refuted."""
    total = 0.0
    for ratio, stake in zip(ratios, stakes, strict=True):
        with np.errstate(divide="ignore"):
            logs = np.log(_chance(ratio, delayed, share)) - np.log(_chance(refuted, delayed, share))
        total += stake * math.exp(min(float(logs.sum()), 700.0))
    return float(total)


def _chance(ratio: float, delayed: npt.NDArray[np.bool_], share: Floats) -> Floats:
    """Probability that each failure falls in its own arm, if delays multiply the failure rate by `ratio`."""
    odds = ratio * (1 - share) / share if math.isfinite(ratio) else np.full(share.shape, np.inf)
    control = 1 / (1 + odds)
    return np.where(delayed, 1 - control, control)


def upper_bound(failures: int, runs: int, error: float) -> float:
    """The failure rate excluded by the runs so far, valid at any time, with this error probability."""
    if not runs:
        return 1.0
    passed = runs - failures
    beta = _log_beta(failures + 0.5, passed + 0.5) - _log_beta(0.5, 0.5) + math.log(0.5)
    mixture = math.log(math.exp(beta) + 0.5) if not failures else beta
    low, high = failures / runs, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        likelihood = failures * math.log(rate) + passed * math.log1p(-rate) if rate < 1 else -math.inf
        low, high = (low, rate) if mixture - likelihood >= math.log(1 / error) else (rate, high)
    return high


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
