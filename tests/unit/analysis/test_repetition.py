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


def looped(rng: np.random.Generator, length: int, turns: int) -> tuple[np.ndarray, list[int]]:
    """A loop whose turns begin with a name of their own, after and before some other work; and where turns begin."""
    turn = np.r_[0, rng.integers(1, 5, length - 1)]
    before, after = (
        rng.integers(10, 60, rng.integers(0, length)),
        rng.integers(60, 99, rng.integers(0, length)),
    )
    return np.r_[before, np.tile(turn, turns), after], [
        len(before) + number * length for number in range(turns)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_a_loop_is_found_among_other_work(seed: int) -> None:
    """Names stand for nothing but themselves; where a turn begins the device pauses."""
    rng = np.random.default_rng(seed)
    length, turns = int(rng.integers(4, 20)), int(rng.integers(8, 30))
    names, begins = looped(rng, length, turns)
    gap = np.ones(len(names))
    gap[begins] = 50
    codes = rng.permutation(1_000)[names]
    found = repetition.find(codes, gap)
    assert found is not None
    assert (found.period, found.begins.tolist()) == (length, begins)
    equal = [codes[at] == codes[at - length] for at in range(length, len(codes))]
    assert found.agreement == pytest.approx(sum(equal) / len(equal))


@pytest.mark.parametrize("seed", range(4))
def test_names_in_no_order_are_no_loop(seed: int) -> None:
    names = np.random.default_rng(seed).integers(0, 6, 200)
    assert repetition.find(names, np.zeros(200)) is None
    assert repetition.find(np.arange(50), np.zeros(50)) is None


@pytest.mark.parametrize(("count", "found"), [(5, False), (6, True)])
def test_a_sequence_has_at_least_three_turns_of_two(count: int, found: bool) -> None:
    result = repetition.find(np.array([1, 2] * 3)[:count], np.zeros(count))
    assert (result is not None) == found
    assert repetition.period(np.array([0, 0])) is None and repetition.period(np.array([0, 0, 0])) == (1, 1.0)


@pytest.mark.parametrize(("turns", "found"), [(2, False), (3, True)])
def test_a_loop_has_three_turns_at_least(turns: int, found: bool) -> None:
    tokens = np.tile(np.arange(20), turns)
    assert repetition.period(tokens) == ((20, 1.0) if found else None)


@pytest.mark.parametrize(("missing", "found"), [(6, True), (7, False)])
def test_two_places_of_each_of_three_turns_may_be_missing(missing: int, found: bool) -> None:
    tokens = np.tile(np.arange(40), 3)[missing:]
    assert (repetition.period(tokens) == (40, 1.0)) == found


def test_a_loop_of_layers_inside_the_loop_is_not_the_loop() -> None:
    """Each layer is two names, ten in a turn: from one to the next turn the layers agree only up to their end."""
    turn = [9, *[1, 2] * 10, 8, 7]
    assert repetition.period(np.array(turn * 12)) == (len(turn), 1.0)


@pytest.mark.parametrize(("share", "found"), [(0.97, 1), (0.85, None)])
def test_where_one_name_is_nearly_all_that_is_the_loop(share: float, found: int | None) -> None:
    rng = np.random.default_rng(3)
    tokens = np.where(rng.random(600) < share, 0, rng.integers(1, 200, 600))
    result = repetition.period(tokens)
    assert (result and result[0]) == found


def test_only_the_middle_of_a_long_sequence_is_looked_at_for_the_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The turns are looked for in all of it."""
    monkeypatch.setattr(repetition, "WINDOW", 64)
    rng = np.random.default_rng(0)
    loop = np.tile(np.arange(8), 12)
    for before, after, found in ((40, 40, True), (40, 41, True), (104, 0, False), (0, 104, False)):
        names = np.r_[rng.integers(100, 900, before), loop, rng.integers(100, 900, after)]
        result = repetition.find(names, np.zeros(len(names)))
        if found:
            assert result is not None and (result.period, result.agreement) == (8, 1.0)
            assert len(result.begins) == 12 and result.begins[0] in range(before, before + 8)
        else:
            assert result is None or result.agreement < 1


def test_odd_turns_that_are_equally_far_apart_make_no_longer_turn() -> None:
    """Two turns of many have more work; before, between and after them come about as many turns.

    Where they come exactly as many, nobody can tell.
    """

    def right(seed: int) -> bool:
        draw = np.random.default_rng(seed)
        size, apart = int(draw.integers(4, 40)), int(draw.integers(8, 30))
        turn = draw.integers(0, size, size)
        turn[0] = 100  # a name that comes once
        odd = np.r_[turn, draw.integers(200, 203, int(draw.integers(2, 7)))]
        before, after = int(draw.integers(apart // 2, apart)), apart + int(draw.integers(2, 6))
        names = np.r_[np.tile(turn, before), odd, np.tile(turn, apart), odd, np.tile(turn, after)]
        found = repetition.find(names, np.zeros(len(names)))
        return found is not None and (found.period, len(found.begins)) == (size, before + apart + after + 2)

    assert sum(map(right, range(60))) >= 54


def test_of_several_possible_marks_the_one_after_the_longest_pause_begins_a_turn() -> None:
    names = np.tile([0, 1, 2, 3, 3], 10)
    gap = np.where(names == 2, 90.0, 5.0)
    gap[12] = 0.0  # now and then there is none
    assert repetition._marked(names, gap, 5).tolist() == list(range(2, 50, 5))  # type: ignore[union-attr]
    pairs = np.tile([0, 1, 0, 2, 1, 2], 10)  # no name comes once in a turn, pairs of them do
    found = repetition._marked(pairs, np.where(np.arange(60) % 6 == 3, 9.0, 1.0), 6)
    assert found is not None and found.tolist() == list(range(3, 60, 6))


def test_random_points_are_spread_evenly_and_differ_by_seed() -> None:
    one, other = repetition._scattered(4_000, 0), repetition._scattered(4_000, 1)
    for points in (one, other):
        assert points.min() >= 0 and points.max() < 1 and len(np.unique(points)) == 4_000
        assert np.abs(np.histogram(points, 10, (0, 1))[0] - 400).max() < 80
        assert abs(np.exp(2j * np.pi * points).mean()) < 0.05
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05 and abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.05
