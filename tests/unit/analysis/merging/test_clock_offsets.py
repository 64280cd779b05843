"""Moments of one clock on the other: between known offsets, before the first and after the last."""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.analysis.merge.clocks import ClockOffset, _explained, _mode, _nearest_mode

EPOCH = 1_790_000_000_123_456_789


def offset(at, offsets, explained=1.0, rival=0.0):
    return ClockOffset(np.array(at, np.int64) + EPOCH, np.array(offsets, np.int64), explained, rival)


def corrected(one, *moments):
    return (one.corrected(np.array(moments, np.int64) + EPOCH) - EPOCH).tolist()


def test_between_two_offsets_the_clock_drifts_evenly():
    one = offset([0, 1_000, 3_000], [50, 60, 100])
    assert corrected(one, 0, 500, 1_000, 2_000, 3_000) == [50, 555, 1_060, 2_080, 3_100]
    assert one.drift == pytest.approx(50 / 3_000)


def test_beyond_its_ends_it_goes_on_as_it_does_there():
    one = offset([0, 1_000, 3_000], [50, 60, 100])
    assert corrected(one, -1_000, 4_000, 5_000) == [-960, 4_120, 5_140]
    assert corrected(offset([7], [-3]), -1_000, 7, 1_000) == [-1_003, 4, 997]
    assert offset([7], [-3]).drift == 0


def test_offsets_of_hours_keep_every_nanosecond():
    day = 86_400 * 10**9
    assert corrected(offset([0, 10], [day, day + 1]), 0, 10) == [day, day + 11]
    assert offset([0, 10], [-day, -day - 1]).drift == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("explained", "rival", "known"),
    [
        (0.5, 0.0, True),
        (0.49, 0.0, False),
        (1.0, 0.89, True),
        (1.0, 0.9, False),
        (0.6, 0.54, False),
        (0.6, 0.53, True),
    ],
)
def test_an_offset_is_known_when_it_explains_half_and_no_other_does_as_well(explained, rival, known):
    assert offset([0], [0], explained, rival).known == known


@pytest.mark.parametrize(
    ("ours", "shift", "width", "share"),
    [
        ([0, 10, 20, 30], 5, 0, 1.0),
        ([0, 10, 20, 30], 4, 1, 1.0),
        ([0, 10, 20, 30], 3, 1, 0.0),
        ([0, 1, 20, 30], 5, 1, 0.75),  # one partner explains one moment
        ([0, 10, 20, 300], 5, 0, 0.75),
        ([-50, 0, 10, 20], 5, 0, 0.75),
    ],
)
def test_a_moment_is_explained_by_a_partner_of_its_own(ours, shift, width, share):
    assert _explained(np.array(ours), np.array([5, 15, 25, 35]), shift, width) == share


def test_the_mode_is_the_middle_of_the_densest_place():
    assert _mode(np.array([0, 500, 501, 502, 503, 900]), 50) == 501
    assert _mode(np.array([7]), 50) == 7
    assert _mode(np.array([-700, -650, -640, 0, 1]), 100) == -650


def test_a_stretch_without_enough_partners_has_no_offset():
    theirs = np.arange(0, 100_000, 1_000)
    piece = theirs[:40] + 250
    assert _nearest_mode(piece, theirs, -300, 400) == -250
    assert _nearest_mode(np.append(piece[:9], np.arange(31) + 10**7), theirs, -300, 400) is None
    assert _nearest_mode(np.append(piece[:10], np.arange(30) + 10**7), theirs, -300, 400) == -250
