"""The relation of two clocks, found from the moments of the same calls on both."""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.analysis.merge import clocks


def moments(seed: int, count: int, mean_ns: float) -> np.ndarray:
    return 10**15 + np.cumsum(np.random.default_rng(seed).exponential(mean_ns, count) + 500).astype(np.int64)


def other_clock(ours: np.ndarray, offset: int, ppm: float, jitter: int, lost: float, seed: int) -> np.ndarray:
    chance = np.random.default_rng(seed + 1)
    theirs = ours + offset + np.rint((ours - ours[0]) * ppm * 1e-6).astype(np.int64)
    theirs += chance.integers(0, jitter + 1, len(ours))
    return np.sort(theirs[chance.random(len(ours)) >= lost])


@pytest.mark.parametrize("count", [40, 1_000, 1_100, 1_300, 3_000, 9_000])
@pytest.mark.parametrize(
    ("offset", "ppm"), [(0, 0), (7_000_000_000, 0), (-300_000_000, 150), (12_345, -150), (10**9, 60)]
)
@pytest.mark.parametrize("lost", [0.0, 0.2])
def test_every_moment_is_moved_to_its_partner(count: int, offset: int, ppm: float, lost: float) -> None:
    ours = moments(3, count, 20_000)
    theirs = other_clock(ours, offset, ppm, 200, lost, 3)
    found = clocks.find(ours, theirs)
    assert found is not None and found.known
    assert found.explained >= 0.9 - lost
    truth = ours + offset + np.rint((ours - ours[0]) * ppm * 1e-6).astype(np.int64)
    assert np.abs(found.corrected(ours) - truth).max() <= 8_000
    # beyond the ends, too
    beyond = np.array([ours[0] - 10**7, ours[-1] + 10**7])
    expected = beyond + offset + np.rint((beyond - ours[0]) * ppm * 1e-6).astype(np.int64)
    assert np.abs(found.corrected(beyond) - expected).max() <= 20_000


def test_clocks_of_different_calls_are_not_known() -> None:
    found = clocks.find(moments(1, 3_000, 20_000), moments(2, 3_000, 20_000))
    assert found is not None and not found.known


def test_two_moments_are_taken_as_they_are_and_none_say_nothing() -> None:
    ours = moments(1, 2, 20_000)
    found = clocks.find(ours, ours + 3)
    assert found is not None and found.corrected(ours).tolist() == ours.tolist()
    assert found.explained == 1.0 and found.rival == 0.0
    assert clocks.find(ours[:0], ours) is None and clocks.find(ours, ours[:0]) is None


def test_calls_that_all_began_at_one_moment_are_no_error() -> None:
    ours = np.full(4_000, 10**15, np.int64)
    found = clocks.find(ours, ours + 12_345)
    assert found is not None and np.abs(found.corrected(ours) - (ours + 12_345)).max() <= 1
