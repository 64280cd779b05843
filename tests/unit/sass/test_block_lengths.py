"""The replay of a grid's blocks: list scheduling where each multiprocessor has one block, and by hand where blocks share."""

from __future__ import annotations

import random

import numpy as np
import pytest

from warpsight.sass.why.advice import estimates
from warpsight.sass.why.advice.block_lengths import replayed

ALONE, WARPS = 0.25, 4


def listed(work: list[float], machines: int) -> float:
    """The end of the last job if each goes to the machine that is free first."""
    free = [0.0] * machines
    for one in work:
        at = free.index(min(free))
        free[at] += one
    return max(free)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_that_do_not_share_are_list_scheduled(seed: int) -> None:
    dice = random.Random(seed)
    work = [dice.uniform(0.1, 5) for _ in range(dice.randint(1, 60))]
    machines = dice.randint(1, 9)
    took = replayed(np.array(work), machines, 1, ALONE, WARPS)
    assert took == pytest.approx(listed(work, machines) / estimates.throughput(ALONE, WARPS))


@pytest.mark.parametrize("seed", range(20))
def test_no_work_is_lost_or_done_twice(seed: int) -> None:
    """Where a single warp issues in every cycle, a multiprocessor does one unit a cycle, however many blocks share it."""
    dice = random.Random(seed)
    work = [dice.uniform(0.1, 5) for _ in range(dice.randint(1, 60))]
    took = replayed(np.array(work), 1, dice.randint(1, 8), 1.0, WARPS)
    assert took == pytest.approx(sum(work))


def test_a_block_that_is_left_alone_has_the_issue_slots_for_itself() -> None:
    together, alone = (estimates.throughput(ALONE, count * WARPS) for count in (2, 1))
    expected = 2 / together + (3 - 1) / alone  # one unit of each first, then two of the longer one
    assert replayed(np.array([1.0, 3.0]), 1, 2, ALONE, WARPS) == pytest.approx(expected)


def test_the_longest_block_is_best_first() -> None:
    work = np.array([1.0] * 7 + [4.0])
    first, last = replayed(work[::-1], 2, 1, ALONE, WARPS), replayed(work, 2, 1, ALONE, WARPS)
    assert first < last


def test_blocks_of_a_partial_last_wave_go_to_different_multiprocessors() -> None:
    alone = estimates.throughput(ALONE, WARPS)
    full = 2 / estimates.throughput(ALONE, 2 * WARPS)
    assert replayed(np.ones(12), 4, 2, ALONE, WARPS) == pytest.approx(full + 1 / alone)
