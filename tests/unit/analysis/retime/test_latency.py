"""How long a launch takes to the device is what launches took that nothing held up, and nothing is counted twice."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, copy, kernel, launch
from warpsight.analysis.retime import without
from warpsight.analysis.retime.building import build as build_program
from warpsight.analysis.retime.solving import solve

US = 1_000


def length(times) -> int:
    return int(times.end.max() - times.start.min())


def test_work_that_waits_in_an_empty_stream_shows_no_latency(build):
    """A reduction after every tenth kernel, in a stream of its own, by a wait that the trace does not have.

    The host is done with all launches after 0.2 ms, and so are kernels that take no time.
    """
    kernels, launches, host, device = [], [], EPOCH, EPOCH + 10 * US
    for number in range(40):
        launches.append(launch(host, 2 * US, 2 * number + 1))
        kernels.append(kernel(device, 100 * US, correlation=2 * number + 1))
        device += 101 * US
        if number % 10 == 9:
            launches.append(launch(host + 3 * US, 2 * US, 2 * number + 2))
            kernels.append(kernel(device, 20 * US, 4, stream=8, correlation=2 * number + 2))
            device += 21 * US
        host += 5 * US
    program = build_program(build(kernel=kernels, launch=launches))
    assert length(solve(program)) == length(program.graph)
    changed = solve(without.kernels(program, np.array([1])))
    last = changed.start[program.graph.queue == 0].max()
    assert last < EPOCH + 300 * US


def test_a_copy_that_came_within_its_call_says_nothing_about_another_functions_latency(build):
    """The host goes on 20 µs after a blocking copy; without that code the kernel would begin 1 µs after the copy, not 11."""
    rows = [copy(EPOCH + 50 * US, 850 * US, source_kind="pageable", correlation=1)]
    calls = [
        launch(EPOCH, 885 * US, 1, function="cudaMemcpyAsync"),
        launch(EPOCH + 905 * US, 5 * US, 2),
    ]
    program = build_program(
        build(memcpy=rows, kernel=[kernel(EPOCH + 911 * US, 40 * US, correlation=2)], launch=calls)
    )
    saved = length(program.graph) - length(solve(without.host_code(program)))
    assert saved == 10 * US


@pytest.mark.parametrize("turns", [1, 3, 10])
def test_staged_copies_say_nothing_about_the_latency_of_those_whose_call_waits_for_them(build, turns):
    """To the device the call returns 1 µs before the copy ends, from it 50 µs after: without copies hardly anything is left."""
    copies, calls = [], []
    for number in range(turns):
        host = EPOCH + number * 2_200 * US
        calls.append(launch(host, 999 * US, 2 * number + 1, function="cudaMemcpyAsync"))
        copies.append(copy(host + 20 * US, 980 * US, source_kind="pageable", correlation=2 * number + 1))
        host += 1_040 * US
        calls.append(launch(host, 1_100 * US, 2 * number + 2, function="cudaMemcpyAsync"))
        copies.append(copy(host + 10 * US, 1_040 * US, kind="DtoH", source_kind="device", destination_kind="pageable",
                           correlation=2 * number + 2))  # fmt: skip
    program = build_program(build(memcpy=copies, launch=calls))
    assert length(solve(program)) == length(program.graph)
    assert length(solve(without.copies(program))) <= turns * 150 * US


def test_what_a_copy_engine_explains_is_no_delay_beside_it(build):
    """Four copies to the device in four streams, all launched at once: without the first the others come as much earlier."""
    rows = [
        copy(EPOCH + 10 * US + number * 101 * US, 100 * US, stream=7 + number, correlation=1 + number)
        for number in range(4)
    ]
    calls = [launch(EPOCH + number * US, US, 1 + number) for number in range(4)]
    program = build_program(build(memcpy=rows, launch=calls))
    assert length(solve(program)) == length(program.graph)
    changed = program.duration.copy()
    changed[0] = 0
    assert length(solve(program.but(duration=changed))) == length(program.graph) - 100 * US


@pytest.mark.parametrize(("overlap", "follows"), [(0, True), (300, True), (5_000, True), (30_000, False)])
def test_kernels_of_a_graph_whose_times_overlap_a_little_follow_each_other(build, overlap, follows):
    """Forty kernels of 60 µs in a chain, launched as one graph: every second one is called `norm`, and takes no time."""
    step = 60 * US - overlap
    kernels = [
        kernel(EPOCH + 20 * US + number * step, 60 * US, 1 + number % 2, correlation=1)
        for number in range(40)
    ]
    program = build_program(
        build(
            names=("gemm", "norm"),
            kernel=kernels,
            launch=[launch(EPOCH, 10 * US, 1, function="cudaGraphLaunch")],
        )
    )
    assert length(solve(program)) == length(program.graph)
    saved = length(program.graph) - length(solve(without.kernels(program, np.array([2]))))
    assert (saved > 0.99 * 20 * 60 * US) == follows
