"""The steps in which a loop is found, each against its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.analysis.steps import repetition
from warpsight.analysis.steps.repetition import Repetition

TOKENS = st.lists(st.integers(0, 2), min_size=2, max_size=24)


@given(TOKENS, st.data())
def test_agreement_is_the_share_of_equal_places_and_the_run_of_the_average_place(
    tokens: list[int], data: st.DataObject
) -> None:
    lag = data.draw(st.integers(1, len(tokens) - 1))
    equal = [one == other for one, other in zip(tokens[lag:], tokens, strict=False)]
    runs = [len(list(same)) for good, same in itertools.groupby(equal) if good]
    share, run = repetition._agreement(np.array(tokens), lag)
    assert share == pytest.approx(sum(equal) / len(equal))
    assert run == pytest.approx(sum(n * n for n in runs) / len(equal))


@given(st.lists(st.integers(0, 2), min_size=8, max_size=24), st.sampled_from((1, 2, 4, 8)))
def test_runs_of_names_have_one_number_each(tokens: list[int], length: int) -> None:
    numbers = repetition._runs(np.array(tokens), length).tolist()
    runs = [tuple([*tokens, *[-1] * length][at : at + length]) for at in range(len(tokens))]
    assert all((numbers[i] == numbers[j]) == (runs[i] == runs[j]) for i in range(len(runs)) for j in range(i))


def test_the_estimate_is_near_the_agreement_of_every_lag() -> None:
    tokens = np.tile(np.repeat(np.arange(40), [3] * 20 + [1] * 20), 30)
    found = repetition._autocorrelation(tokens, 200)
    exact = [repetition._agreement(tokens, lag)[0] for lag in range(1, 201)]
    assert np.abs(found - exact).max() < 0.15
    assert int(np.argmax(found)) == 79 and found[79] == pytest.approx(1, abs=1e-3)


def test_candidates_are_the_best_lags_of_each_octave() -> None:
    """Lag 1, lags 2 to 3, 4 to 7, and of the 8 to 20 that are left the best eight."""
    estimate = np.arange(20.0)
    assert repetition._candidates(estimate) == [*range(1, 8), *range(8, 16), *range(16, 21)]
    long = np.concatenate([np.zeros(15), np.arange(16.0)])  # lags 16 to 31
    assert [lag for lag in repetition._candidates(long) if lag >= 16] == list(range(24, 32))


READ, X, Y, WRITE = range(4)
#: Sweeps along x and y in turn; `alike` names them the same.
THERE, BACK = [READ, X, Y, WRITE], [READ, Y, X, WRITE]


@pytest.mark.parametrize(
    ("last", "begins"),
    [
        ([], [0, 4, 8, 12, 16, 20]),
        ([READ, X], [0, 4, 8, 12, 16, 20, 24]),  # the last turn is broken off before its middle
        ([*THERE, *BACK], [0, 4, 8, 12, 16, 20, 24, 28]),
    ],
)
def test_a_turn_whose_halves_do_the_same_is_two(last: list[int], begins: list[int]) -> None:
    names = np.array([*(THERE + BACK) * 3, *last])
    alike = np.where(names == Y, X, names)
    whole = Repetition(np.arange(0, len(names), 8), 8, 0.9)
    found = repetition.halved(whole, alike)
    assert (found.begins.tolist(), found.period, found.agreement) == (begins, 4, 0.9)


@pytest.mark.parametrize(
    ("period", "alike"), [(3, [0] * 12), (2, [0] * 12), (4, [0, 1, 2, 3] * 3), (4, [0, 0, 0])]
)
def test_other_turns_stay_whole(period: int, alike: list[int]) -> None:
    whole = Repetition(np.arange(0, len(alike), period), period, 1.0)
    assert repetition.halved(whole, np.array(alike)) is whole


def test_turns_without_a_mark_begin_after_the_longest_pauses() -> None:
    """Three names in turn after two others; the device pauses before each 7."""
    tokens = np.array([1, 2, *[5, 6, 7] * 5, 5])
    gap = np.where(tokens == 7, 90.0, 1.0)
    found = repetition._equal_steps(tokens, gap, 3)
    assert found is not None and found.tolist() == [4, 7, 10, 13, 16]
    assert repetition._equal_steps(np.arange(9), np.zeros(9), 3) is None


@pytest.mark.parametrize(
    ("places", "mark"),
    [
        ([0, 10, 20, 30], True),
        ([0, 10, 19, 29, 38], True),  # every other turn is a place short
        ([0, 10, 19, 28], False),  # two of three are
        ([0, 10, 20, 26, 36], True),
        ([0, 10, 20, 25, 35], False),  # one comes twice in a turn
        ([0, 10], False),
    ],
)
def test_a_mark_comes_every_other_time_a_period_later_and_never_within_half_of_one(
    places: list[int], mark: bool
) -> None:
    hashes = np.arange(1, 41)
    hashes[places] = 0
    found = repetition._once_per_period(hashes, 10)
    assert (found is not None) == mark
    assert found is None or [one.tolist() for one in found] == [places]
