"""Which kernels of several devices are one collective."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.analysis.conftest import NAMES as KERNELS
from tests.unit.analysis.conftest import kernel
from warpsight.analysis.retime import building, meetings
from warpsight.analysis.retime.meetings import _nearest

#: Two collectives, with the ids 3 and 5, among other kernels.
NAMES = (*KERNELS, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)")

TIMES = st.lists(st.integers(-100, 100), min_size=1, max_size=10)


@given(TIMES, TIMES)
def test_the_nearest_of_other_moments_is_that_of_a_search(times, others):
    others = sorted(others)
    found = _nearest(np.array(times), np.array(others))
    assert [abs(others[at] - time) for time, at in zip(times, found.tolist(), strict=True)] == [
        min(abs(other - time) for other in others) for time in times
    ]


def test_of_two_that_are_as_near_it_is_the_earlier():
    assert _nearest(np.array([5]), np.array([0, 10])).tolist() == [0]


def ranks(build, *collectives, names=NAMES):
    """A program of kernels (device, name, begin, end) in µs."""
    rows = [
        kernel(b * 1000, (e - b) * 1000, name, device=d, correlation=i)
        for i, (d, name, b, e) in enumerate(collectives)
    ]
    return building.build(build(kernel=rows, names=names))


def groups(program):
    """The collectives that were found, each as (device, begin in µs) of its kernels."""
    found, graph = meetings.find(program), program.graph
    members: dict[int, list[tuple[int, int]]] = {}
    for node, group in zip(found.node.tolist(), found.group.tolist(), strict=True):
        members.setdefault(group, []).append(
            (graph.queues[graph.queue[node]].device, int(graph.start[node]) // 1000)
        )
    assert sorted(members) == list(range(len(members)))
    return sorted(sorted(one) for one in members.values())


def test_kernels_of_one_name_that_overlap_and_end_together_are_one_collective(build):
    program = ranks(
        build,
        (0, 3, 100, 200), (1, 3, 150, 210), (2, 3, 190, 190 + 8),  # the last comes just before the others end
        (0, 3, 400, 500), (1, 3, 410, 505), (2, 3, 480, 519),
        (0, 2, 700, 800), (1, 2, 700, 800),  # not a collective
        (0, 5, 900, 950), (1, 5, 910, 955),  # another name, of two of the three
    )  # fmt: skip
    assert groups(program) == [
        [(0, 100), (1, 150), (2, 190)],
        [(0, 400), (1, 410), (2, 480)],
        [(0, 900), (1, 910)],
    ]


@pytest.mark.parametrize(
    ("end", "together"),
    [(219, True), (220, True), (221, False), (180, True), (179, False)],
)
def test_ends_lie_within_twenty_microseconds_of_each_other(build, end, together):
    assert groups(ranks(build, (0, 3, 100, 200), (1, 3, 110, end))) == (
        [[(0, 100), (1, 110)]] if together else []
    )


@pytest.mark.parametrize(("end", "together"), [(2_050, True), (2_051, False)])
def test_of_long_collectives_ends_lie_within_a_twentieth_of_the_shortest(build, end, together):
    found = groups(ranks(build, (0, 3, 1_000, 2_000), (1, 3, 1_000, end)))
    assert found == ([[(0, 1_000), (1, 1_000)]] if together else [])


def test_kernels_that_do_not_overlap_or_have_no_partner_of_their_own_meet_nobody(build):
    assert groups(ranks(build, (0, 3, 100, 110), (1, 3, 110, 115))) == []
    assert groups(ranks(build, (0, 3, 100, 200), (0, 3, 100, 205))) == []  # of one device
    # Two of device 0 have the same nearest one of device 1.
    assert groups(ranks(build, (0, 3, 100, 200), (0, 3, 150, 206), (1, 3, 120, 203), (1, 3, 900, 950))) == []


def test_a_collective_lasts_from_the_begin_of_its_last_kernel(build):
    program = meetings.with_meetings(
        ranks(build, (0, 3, 100, 200), (1, 3, 150, 210), (0, 2, 300, 340), (1, 3, 800, 830))
    )
    assert program.duration.tolist() == [50_000, 60_000, 40_000, 30_000]
    alone = ranks(build, (0, 3, 100, 200))
    assert meetings.with_meetings(alone) is alone
