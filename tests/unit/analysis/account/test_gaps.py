"""Idle stretches, cut by the call that issued the work that ends them, and what still counts as latency."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.analysis.account.rows import US, call
from tests.unit.analysis.conftest import EPOCH, copy, kernel, launch
from warpsight.analysis.account import account


def cut(build, **tables):
    """Each gap: begin, issued, returned, end."""
    found = account(build(**tables))
    gaps = found.gaps
    columns = (gaps.begin, issued(found), gaps.returned, gaps.end)
    return [tuple(int(column[i]) for column in columns) for i in range(len(gaps))]


def issued(found):
    """When the call that ends each gap began."""
    return found.gaps.issued(found.calls, np.arange(len(found.gaps)))


@pytest.mark.parametrize(
    ("begin", "length", "expected"),
    [
        (130, 20, (100, 130, 150, 200)),  # host, the call, latency
        (60, 70, (100, 100, 130, 200)),  # the call was going on when the device fell idle: no host part
        (40, 30, (100, 100, 100, 200)),  # it had returned: all of it is latency
        (100, 0, (100, 100, 100, 200)),
        (190, 40, (100, 190, 200, 200)),  # it returns after the work began: the call part ends there
        (230, 40, (100, 200, 200, 200)),  # clocks disagree: it begins after its work
    ],
)
def test_a_stretch_is_cut_at_the_begin_and_the_end_of_the_call(build, begin, length, expected):
    tables = {
        "kernel": [kernel(EPOCH, 100), kernel(EPOCH + 200, 50, correlation=2)],
        "launch": [launch(EPOCH + begin, length, 2)],
    }
    assert cut(build, **tables) == [tuple(EPOCH + moment for moment in expected)]


def test_work_whose_call_is_not_in_the_trace_says_nothing_about_the_host(build):
    trace = build(kernel=[kernel(0, 100, correlation=1), kernel(200, 50)], launch=[launch(-10, 5, 1)])
    found = account(trace)
    gaps = found.gaps
    assert (gaps.begin.tolist(), issued(found).tolist(), gaps.returned.tolist()) == ([100], [100], [100])
    assert gaps.known.tolist() == [False]


def test_the_call_that_matters_is_that_of_the_first_work_after_the_stretch(build):
    # Two streams begin to work at the same moment after the gap: the row that was recorded first is the one.
    trace = build(
        kernel=[kernel(0, 100), kernel(200, 50, correlation=2, stream=8), kernel(200, 50, correlation=3)],
        launch=[launch(120, 10, 2), launch(140, 10, 3)],
    )
    found = account(trace)
    assert (issued(found).tolist(), found.gaps.row.tolist()) == ([120], [1])


def test_devices_have_stretches_of_their_own(build):
    trace = build(kernel=[kernel(0, 10), kernel(90, 10), kernel(10, 70, device=1), kernel(85, 5, device=1)])
    gaps = account(trace).gaps
    found = [(gaps.devices[d], b, e) for d, b, e in zip(gaps.device, gaps.begin, gaps.end, strict=True)]
    assert found == [(0, 10, 90), (1, 80, 85)]


def test_devices_that_are_not_known_are_one(build):
    trace = build(kernel=[kernel(0, 10, device=None), kernel(90, 10, device=None)])
    assert account(trace).gaps.devices == [None]


def limits(build, latencies, functions=None, more=()):
    """The longest latency of each of some gaps. Each launch finds an empty queue, its kernel begins `latency` µs after it."""
    kernels, launches, at = [kernel(0, 10 * US)], [], 10 * US
    for number, latency in enumerate(latencies, 1):
        function = functions[number - 1] if functions else "cudaLaunchKernel"
        launches.append(launch(at + 5 * US, 2 * US, number, function=function))
        begin = at + 7 * US + int(latency * US)
        kernels.append(kernel(begin, 10 * US, correlation=number))
        at = begin + 10 * US
    kernels += [kernel(at + begin * US, 10 * US, correlation=900 + i) for i, (_, begin) in enumerate(more)]
    launches += [launch(at + begin * US, 1 * US, 900 + i) for i, (begin, _) in enumerate(more)]
    found = account(build(kernel=kernels, launch=launches))
    return (found.gaps.limit[found.calls.function[found.gaps.call]] / US).tolist()


@pytest.mark.parametrize(
    ("latencies", "limit"),
    [
        ([5, 5, 5], 20),  # four times the usual
        ([2, 5, 80], 20),  # the middle one, not the mean
        ([1, 1, 1], 10),  # at least 10 µs
        ([2.5, 2.5, 2.5], 10),
        ([2.6, 2.6, 2.6], 10.4),
        ([24, 24, 24], 96),
        ([25, 25, 25], 100),
        ([26, 26, 26], 100),  # at most 100 µs
    ],
)
def test_latency_is_what_launches_into_an_empty_queue_usually_take(build, latencies, limit):
    assert limits(build, latencies) == [limit] * 3


def test_launches_that_were_made_ahead_say_nothing_about_latency(build):
    # The last kernel was launched 60 µs before the device fell idle: its 40 µs are not latency of a launch.
    found = limits(build, [5], more=[(-60, 40)])
    assert found == [20, 20]


def test_a_function_has_a_latency_of_its_own_when_there_are_twenty_launches_of_it(build):
    few = [*["cudaLaunchKernel"] * 40, *["cudaGraphLaunch"] * 19]
    many = [*["cudaLaunchKernel"] * 40, *["cudaGraphLaunch"] * 20]
    # Graphs take 20 µs, kernels 4 µs. With 19 graphs all share the median, 4 µs.
    assert set(limits(build, [4] * 40 + [20] * 19, few)) == {16}
    found = limits(build, [4] * 40 + [20] * 20, many)
    assert (set(found[:40]), set(found[40:])) == ({16}, {80})


def test_without_launches_into_an_empty_queue_ten_microseconds_are_latency(build):
    trace = build(
        kernel=[kernel(0, 100 * US), kernel(150 * US, US, correlation=2)], launch=[launch(50 * US, US, 2)]
    )
    assert set(account(trace).gaps.limit.tolist()) == {10 * US}
    assert account(build(kernel=[kernel(0, 10), kernel(20, 5)])).gaps.limit.tolist() == [10 * US]


def test_a_copy_that_returns_after_it_began_had_no_latency(build):
    # cudaMemcpy begins when the device is idle and returns when the copy is done: 0 µs, not a negative number
    trace = build(
        kernel=[kernel(0, 10 * US)],
        memcpy=[copy(30 * US, 500 * US, correlation=2, asynchronous=False)],
        api=[call(20 * US, 520 * US, "cudaMemcpy", correlation=2)],
    )
    assert set(account(trace).gaps.limit.tolist()) == {10 * US}
