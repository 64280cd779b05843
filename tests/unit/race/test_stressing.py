"""Which of the plans that failed an experiment keeps."""

from __future__ import annotations

import pytest

from warpsight.race.oracle import RunOutcome
from warpsight.race.plan import Plan
from warpsight.race.stressing import Drawn, Limits, State


def state(*runs: tuple[int, int, bool, int]) -> State:
    """An experiment after runs of (ceiling, seed, whether it failed, delayed trials)."""
    found = State(Plan(mode="random", seed=0, floor_ns=0, ceiling_ns=100_000, points=()), 0.05, Limits())
    for number, (ceiling, seed, failed, trials) in enumerate(runs):
        outcome = RunOutcome(
            kind="fail" if failed else "pass",
            why="",
            delayed=trials,
            failed_delayed=True if failed else None,
            failed_seed=seed if failed else None,
        )
        found.add(Drawn(number, ceiling, seed, 0.5), outcome)
    return found


def test_a_plan_that_fails_at_once_is_kept_before_one_whose_ceiling_fails_now_and_then() -> None:
    runs = state((1000, 1, True, 6), (1000, 1, True, 1), (100_000, 2, True, 1))
    assert runs.best() == (100_000, 2)


def test_a_plan_that_fails_again_and_again_is_kept() -> None:
    runs = state((1000, 1, True, 1), (100_000, 2, True, 1), (100_000, 2, False, 20), (1000, 1, True, 1))
    assert runs.best() == (1000, 1)


def test_among_equals_the_shortest_delays_are_kept() -> None:
    assert state((100_000, 2, True, 1), (1000, 1, True, 1)).best() == (1000, 1)
    assert state((1000, 1, False, 20)).best() is None


@pytest.mark.parametrize(("failures", "verdict"), [(4, None), (5, "reproduced")])
def test_five_failures_of_delayed_runs_alone_are_evidence_at_five_percent(
    failures: int, verdict: str | None
) -> None:
    """Were delays without effect, five failures would all be of the delayed half in 1 of 32 experiments."""
    found = state(*[(1000, 1, True, 1)] * failures).verdict()
    assert (found and found[0]) == verdict


@pytest.mark.parametrize(
    ("broken", "passed", "verdict"),
    [(4, 0, None), (5, 0, "broken run"), (6, 5, None), (10, 10, None), (11, 9, "broken run"), (18, 1, None)],
)
def test_an_experiment_ends_where_all_of_five_or_most_of_twenty_runs_are_broken(
    broken: int, passed: int, verdict: str | None
) -> None:
    found = state()
    kinds = ["broken"] * broken + ["pass"] * passed
    for number, kind in enumerate(reversed(kinds)):
        found.add(Drawn(number, 1000, number, 0.5), RunOutcome(kind=kind, why=""))  # type: ignore[arg-type]
    ended = found.verdict()
    assert (ended and ended[0]) == verdict
