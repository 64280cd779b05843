"""Runs of queries wait for the work that ended between the last two of them."""

from __future__ import annotations

import pytest

from tests.unit.analysis.account.rows import call
from tests.unit.analysis.conftest import kernel, launch
from warpsight.analysis.retime.building import build as build_program
from warpsight.analysis.retime.program import POLL
from warpsight.analysis.retime.solving import solve

QUERIES = (2_000, 3_000, 4_000)


def polled(
    build, queries=QUERIES, ends=3_500, function="cudaEventQuery", more=(), process=0, issued=100, **work
):
    """Times at which points of queries wait for the kernel, and how long after its end; queries take 300 ns."""
    trace = build(
        kernel=[kernel(1_000, ends - 1_000, correlation=1, process=process, **work)],
        launch=[launch(issued, 50, 1, process=process)],
        api=[*(call(at, 300, function) for at in queries), *more],
    )
    program = build_program(trace)
    chosen = program.links.kind == POLL
    point, lag = program.links.target[chosen], program.links.lag[chosen]
    assert (program.lag[point] == 0).all()
    assert (solve(program).end == program.graph.end).all()
    return sorted(zip(program.graph.time[point].tolist(), lag.tolist(), strict=True))


def test_all_but_the_first_query_are_as_long_before_or_after_the_end_as_they_were(build):
    assert polled(build) == [(3_000, -500), (3_300, -200), (4_000, 500)]


@pytest.mark.parametrize(("ends", "waits"), [(3_001, True), (3_000, False), (4_000, True), (4_001, False)])
def test_the_work_ends_after_the_last_query_but_one_has_begun_and_before_the_last(build, ends, waits):
    assert bool(polled(build, ends=ends)) == waits


def test_one_query_is_no_run(build):
    assert polled(build, queries=(4_000,)) == []
    assert polled(build, queries=(3_000, 4_000)) == [(4_000, 500)]


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (call(3_400, 100, "cudaMalloc"), []),  # the run ends before the kernel does, and another begins
        (call(3_400, 100, "cudaMalloc", thread=101), [(3_000, -500), (3_300, -200), (4_000, 500)]),
        (call(5_000, 100, "cudaStreamQuery"), [(3_000, -500), (3_300, -200), (4_000, 500)]),
    ],
)
def test_a_run_is_of_one_function_without_other_calls_of_its_thread(build, more, found):
    assert polled(build, more=[more]) == found


def test_queries_of_another_process_and_other_calls_do_not_poll(build):
    assert polled(build, process=1) == []
    assert polled(build, function="cudaEventRecord") == []
    assert polled(build, function="cuStreamQuery") != []
