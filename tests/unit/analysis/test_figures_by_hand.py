"""Summaries of small traces, each number worked out by hand: shares, failures, bandwidths, clocks, flame graphs and gaps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.account.rows import call
from tests.unit.analysis.conftest import EPOCH, Build, copy, device, kernel, launch
from warpsight.analysis.account import gaps as account_gaps
from warpsight.analysis.account import questions
from warpsight.analysis.flame import rows as flame_rows
from warpsight.analysis.flame.runs import in_order
from warpsight.analysis.ops import modules
from warpsight.analysis.stats.clocks import clocks
from warpsight.analysis.stats.communication import communication
from warpsight.analysis.stats.sums import stats
from warpsight.model.selection import Rows


def rows_of(result: Any, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.tables[name].to_pylist()
    return found


def test_shares_are_percent_of_the_rows_that_count(build: Build) -> None:
    trace = build(kernel=[kernel(0, 300, 1), kernel(1_000, 500, 2), kernel(2_000, 200, 1, stream=9)])
    assert [(row["name"], row["share"]) for row in rows_of(stats(trace), "kernels")] == [
        ("add(float*)", 50.0),
        ("gemm", 50.0),
    ]
    chosen = stats(trace, rows=Rows(streams=(7,)))
    assert [row["share"] for row in rows_of(chosen, "kernels")] == pytest.approx([62.5, 37.5])


def test_a_shape_has_its_static_and_dynamic_shared_memory(build: Build) -> None:
    shapes = ({"grid_x": 2, "grid_y": 3, "grid_z": 4, "block_x": 5, "block_y": 6, "block_z": 7, "registers": 33,
               "shared_static": 100, "shared_dynamic": 20},)  # fmt: skip
    trace = build(shapes=shapes, kernel=[kernel(0, 10, 1, shape_id=1), kernel(20, 10, 1)])
    found = rows_of(stats(trace, by="shape"), "kernels")
    labels = [(row["grid"], row["block"], row["registers"], row["shared"]) for row in found]
    assert sorted(labels, key=str) == [("2×3×4", "5×6×7", 33, 120), ("?", "?", None, None)]


def test_latency_is_of_the_own_process_and_from_the_begin_of_the_call(build: Build) -> None:
    launches = [launch(100, 30, 1, process=0), launch(500, 7, 1, process=1)]
    kernels = [kernel(150, 10, 1, correlation=1, process=0), kernel(900, 10, 1, correlation=1, process=1)]
    found = {row["process"]: row for row in rows_of(
        stats(build(launch=launches, kernel=kernels), by="process", latency=True), "kernels")}  # fmt: skip
    assert [(found[n]["latency_mean"], found[n]["call_mean"]) for n in (0, 1)] == [(50, 30), (400, 7)]


def test_failed_calls_are_counted_with_any_code_and_named_by_each(build: Build) -> None:
    results = [("cudaMalloc", 2), ("cudaMalloc", 2), ("cudaMalloc", -5), ("cudaMalloc", 0), ("cudaFree", 1),
               ("cudaFree", None)]  # fmt: skip
    trace = build(
        api=[call(10 * n, 1, name, correlation=n, result=code) for n, (name, code) in enumerate(results)]
    )
    result = stats(trace, "api")
    assert {row["function"]: row["failed"] for row in rows_of(result, "api")} == {
        "cudaMalloc": 3,
        "cudaFree": 1,
    }
    assert [one.text for one in result.findings] == [
        "cudaFree returned 1 1 times",
        "cudaMalloc returned -5 1 times",
        "cudaMalloc returned 2 2 times",
    ]
    only = stats(trace, "api", rows=Rows(name="Malloc"))
    assert [one.values["function"] for one in only.findings] == ["cudaMalloc"] * 2


def collective(**more: Any) -> dict[str, Any]:
    return {
        "operation": "all-reduce",
        "bytes": 800,
        "ranks": 4,
        "dtype": "f32",
        "group": "dp",
        "process": 0,
        **more,
    }


def test_collectives_without_length_or_peers_count_too(build: Build) -> None:
    trace = build(kernel=[kernel(0, 0, 3, correlation=1)], collective=[
        collective(correlation=1, duration=50),  # the kernel says 0
        collective(correlation=2, duration=400, ranks=1),
        collective(correlation=3, duration=400, ranks=2, operation="all-gather"),
        collective(correlation=4, duration=400, ranks=None, operation="send"),
        collective(correlation=5, duration=400, ranks=1, operation="all-gather"),
    ])  # fmt: skip
    found = {(row["operation"], row["ranks"]): row for row in rows_of(communication(trace), "sized")}
    empty = found["all-reduce", 4]
    assert (empty["count"], empty["time"], empty["algorithm_bandwidth"], empty["bus_bandwidth"]) == (
        1,
        0,
        None,
        None,
    )
    # One rank moves nothing over the bus.
    assert found["all-reduce", 1]["bus_bandwidth"] == found["all-gather", 1]["bus_bandwidth"] == 0
    assert found["all-gather", 2]["bus_bandwidth"] == pytest.approx(1e9)
    assert found["send", None]["bus_bandwidth"] == pytest.approx(2e9)


def test_a_selection_of_devices_has_the_collectives_of_its_kernels(build: Build) -> None:
    kernels = [kernel(0, 100, 3, correlation=1), kernel(200, 100, 3, correlation=2, device=1)]
    trace = build(kernel=kernels, collective=[collective(correlation=n, duration=50) for n in (1, 2, 3)])
    assert [row["count"] for row in rows_of(communication(trace), "sized")] == [3]
    result = communication(trace, Rows(devices=(1,)))
    assert [(row["count"], row["time"]) for row in rows_of(result, "sized")] == [(1, 100)]
    assert result.findings == ()


def counter(time: int, name: str, value: float, unit: str) -> dict[str, Any]:
    return {"time": EPOCH + time, "name": name, "value": value, "unit": unit, "device": 0, "source": "nvml"}


def test_a_clock_above_the_maximum_makes_up_for_nothing(build: Build) -> None:
    readings = [(0, 2_500.0), (100, 1_500.0), (200, 1_000.0)]
    trace = build(device=[device(0, clock_khz=2_000_000)], kernel=[kernel(EPOCH, 250, 1), kernel(EPOCH + 290, 10, 3)],
                  counter=[counter(time, "sm_clock", value, "MHz") for time, value in readings])  # fmt: skip
    (row,) = rows_of(clocks(trace), "devices")
    # Nothing of the first 100 ns, a quarter of the next 100, half of 50: communication does not count, nor do its 10 ns.
    assert (row["busy"], row["measured"], row["lost"]) == (250, 250, 50)
    assert (row["lowest_clock"], row["highest_clock"]) == (
        1_000,
        2_500,
    )  # a reading at the very begin is inside
    assert row["mean_clock"] == pytest.approx((150_000 + 250_000 + 50_000) / 250)


def test_only_active_throttle_reasons_have_time(build: Build) -> None:
    active = [(0, 0.0), (100, 1.0), (150, 0.0), (200, 1.0), (900, 0.0)]
    trace = build(device=[device(0)], kernel=[kernel(EPOCH, 120, 1), kernel(EPOCH + 300, 100, 1)],
                  counter=[counter(time, "throttle_thermal", value, "1") for time, value in active]
                  + [counter(0, "throttle_gpu_idle", 1.0, "1")])  # fmt: skip
    (row,) = rows_of(clocks(trace), "reasons")
    assert (row["reason"], row["time"], row["busy_time"]) == ("thermal", 50 + 200, 20 + 100)
    assert row["share"] == pytest.approx(120 / 220)


@pytest.mark.parametrize("most", [1, 2, 5, 6, 7])
def test_runs_are_cut_only_when_there_are_more_than_may_be(most: int) -> None:
    node = np.array([0, 1, 0, 1, 2, 0])
    runs = in_order(node, np.arange(6) * 10, np.ones(6, int), [], 0, most=most)
    if most >= 6:
        assert (runs.node.tolist(), runs.start.tolist()) == (node.tolist(), [0, 10, 20, 30, 40, 50])
    else:
        assert len(runs) < 6 and runs.weight.sum() == 6


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3, st.integers(0, 30), st.integers(0, 3)), max_size=20))
def test_lanes_follow_each_other_in_their_order(rows: list[tuple[int, int, int, int, int]]) -> None:
    """Rows of node, process, thread, start and weight."""
    node, process, thread, start, weight = (np.array([row[n] for row in rows], np.int64) for n in range(5))
    runs = in_order(node, start, weight, [process, thread], 0)
    expected: list[list[int]] = []
    for row in sorted((one for one in rows if one[4]), key=lambda one: (one[1], one[2], one[3])):
        if expected and expected[-1][0] == row[0]:
            expected[-1][1] += row[4]
            expected[-1][2] += 1
        else:
            expected.append([row[0], row[4], 1, row[3]])
    found = zip(
        runs.node.tolist(), runs.weight.tolist(), runs.count.tolist(), runs.start.tolist(), strict=True
    )
    assert [list(one) for one in found] == expected


def test_bytes_are_of_copies_by_direction_and_of_fills(build: Build) -> None:
    memset = {"start": 30, "duration": 1, "bytes": 7, "value": 0, "memory_kind": "device", "asynchronous": True, "context": 1,
              "stream": 7, "device": 0, "process": 0}  # fmt: skip
    trace = build(
        memcpy=[copy(0, 1, 100, "HtoD"), copy(10, 1, 20, "DtoH", destination_kind="pageable")],
        memset=[memset],
    )
    found = flame_rows.load(trace, Rows(), "bytes", "short")
    named = [(found.labels[leaf], found.kinds[leaf], weight) for leaf, weight in zip(
        found.leaf.tolist(), found.weight.tolist(), strict=True)]  # fmt: skip
    assert named == [
        ("memcpy HtoD", "copy", 100),
        ("memcpy DtoH (pageable)", "copy", 20),
        ("memset", "set", 7),
    ]
    assert found.measured == 127


def test_allocations_are_weighed_without_frees(build: Build) -> None:
    event = {"address": 64, "kind": "device", "allocator": "torch", "device": 0, "process": 0}
    trace = build(memory=[{**event, "time": 1, "operation": "allocate", "bytes": 40},
                          {**event, "time": 2, "operation": "free", "bytes": 40},
                          {**event, "time": 3, "operation": "allocate", "bytes": 8, "tag": "weights"}])  # fmt: skip
    found = flame_rows.load(trace, Rows(), "allocated", "short")
    assert sorted(zip([found.labels[leaf] for leaf in found.leaf], found.weight.tolist(), strict=True)) == [
        ("torch", 40),
        ("torch weights", 8),
    ]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=14),
    st.lists(st.integers(0, 60), min_size=14, max_size=14),
)
def test_idle_time_before_work_is_since_the_last_end_of_any(starts: list[int], lengths: list[int]) -> None:
    start, duration = np.array(starts), np.array(lengths[: len(starts)])
    device_of = np.arange(len(starts)) % 2
    expected = [0] * len(starts)
    for one in (0, 1):
        order = sorted((n for n in range(len(starts)) if n % 2 == one), key=lambda n: starts[n])
        for before, row in enumerate(order):
            ends = [starts[n] + lengths[n] for n in order[:before]]
            expected[row] = max(starts[row] - max(ends), 0) if ends else 0
    assert flame_rows._idle_before(start, duration, device_of).tolist() == expected


def test_kernels_that_were_never_seen_to_run_are_counted(build: Build) -> None:
    trace = build(
        kernel=[kernel(0, 5, 1), kernel(None, None, 1), kernel(None, None, 2), kernel(None, None, 1)]
    )
    assert flame_rows.load(trace, Rows(), "time", "short").without_time == 3
    assert flame_rows.load(trace, Rows(name="gemm"), "time", "short").without_time == 2


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=40), st.integers(0, 12))
def test_the_longest_gaps_are_the_first_of_equal_ones(lengths: list[int], top: int) -> None:
    expected = sorted(range(len(lengths)), key=lambda n: (-lengths[n], n))
    found = questions._longest(np.array(lengths, np.int64), top)
    assert found.tolist() == (expected[:top] if top else expected)


@pytest.mark.parametrize(("count", "own"), [(20, True), (19, False)])
def test_twenty_launches_have_a_usual_latency_of_their_own(count: int, own: bool) -> None:
    functions = np.array([0] * count + [1] * 60)
    calls: Any = SimpleNamespace(function=functions, functions=["a", "b"])
    took = np.where(functions == 0, 5_000, 20_000)
    found = account_gaps._usual_latency(calls, np.arange(len(functions)), np.ones(len(functions), bool), took)
    # four times the usual 20 or 5 µs; no less than 10 µs, no more than 100
    assert found.tolist() == [20_000 if own else 80_000, 80_000, 80_000]


def test_launches_into_a_queue_say_nothing_of_latency() -> None:
    calls: Any = SimpleNamespace(function=np.zeros(30, int), functions=["a"])
    call_of = np.where(np.arange(30) < 25, np.arange(30), -1)
    empty = np.arange(30) % 2 == 0
    took = np.where(empty, 3_000, 90_000)
    found = account_gaps._usual_latency(calls, call_of, empty, took)
    assert found.tolist() == [12_000, 12_000]
    none = account_gaps._usual_latency(calls, call_of, np.zeros(30, bool), took)
    assert none.tolist() == [10_000, 10_000]


STRETCHES = st.tuples(st.integers(-1, 3), st.booleans(), st.integers(-60_000, 60_000))


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(STRETCHES, max_size=6), st.integers(1, 25))
def test_the_usual_latency_is_of_launches_into_an_empty_queue(
    stretches: list[tuple[int, bool, int]], times: int
) -> None:
    """Work may begin before its call returns, which is no latency; work of unknown calls says nothing about any function."""
    stretches = stretches * times
    functions = [0, 0, 1, 2]  # of calls
    calls: Any = SimpleNamespace(function=np.array(functions), functions=["a", "b", "c"])
    call, empty, took = (
        np.array([one[place] for one in stretches], kind) for place, kind in enumerate((int, bool, int))
    )
    found = account_gaps._usual_latency(calls, call, empty, took)
    good = [(functions[one], max(time, 0)) for one, into, time in stretches if into and one >= 0]

    def longest(values: list[int]) -> int:
        return int(min(max(4 * float(np.median(values)), 10_000), 100_000)) if values else 10_000

    own = {number: [time for one, time in good if one == number] for number in range(3)}
    every = longest([time for _, time in good])
    assert found.tolist() == [*(longest(own[n]) if len(own[n]) >= 20 else every for n in range(3)), every]


def test_a_launch_at_the_moment_the_device_falls_idle_finds_it_empty(build: Build) -> None:
    """Its latency is usual, then; and a gap whose work has no launch has no part before it."""
    kernels, launches = [], []
    for number in range(30):
        begin = EPOCH + 100_000 * number
        kernels.append(kernel(begin, 50_000, 1, correlation=number))
        launches.append(launch(begin - 50_000, 20_000, number))
    kernels.append(kernel(EPOCH + 3_100_000, 10, 1, correlation=99))
    launches.append(launch(EPOCH + 3_050_000, 20_000, 100))  # of work that never ran
    trace = build(device=[device(0)], kernel=kernels, launch=launches)
    from warpsight.analysis.account import account

    found = account(trace).gaps
    assert (found.returned - found.begin)[:-1].tolist() == [20_000] * 29
    assert found.limit.tolist() == [100_000, 100_000]  # four times 30 µs, and no more than 100
    assert found.returned[-1] == found.begin[-1] and found.call[-1] == -1
    rows = np.arange(len(found) - 1)
    assert (found.issued(account(trace).calls, rows) == found.begin[rows]).all()


def test_a_forward_inside_backward_is_of_its_own_module_or_of_its_forwards() -> None:
    """Operators 0 to 4; modules of 0 and 1 are 0 and 5; 2 is the backward of 1 and forward of 3, 4 the backward of 0."""
    module = np.array([0, 5, -1, -1, -1])
    origin = np.array([1, -1, 1, 2, 0])  # even the first is itself in the backward of another
    source: Any = SimpleNamespace(of=lambda stacks: module[stacks])
    found: Any = SimpleNamespace(ops=SimpleNamespace(stack=np.arange(5)))
    joined: Any = SimpleNamespace(origin=origin)
    owner = np.array([3, 4, 2, 1])
    assert modules._of_forward(found, joined, source, owner).tolist() == [5, 0, 5, -1]
