"""Launch latency, queues and launch-bound stretches against a recount in plain Python."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, copy, kernel, launch
from warpsight.analysis.stats.launches import launch_bound, launch_latency, launch_overhead, queue_depth
from warpsight.model.selection import Rows


def ran(rows):
    return [k for k in rows["kernel"] if k["start"] is not None]


def call_of(rows):
    return {(c["process"], c["correlation"]): c for c in rows["launch"]}


def test_latency_and_its_parts(messy):
    trace, rows = messy
    calls = call_of(rows)
    result = launch_latency(trace)
    table = {(r["device"], r["part"]): r for r in result.tables["latency"].to_pylist()}
    for number in (0, 1):
        own = [k for k in ran(rows) if k["device"] == number]
        latency = [k["start"] - calls[k["process"], k["correlation"]]["start"] for k in own]
        assert table[number, "latency"]["count"] == len(own)
        for name, value in (("mean", np.mean(latency)), ("min", min(latency)), ("p95", np.percentile(latency, 95)),
                            ("max", max(latency)), ("std", np.std(latency))):  # fmt: skip
            assert table[number, "latency"][name] == pytest.approx(value)
        parts = [table[number, part]["mean"] for part in ("queue", "rest")]
        assert sum(parts) == pytest.approx(np.mean(latency))
    backwards = sum(k["start"] < calls[k["process"], k["correlation"]]["start"] for k in ran(rows))
    assert [f.values for f in result.findings if "clocks" in f.text] == [{"kernels": backwards}]


def test_latency_of_a_kernel_behind_another_is_mostly_queue(build):
    trace = build(kernel=[kernel(100, 900, correlation=1), kernel(1_010, 50, correlation=2)],
                  launch=[launch(90, 5, 1), launch(200, 5, 2)])  # fmt: skip
    table = {r["part"]: r["max"] for r in launch_latency(trace).tables["latency"].to_pylist()}
    assert (table["latency"], table["queue"], table["rest"]) == (810, 800, 10)


def test_rows_that_began_before_the_time_asked_for_do_not_count_as_late(build):
    trace = build(kernel=[kernel(100, 900, correlation=1), kernel(1_010, 50, correlation=2)],
                  launch=[launch(90, 5, 1), launch(200, 5, 2)])  # fmt: skip
    table = launch_latency(trace, Rows(500, 2_000)).tables["latency"].to_pylist()
    assert {r["part"]: r["count"] for r in table}["latency"] == 1


def test_queue_depth_is_counted_at_every_nanosecond(messy):
    trace, rows = messy
    calls = call_of(rows)
    timed = [r for t in ("kernel", "memcpy", "memset") for r in rows[t] if r["start"] is not None]
    begin, end = min(r["start"] for r in timed), max(r["start"] + r["duration"] for r in timed)
    tables = queue_depth(trace, windows=5).tables
    for row in tables["streams"].to_pylist():
        depth = np.zeros(end - begin, int)
        for k in ran(rows):
            if (k["process"], k["device"], k["stream"]) == (row["process"], row["device"], row["stream"]):
                called = max(calls[k["process"], k["correlation"]]["start"], begin)
                depth[called - begin : k["start"] - begin] += 1
        assert (row["deepest"], row["empty"]) == (depth.max(), (depth == 0).sum())
        assert row["mean"] == pytest.approx(depth.mean())
    for row in tables["depth"].to_pylist():
        window = slice(row["begin"] - begin, row["begin"] - begin + row["width"])
        depth = np.zeros(end - begin, int)
        for k in ran(rows):
            if k["device"] == row["device"]:
                called = max(calls[k["process"], k["correlation"]]["start"], begin)
                depth[called - begin : k["start"] - begin] += 1
        assert row["mean"] == pytest.approx(depth[window].mean())


def test_a_stretch_is_a_run_of_kernels_the_device_waited_for(build):
    """20 kernels each launched after the one before ended (100 ns of idle time each), then 20 queued up ahead."""
    kernels = [kernel(EPOCH + 1_000 + i * 150, 50, correlation=i) for i in range(21)]
    launches = [launch(k["start"] - 30, 20, k["correlation"], stack=1) for k in kernels]
    later = [kernel(EPOCH + 4_050 + i * 60, 50, correlation=100 + i) for i in range(20)]
    launches += [launch(EPOCH + 4_010 + i, 1, 100 + i) for i in range(20)]
    result = launch_bound(build(stacks=(("main", "step"),), kernel=kernels + later, launch=launches))
    assert result.tables["stretches"].to_pylist() == [
        {"device": 0, "begin": EPOCH + 1_050, "duration": 20 * 150, "kernels": 20, "busy": 20 * 50, "idle": 20 * 100,
         "call_mean": 20.0, "stack": 1}
    ]  # fmt: skip
    assert result.tables["devices"].to_pylist() == [
        {"device": 0, "kernels": 40, "launch_bound": 20, "idle": 2_000}
    ]


def test_short_dominated_and_graph_shares(build):
    kernels = [
        kernel(1_000 + 100_000 * i, d, correlation=i) for i, d in enumerate([5_000, 9_999, 10_000, 50_000])
    ]
    kernels += [kernel(800_000 + 1_000 * i, 900, correlation=9, graph=3) for i in range(4)]
    launches = [launch(100_000 * i, 6_000, i) for i in range(4)] + [launch(790_000, 4_000, 9)]
    (row,) = launch_overhead(build(kernel=kernels, launch=launches)).tables["launch-overhead"].to_pylist()
    total = 5_000 + 9_999 + 10_000 + 50_000 + 3_600
    assert (row["kernels"], row["kernel_time"], row["short"], row["calls"], row["call_time"]) == (
        8,
        total,
        6,
        5,
        28_000,
    )
    assert row["dominated"] == 5  # the first, and each graph kernel: 900 < 4,000 / 4
    assert (row["graph"], row["graph_launches"]) == (4, 1)
    assert row["graph_time_share"] == pytest.approx(3_600 / total)
    assert row["short_time_share"] == pytest.approx((5_000 + 9_999 + 3_600) / total)


def test_kernels_without_a_call_are_said(build):
    trace = build(
        kernel=[kernel(0, 5, correlation=1), kernel(10, 5)], memcpy=[copy(20, 5)], launch=[launch(0, 1, 1)]
    )
    assert [f.values for f in launch_latency(trace).findings] == [{"rows": 1, "of": 2}]
    assert [f.values for f in queue_depth(trace).findings] == [{"rows": 2, "of": 3}]
