"""Pairs of stacks and calls, against trying every stack with every call."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.merge import matching
from warpsight.analysis.merge.matching import ALONE, AMBIGUOUS, MATCHED, _MatchWindow

MOMENTS = st.lists(st.integers(0, 120), max_size=9).map(sorted)
ALLOWED = st.tuples(st.integers(-9, 2), st.integers(3, 20))


def paired(ours: list[int], theirs: list[int], early: int, late: int) -> tuple[list[int], list[int]]:
    """The single call where each stack looks, if no other stack looks there."""
    near = [[j for j, begin in enumerate(theirs) if time + early <= begin <= time + late] for time in ours]
    claims = [sum(j in one for one in near) for j in range(len(theirs))]
    sure = [len(one) == 1 and claims[one[0]] == 1 for one in near]
    return (
        [one[0] if good else -1 for one, good in zip(near, sure, strict=True)],
        [MATCHED if good else AMBIGUOUS if one else ALONE for one, good in zip(near, sure, strict=True)],
    )


def in_order(ours: list[int], theirs: list[int], early: int, late: int) -> tuple[list[int], list[int]]:
    """Between two sure pairs as many stacks as calls are pairs in order, where none is too far from its call."""
    call, state = paired(ours, theirs, early, late)
    if not ours or not theirs:
        return call, state
    sure = [i for i, one in enumerate(state) if one == MATCHED]
    reach = max(4 * (late - early), 20_000)
    for a, b in zip([-1, *sure], [*sure, len(ours)], strict=True):
        first, last = call[a] if a >= 0 else -1, call[b] if b < len(ours) else len(theirs)
        if b - a - 1 != last - first - 1:
            continue
        for step in range(1, b - a):
            apart = theirs[first + step] - ours[a + step]
            if early <= apart <= reach:
                good = len(ours) == len(theirs) or apart <= late
                state[a + step] = MATCHED if good else AMBIGUOUS
                call[a + step] = first + step if good else -1
    return call, state


@settings(derandomize=True, max_examples=60)
@given(MOMENTS, MOMENTS, ALLOWED, st.booleans())
def test_pairs_are_those_of_trying_every_stack_with_every_call(
    ours: list[int], theirs: list[int], allowed: tuple[int, int], ordered: bool
) -> None:
    moments = np.array(ours, np.int64) * 1_000, np.array(theirs, np.int64) * 1_000
    early, late = (one * 1_000 for one in allowed)
    call, state = matching.match(*moments, _MatchWindow(early, late), ordered=ordered)
    expected = (in_order if ordered else paired)(moments[0].tolist(), moments[1].tolist(), early, late)
    assert (call.tolist(), state.tolist()) == expected


@pytest.mark.parametrize(("late", "state"), [(20, MATCHED), (21, ALONE)])
def test_a_thread_that_was_interrupted_may_be_20_us_late_where_nothing_is_missing(
    late: int, state: int
) -> None:
    ours, theirs = np.array([0, 100]) * 1_000, np.array([late, 101]) * 1_000
    found = matching.match(ours, theirs, _MatchWindow(-500, 2_000), ordered=True)
    assert found[1].tolist() == [state, MATCHED]


@settings(derandomize=True, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 400), max_size=14, unique=True).map(sorted),
            st.lists(st.integers(0, 400), max_size=14, unique=True).map(sorted),
        ),
        max_size=3,
    ),
    st.sampled_from((3, 40, 500, 50_000)),
    st.sampled_from((1, 40)),
)
def test_the_window_holds_nearly_all_distances_of_nearest_pairs(
    sequences: list[tuple[list[int], list[int]]], limit: int, unit: int
) -> None:
    found = []
    sequences = [([unit * one for one in ours], [unit * one for one in theirs]) for ours, theirs in sequences]
    for ours, theirs in sequences:
        for time in ours:
            if theirs:
                call = min(theirs, key=lambda one: (abs(one - time), one))
                if min(ours, key=lambda one: (abs(one - call), one)) == time and abs(call - time) <= limit:
                    found.append(call - time)
    expected = -limit, limit
    if len(found) >= 8:
        middle = float(np.median(found))
        spread = float(np.median(np.abs(np.array(found) - middle)))
        core = [one for one in found if abs(one - middle) <= max(12 * spread, 2_000)]
        low, high = np.quantile(core, [0.002, 0.998])
        pad = max(4 * spread, 300.0)
        expected = max(int(low - pad), -limit), min(int(high + pad), limit)
    moments = (
        [np.array(ours, np.int64) for ours, _ in sequences],
        [np.array(one, np.int64) for _, one in sequences],
    )
    window = matching.window(*moments, limit)
    assert (window.early, window.late) == expected


def test_the_window_leaves_out_chance_pairs_far_away() -> None:
    """Stacks 1 µs before their calls, give or take 100 ns, and one whose call was lost 90 µs before another."""
    ours = np.arange(100) * 1_000_000
    theirs = ours + 1_000 + np.arange(100) % 2 * 100
    theirs[50] += 90_000
    window = matching.window([ours], [theirs], 200_000)
    assert (window.early, window.late) == (1_000 - 300, 1_100 + 300)
    assert matching.window([ours[:8]], [theirs[:8]], 200_000).late == 1_400
    assert matching.window([ours[:7]], [theirs[:7]], 200_000).late == 200_000  # too few to know
