"""The recorder's callbacks: what they took since the host was on its way to a call comes off the gap that the call ends."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.analysis.account.rows import THREAD, US, call, marker, pieces
from tests.unit.analysis.conftest import copy, kernel, launch
from warpsight.analysis.account.pieces import _callbacks

LAUNCH = "cudaLaunchKernel"
OWN = "the recorder's work in GPU calls and ranges"
#: Two callbacks of 500 ns and CUPTI's 1,200 ns: 2.2 µs a call; and each kernel begins 1 µs later for being timed.
CUDA = {"overhead": {"own_cuda_calls": 4, "own_cuda_ns": 2_000}}


@pytest.fixture
def run(build):
    """Idle from 100 to 200 µs and from 250 to 300 µs; launches return at -15, 190 and 290 µs."""

    def make(overhead=CUDA, third=280 * US, thread=THREAD, **tables):
        found = build(
            manifest=overhead,
            kernel=[kernel(0, 100 * US, correlation=1), kernel(200 * US, 50 * US, correlation=2),
                    kernel(300 * US, 50 * US, correlation=3)],
            launch=[launch(-20 * US, 5 * US, 1), launch(180 * US, 10 * US, 2),
                    launch(third, 290 * US - third, 3, thread=thread)], **tables,
        )  # fmt: skip
        return [(c, n, b / US, e / US) for c, n, b, e in pieces(found)]

    return make


def short(*moments: int, function: str = "cudaEventRecord", **more):
    """Calls of 1 µs that end at some moments (µs)."""
    return [call((moment - 1) * US, US, function, **more) for moment in moments]


def test_callbacks_come_off_the_gap_they_made_longer(run):
    found = run(api=short(120, 150))
    assert found[:5] == [
        ("recorder", OWN, 100, 104.4), ("host", "", 104.4, 180), ("launch", LAUNCH, 180, 190),
        ("recorder", OWN, 190, 191), ("launch", LAUNCH, 191, 200),
    ]  # fmt: skip


def test_calls_from_before_the_first_gap_did_not_make_it_longer(run):
    assert run(api=short(20, 99))[0] == ("host", "", 100, 180)
    assert run(api=short(20, 100))[0] == ("recorder", OWN, 100, 102.2)


def test_what_they_took_while_the_device_still_worked_counts_too(run):
    # The callback after the second launch, and those of two calls while the second kernel ran.
    assert run(api=short(211, 240))[4:6] == [("recorder", OWN, 250, 256.6), ("host", "", 256.6, 280)]


def test_what_does_not_fit_before_the_call_is_in_it(run):
    found = run(third=252 * US, api=short(211, 240))[4:]
    assert found == [
        ("recorder", OWN, 250, 252), ("recorder", OWN, 252, 256.6), ("launch", LAUNCH, 256.6, 290),
        ("recorder", OWN, 290, 291), ("launch", LAUNCH, 291, 300),
    ]  # fmt: skip


def test_a_call_that_held_the_host_begins_the_way_anew(run):
    # From 255 to 265 µs: of what came before it nothing counts after it, and it is followed by its own callbacks.
    found = run(api=[*short(211), call(255 * US, 10 * US, "cudaFree")])[4:]
    assert found[:4] == [
        ("recorder", OWN, 250, 254.4), ("host", "", 254.4, 255), ("blocked_call", "cudaFree", 255, 265),
        ("recorder", OWN, 265, 267.2),
    ]  # fmt: skip


def test_what_came_off_before_a_call_that_held_the_host_is_not_taken_from_what_follows(run):
    found = run(third=266 * US, api=[*short(211), call(255 * US, 10 * US, "cudaFree")])[4:]
    assert found[3:6] == [
        ("recorder", OWN, 265, 266),
        ("recorder", OWN, 266, 267.2),
        ("launch", LAUNCH, 267.2, 290),
    ]


def test_each_thread_pays_for_its_own_calls(run):
    # The third launch is another thread's, which had made two calls before, one of them in its gap.
    other = {"thread": THREAD + 1}
    found = run(thread=THREAD + 1, api=[*short(240, 255, **other), *short(260, 270, 320)])
    assert found[4:6] == [("recorder", OWN, 250, 252.2), ("host", "", 252.2, 280)]


@pytest.mark.parametrize(
    ("overhead", "function", "took"),
    [
        ({"own_cuda_calls": 4, "own_cuda_ns": 2_000}, "cudaEventRecord", 2.2),
        ({"own_cuda_calls": 4, "own_cuda_ns": 2_000}, "clSetKernelArg", 0),
        ({"own_opencl_calls": 4, "own_opencl_ns": 2_000}, "clSetKernelArg", 1),
        ({"own_opencl_calls": 4, "own_opencl_ns": 2_000}, "cudaEventRecord", 0),
        ({"own_cuda_calls": 0, "own_cuda_ns": 0}, "cudaEventRecord", 0),
    ],
)
def test_a_call_counts_with_the_mean_of_its_interface(run, overhead, function, took):
    first = run({"overhead": overhead}, api=short(120, function=function))[0]
    assert first == (("recorder", OWN, 100, 100 + took) if took else ("host", "", 100, 180))


def test_a_range_counts_at_its_begin_and_at_its_end(run):
    ranges = [marker(110 * US, 10 * US, 1), marker(130 * US, 20 * US, 1, thread=THREAD + 1),
              marker(150 * US, 300 * US, 1), marker(20 * US, 10 * US, 1),
              {**marker(160 * US, 0, 1), "duration": None}]  # fmt: skip
    first, then, *_ = run({"overhead": {"own_range_calls": 5, "own_range_ns": 2_500}}, marker=ranges)
    assert first == ("recorder", OWN, 100, 101.5)
    assert then == ("host", "", 101.5, 180)


def test_work_begins_later_for_being_timed_only_where_it_is_known(build):
    rows = {
        "kernel": [kernel(0, 100, correlation=1), kernel(400, 5, correlation=2)],
        "launch": [launch(-9, 3, 1), launch(110, 40, 2)],
        "memcpy": [copy(300, 20)],
    }
    found = pieces(build(manifest=CUDA, **rows))
    assert found[-1] == ("recorder", OWN, 320, 400)  # less than it takes: no part is latency
    assert "recorder" not in {kind for kind, *_ in pieces(build(**rows))}


def test_what_was_cut_off_before_is_no_negative_part_of_a_piece() -> None:
    """Callbacks of 3 ns in all, of which earlier pieces of the gap have taken 10, as means of many calls may."""
    piece = tuple(np.array([one]) for one in (0, 50, 80))
    before = tuple(np.array([one]) for one in (0, 20, 30, 7))
    own = np.array([25, 60]), np.array([1.0, 2.0])
    cut, rest = _callbacks(piece, np.array([15]), own, 1_000, 7, before)
    assert [column.tolist() for column in cut] == [[0], [50], [50], [7]]
    assert [column.tolist() for column in rest] == [[0], [50], [80]]
