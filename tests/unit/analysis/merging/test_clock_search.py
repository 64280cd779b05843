"""The steps by which the offset of two clocks is found, each against its definition counted moment by moment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from warpsight.analysis.merge import clocks

Column = NDArray[Any]
MOMENTS = st.lists(st.integers(0, 400), min_size=1, max_size=30).map(lambda found: np.array(sorted(found)))


def irregular(seed: int, count: int, mean_ns: float = 20_000) -> Column:
    return 10**15 + np.cumsum(np.random.default_rng(seed).exponential(mean_ns, count) + 500).astype(np.int64)


@settings(max_examples=150, deadline=None)
@given(MOMENTS, MOMENTS, st.integers(-60, 60), st.integers(0, 40))
def test_differences_are_all_of_those_within_reach_both_ends_included(
    ours: Column, theirs: Column, offset: int, reach: int
) -> None:
    every = [t - o - offset for o in ours.tolist() for t in theirs.tolist()]
    found = clocks._differences(ours, theirs, offset, reach)
    assert found.tolist() == [one for one in every if abs(one) <= reach]


@settings(max_examples=150, deadline=None)
@given(MOMENTS, MOMENTS.map(np.unique), st.integers(-60, 60), st.integers(0, 20))
def test_the_explained_share_counts_each_nearest_partner_once(
    ours: Column, theirs: Column, offset: int, width: int
) -> None:
    partners = set()
    for moment in (ours + offset).tolist():
        distance = min(abs(one - moment) for one in theirs.tolist())
        # Of two as near, the later one.
        nearest = max(one for one in theirs.tolist() if abs(one - moment) == distance)
        if distance <= width:
            partners.add(nearest)
    assert clocks._explained(ours, theirs, offset, width) == pytest.approx(len(partners) / len(ours))


@pytest.mark.parametrize(
    ("gaps", "width"),
    [
        ([8_000, 8_000, 80_000], 1_000),  # an eighth of the usual gap
        ([8_000, 8_000, 8_000, 0, 0, 0, 0, 0], 1_000),  # calls of one moment have none between them
        ([800, 800, 800], 200),
        ([1_600, 1_600], 200),
        ([1_608, 1_608], 201),
        ([7_999_992, 7_999_992], 999_999),
        ([9_000_000, 9_000_000], 1_000_000),
        ([0, 0, 0], 200),
    ],
)
def test_a_partner_is_as_near_as_an_eighth_of_the_usual_gap_within_bounds(
    gaps: list[int], width: int
) -> None:
    assert clocks._width(np.cumsum([10**15, *gaps])) == width


@pytest.mark.parametrize(
    ("count", "first", "last"), [(5, 0, 4), (2_048, 0, 2_047), (2_051, 1, 2_048), (5_000, 1_476, 3_523)]
)
def test_the_stretch_searched_for_is_the_middle(count: int, first: int, last: int) -> None:
    stretch, begin = clocks._busiest(np.arange(count))
    assert (begin, stretch[0], stretch[-1]) == (first, first, last)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=40))
def test_peaks_are_the_six_highest_places_above_their_neighbors(values: list[int]) -> None:
    fit = np.array(values, float)
    size = len(values)
    local = [i for i in range(size) if values[i] >= values[i - 1] and values[i] > values[(i + 1) % size]]
    found = clocks._peaks(fit)
    if not local:
        assert found.tolist() == [0]
        return
    highest = sorted((values[i] for i in local), reverse=True)[:6]
    assert [values[i] for i in found.tolist()] == highest
    assert set(found.tolist()) <= set(local) and len(set(found.tolist())) == len(found)


@pytest.mark.parametrize("offset", [-700_000, -12_345, 0, 1_000_003])
def test_the_offset_of_equal_patterns_is_refined_to_the_nanosecond(offset: int) -> None:
    ours = irregular(5, 300)
    theirs = ours + offset
    assert clocks._refined(ours, theirs, offset + 1_900, 2_000) == offset
    assert clocks._refined(ours, theirs, offset - 1_900, 2_000) == offset
    assert clocks._refined(ours[:1], theirs[200:], 77, 10) == 77  # no partner in reach: as it was
    searched = clocks._searched(ours, theirs)
    assert offset in searched
    assert clocks._searched(ours, ours)[0] == 0


def test_few_moments_explain_themselves_within_a_millisecond() -> None:
    ours = np.array([0, 10_000_000], np.int64) + 10**15
    for moved, share in ((999_999, 1.0), (1_000_000, 1.0), (1_000_001, 0.0)):
        found = clocks.find(ours, ours + moved)
        assert found is not None
        assert (found.offset.tolist(), found.explained, found.rival) == ([0], share, 0.0)
    near = clocks.find(ours[:1], np.array([999_999, 1_080_000], np.int64) + 10**15)  # however near calls are
    assert near is not None and near.explained == 1.0
    three = np.append(ours, 10**15 + 25_000_000)
    found = clocks.find(three, ours)  # two of three, however many there are on one side
    assert found is not None and found.explained == pytest.approx(2 / 3) and found.rival == 0.0


def test_three_moments_are_enough_to_find_an_offset() -> None:
    ours = 10**15 + np.array([0, 1_000_000, 5_000_000])
    found = clocks.find(ours, ours + 123_456_789)
    assert found is not None
    assert (found.corrected(ours) - ours).tolist() == [123_456_789] * 3


def test_a_pattern_that_comes_twice_leaves_the_offset_unknown() -> None:
    ours = irregular(9, 400)
    length = int(ours[-1] - ours[0]) + 1_000_000
    twice = clocks.find(ours, np.concatenate([ours, ours + length]))
    assert twice is not None and twice.explained == 1.0 and twice.rival == 1.0 and not twice.known
    once = clocks.find(ours, ours)
    assert once is not None and once.explained == 1.0 and once.rival < 0.5 and once.known


def test_a_rival_is_weighed_by_what_it_explains() -> None:
    """Seven tenths of the pattern come again later: the first place is known still, with the second for a rival."""
    ours = irregular(9, 400)
    length = int(ours[-1] - ours[0]) + 1_000_000
    part = clocks.find(ours, np.concatenate([ours, ours[:280] + length]))
    assert part is not None and part.explained == 1.0 and part.known
    assert part.rival == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize(("apart", "rival"), [(600, 0.04), (800, 0.04), (801, 0.5), (2_000, 0.5)])
def test_the_places_beside_an_offset_are_not_its_rivals(apart: int, rival: float) -> None:
    """Half of a list of pairs fits when moved by their distance; within four widths (of 200 ns here) it is the same place."""
    ours = irregular(4, 400, 40_000)
    pairs = np.sort(np.concatenate([ours, ours + apart]))
    found = clocks.find(pairs, pairs)
    assert found is not None and found.known and found.rival == pytest.approx(rival, abs=0.02)
    assert (found.corrected(pairs) == pairs).all()


def line(count: int, slope: float, level: int) -> tuple[Column, Column]:
    at = np.arange(count) * 10_000_000 + 10**15
    return at, level + np.rint((at - at[0]) * slope).astype(np.int64)


def test_offsets_along_a_line_become_its_two_ends() -> None:
    at, offset = line(9, 1e-5, 700)
    scattered = offset + np.array([0, 900, -900, 0, 400, -400, 0, 1_400, 0])
    ends, found = clocks._smooth(at, scattered)
    assert ends.tolist() == [at[0], at[-1]]
    assert found.tolist() == pytest.approx([700, 700 + 800], abs=500)
    exact_ends, exact = clocks._smooth(at, offset)
    assert (exact_ends.tolist(), exact.tolist()) == ([at[0], at[-1]], [700, 1_500])
    three = clocks._smooth(at[:3], offset[:3])
    assert (three[0].tolist(), three[1].tolist()) == ([at[0], at[2]], [700, 900])


@pytest.mark.parametrize(("away", "kept"), [(1_500, 2), (1_501, 9)])
def test_offsets_off_their_line_are_all_kept(away: int, kept: int) -> None:
    at, offset = line(9, 0.0, 700)
    offset[4] += away
    ends, found = clocks._smooth(at, offset)
    assert len(ends) == len(found) == kept
    assert found.tolist() == ([700, 700] if kept == 2 else offset.tolist())


def test_the_slope_of_a_line_is_that_of_most_of_its_steps() -> None:
    """One step of three is not: offsets of 0, 0, 900 and 900 lie beside a level line, 450 on either side."""
    at, _ = line(4, 0.0, 0)
    found = clocks._smooth(at, np.array([0, 0, 900, 900]) + 5_000)
    assert (found[0].tolist(), found[1].tolist()) == ([at[0], at[3]], [5_450, 5_450])


def test_two_offsets_are_a_line_already() -> None:
    at, offset = line(2, 1e-3, 5)
    found = clocks._smooth(at, offset)
    assert (found[0].tolist(), found[1].tolist()) == (at.tolist(), offset.tolist())


@pytest.mark.parametrize("bend_ppm", [160, -80])
def test_a_clock_that_changes_its_pace_is_followed_through_every_stretch(bend_ppm: int) -> None:
    ours = irregular(6, 12_000)
    middle = int(ours[6_000])
    truth = ours + 3_000_000 + np.rint(np.maximum(ours - middle, 0) * bend_ppm * 1e-6).astype(np.int64)
    found = clocks.find(ours, truth)
    assert found is not None and found.known
    # 11 stretches of 1,024 and the rest, each at its middle
    assert len(found.at) == 12 and found.at[0] == ours[512] and found.at[-1] == ours[11_264 + 368]
    error = np.abs(found.corrected(ours) - truth)
    assert np.median(error) <= 60 and error.max() <= 1_024 * 20_500 * abs(bend_ppm) * 1e-6


@pytest.mark.parametrize(("count", "stretches"), [(4_351, 4), (4_352, 5)])
def test_a_short_rest_belongs_to_the_stretch_before_it(count: int, stretches: int) -> None:
    """255 or 256 moments behind four stretches."""
    ours = irregular(6, count, 60_000)
    bent = np.maximum(ours - ours[2_000], 0) // 10_000  # no line, so that every stretch shows
    found = clocks.find(ours, ours + bent)
    assert found is not None and len(found.at) == stretches


@pytest.mark.parametrize("drift", [-4e-4, 0.0, 3e-5, 9e-4])
def test_a_fit_finds_the_drift_within_what_a_partner_allows(drift: float) -> None:
    stretch = irregular(8, 1_500)
    middle = int(stretch[750])
    theirs = stretch + 5_000 + np.rint((stretch - middle) * drift).astype(np.int64)
    width = clocks._width(theirs)
    found = clocks._fit(stretch, theirs, 5_000, width)
    assert found.explained > 0.9
    half = max(int(stretch[-1]) - middle, middle - int(stretch[0]))
    assert abs(found.drift - drift) * half <= 2 * width
    assert abs(found.offset - 5_000) <= 2 * width
    given_drift = clocks._fit(stretch, theirs, 5_000, width, drift)
    assert (given_drift.drift, given_drift.explained) == (drift, 1.0)
    assert abs(given_drift.offset - 5_000) <= 1


@pytest.mark.parametrize("count", [1_500, 2_600, 3_000])
@pytest.mark.parametrize("ppm", [-800, 800])
def test_a_strong_drift_is_carried_from_the_stretch_searched_to_the_others(count: int, ppm: int) -> None:
    """Their middles are up to ten milliseconds apart, which is eight microseconds at this pace."""
    ours = irregular(2, count)
    truth = ours + 40_000_000 + np.rint((ours - ours[0]) * ppm * 1e-6).astype(np.int64)
    found = clocks.find(ours, truth)
    assert found is not None and found.known
    assert np.abs(found.corrected(ours) - truth).max() <= 3_000
    assert found.drift == pytest.approx(ppm * 1e-6, rel=0.05)
