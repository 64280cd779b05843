"""Work that moves from rank to rank, and work that stays with one."""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.cluster.load import moving_load

STEPS = 20


def even(ranks: int = 4) -> np.ndarray:
    return np.random.default_rng(1).normal(1e6, 1e3, (ranks, STEPS))


def test_the_busiest_of_each_step_counts_by_what_it_exceeds_the_others() -> None:
    worked = even()
    worked[np.arange(STEPS) * 3 % 4, np.arange(STEPS)] += 400_000
    found = moving_load(worked)
    assert found is not None
    assert found.cost == pytest.approx(STEPS * 400_000, rel=0.02)
    assert found.by_rank == pytest.approx(np.full(4, STEPS / 4 * 400_000), rel=0.05)
    assert found.factor == pytest.approx(1.4, rel=0.01)


@pytest.mark.parametrize("since", [0, 7])
def test_ranks_that_stay_busier_are_left_to_other_findings(since: int) -> None:
    worked = even(6)
    worked[2:4, since:] *= 1.5
    found = moving_load(worked)
    assert found is not None and found.cost < STEPS * 5_000


def test_a_rank_that_is_busier_in_some_steps_has_it_all() -> None:
    worked = even()
    worked[1, ::5] *= 2
    found = moving_load(worked)
    assert found is not None and found.by_rank[1] > 0.95 * found.cost


@pytest.mark.parametrize("shape", [(2, 20), (4, 4)])
def test_two_ranks_or_four_steps_show_nothing(shape: tuple[int, int]) -> None:
    assert moving_load(np.ones(shape)) is None
