"""Clocks of a job that only their wall clocks relate, and the bounds of those that collectives relate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from warpsight.cluster import bandwidth
from warpsight.cluster.clocks import rank_clocks as clocks


def rank(clock: str, wall: int | None, error: int | None = None, begin: int = 0, end: int = 0) -> Any:
    """What clocks need of a rank's summary."""
    about = SimpleNamespace(clock=clock, wall=wall, wall_error=error, begin=begin, end=end)
    return cast(Any, SimpleNamespace(about=about))


def test_a_clock_that_is_behind_the_wall_clock_by_more_is_moved_forward() -> None:
    """At 0 on clock b the wall clock shows 1,700, which is 700 on clock a."""
    found = clocks.synchronize([rank("a", 1_000), rank("b", 1_700)], [])
    assert found.corrected(0, np.array([0, 50])).tolist() == [0, 50]
    assert found.corrected(1, np.array([0, 50])).tolist() == [700, 750]


@pytest.mark.parametrize(
    ("one", "other", "bound"), [(5, 7, 12.0), (0, 3, 3.0), (None, 7, None), (5, None, None)]
)
def test_the_errors_of_two_wall_clocks_add_up(
    one: int | None, other: int | None, bound: float | None
) -> None:
    found = clocks.synchronize([rank("a", 1_000, one), rank("b", 1_700, other)], [])
    assert found.bound(0, 1) == found.worst == bound


def test_the_clock_with_the_most_ranks_is_the_reference_and_the_first_one_if_equal() -> None:
    found = clocks.synchronize([rank("a", 0), rank("b", 10), rank("b", 10)], [])
    assert [one.source for one in found.clocks] == [clocks.WALL, clocks.SAME]
    found = clocks.synchronize([rank("a", 0), rank("b", 10)], [])
    assert [one.source for one in found.clocks] == [clocks.SAME, clocks.WALL]


class Drifting:
    """An offset whose error bound grows by 1 ns in 10."""

    def offset(self, times: Any) -> tuple[Any, Any]:
        return np.zeros(len(times)), np.abs(times) / 10


def test_a_bound_covers_all_work_of_its_ranks() -> None:
    ranks = [rank("b", 0, begin=100, end=200), rank("b", 0, begin=150, end=900)]
    assert clocks._largest_bound(cast(Any, Drifting()), ranks, [0, 1]) == 90.0


@pytest.mark.parametrize(
    ("speeds", "hosts", "limit"),
    [((4e11, 6e10, 4e11), "aaa", 6e10), ((4e11, None), "aa", None), ((4e11, 4e11), "ab", None)],
)
def test_the_slowest_rank_of_a_host_limits_its_group(
    speeds: tuple[float | None, ...], hosts: str, limit: float | None
) -> None:
    summaries = [SimpleNamespace(about=SimpleNamespace(host=host, link_speed=speed))
                 for host, speed in zip(hosts, speeds, strict=True)]  # fmt: skip
    waiting = SimpleNamespace(job=SimpleNamespace(summaries=summaries))
    assert bandwidth._limit(cast(Any, waiting), range(len(speeds))) == limit
