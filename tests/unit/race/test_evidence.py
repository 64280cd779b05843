"""The test of an experiment keeps its error rate although it is looked at after every run; the bound covers."""

from __future__ import annotations

import numpy as np

from warpsight.race.evidence import Evidence, FailedRun, upper_bound


def experiment(
    random: np.random.Generator, control: float, delayed: float, runs: int
) -> tuple[bool, bool, int]:
    """Whether each e-value ever exceeded 20, looking after every run, and the run that decided."""
    failures: list[FailedRun] = []
    caused = natural = False
    for run in range(runs):
        share = 0.5 if failures else 0.25  # as the experiment allots: by what was seen before
        arm = bool(random.random() >= share)
        if random.random() < (delayed if arm else control):
            failures.append(FailedRun(arm, share))
            evidence = Evidence.of(failures)
            caused, natural = caused or evidence.caused >= 20, natural or evidence.natural >= 20
            if caused or natural:
                return caused, natural, run + 1
    return caused, natural, runs


def test_delays_that_do_nothing_are_blamed_in_at_most_one_of_twenty() -> None:
    random = np.random.default_rng(5)
    for rate in (0.05, 0.5, 1.0):
        blamed = sum(experiment(random, rate, rate, 300)[0] for _ in range(400))
        assert blamed <= 20 + 3 * (400 * 0.05 * 0.95) ** 0.5
    assert sum(experiment(random, 0.3, 0.1, 300)[0] for _ in range(200)) <= 4


def test_delays_that_triple_the_rate_are_called_natural_in_at_most_one_of_twenty() -> None:
    random = np.random.default_rng(6)
    assert (
        sum(experiment(random, 0.1, 0.3, 300)[1] for _ in range(400)) <= 20 + 3 * (400 * 0.05 * 0.95) ** 0.5
    )


def test_a_clear_cause_is_found_in_a_dozen_runs_and_a_rare_one_in_time() -> None:
    random = np.random.default_rng(7)
    clear = [experiment(random, 0.0, 1.0, 300) for _ in range(200)]
    assert all(caused for caused, _, _ in clear) and np.mean([runs for *_, runs in clear]) <= 13
    rare = [experiment(random, 0.001, 0.1, 1000) for _ in range(100)]
    assert sum(caused for caused, _, _ in rare) >= 95


def test_a_natural_failure_is_told_from_an_amplified_one() -> None:
    random = np.random.default_rng(8)
    assert sum(experiment(random, 0.3, 0.3, 600)[1] for _ in range(100)) >= 85
    assert sum(experiment(random, 0.01, 0.5, 600)[0] for _ in range(100)) >= 99


def test_five_failures_all_delayed_at_even_odds_suffice_and_four_do_not() -> None:
    assert (
        Evidence.of([FailedRun(True, 0.5)] * 5).caused >= 20 > Evidence.of([FailedRun(True, 0.5)] * 4).caused
    )
    assert Evidence.of([]).caused == 1 and Evidence.of([]).natural == 1
    assert Evidence.of([FailedRun(True, 0.5)] * 2000).caused > 1e100  # no overflow


def test_the_bound_covers_the_rate_at_every_moment() -> None:
    random = np.random.default_rng(9)
    for rate in (0.002, 0.05, 0.3):
        missed = 0
        for _ in range(200):
            failed = np.cumsum(random.random(400) < rate)
            missed += any(
                upper_bound(int(failed[n - 1]), n, 0.05) < rate for n in (5, 10, 20, 50, 100, 200, 400)
            )
        assert missed <= 10 + 3 * (200 * 0.05 * 0.95) ** 0.5


def test_the_bound_of_runs_without_a_failure_is_near_the_rule_of_three() -> None:
    assert upper_bound(0, 0, 0.05) == 1.0
    assert 3 / 300 <= upper_bound(0, 300, 0.05) <= 3.8 / 300
    assert upper_bound(7, 7, 0.05) == 1.0 and 0.5 < upper_bound(50, 100, 0.05) < 0.75
