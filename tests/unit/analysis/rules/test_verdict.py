"""The verdict: its headline, its summary, and traces that lack what the rules look at."""

from __future__ import annotations

import pytest

from tests.unit.analysis.conftest import kernel
from tests.unit.analysis.rules.program import US
from warpsight.analysis.base.registry import ANALYSES
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.verdict import verdict
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows


def test_the_headline_of_a_busy_device_is_its_largest_kernel(program):
    for _ in range(50):
        program.launch("gemm", 500 * US)
        program.launch("relu", 100 * US)
    with program.open() as trace:
        found = verdict(trace)
    assert found.headline == "83% of the time is in one kernel, gemm (50 times)"
    assert found.summary.startswith("the GPU was busy 100% of 30.0 ms")


@pytest.mark.parametrize(
    "tables", [(), ("process",), ("launch",), ("kernel",), ("kernel", "sync"), ("memory",), ("counter",)]
)
def test_traces_that_lack_tables_are_judged_without_a_traceback(tmp_path, tables):
    rows = {
        "process": {"pid": 1, "host": "h", "command": "c", "executable": "e", "start": 5},
        "launch": {"start": 10, "duration": 3, "function": "f", "thread": 1, "captured": False},
        "kernel": {"start": 10, "duration": 7, "context": 1, "stream": 7, "graph_level": False},
        "sync": {"start": 5, "duration": 1, "kind": "context", "context": 1, "stream": 0},
        "memory": {"time": 1, "operation": "free", "address": 4, "kind": "device"},
        "counter": {
            "time": 1,
            "name": "sm_clock",
            "value": 5.0,
            "unit": "MHz",
            "source": "nvml",
            "device": 0,
        },
    }
    with TraceWriter(tmp_path / "t.warp") as writer:
        for table in tables:
            writer.add(table, [{"process": 0, **rows[table]}])
    with open_trace(tmp_path / "t.warp") as trace:
        found = verdict(trace)
        assert found.headline
        if "kernel" not in tables:
            assert found.headline == "no device work was recorded"
        for name in ("critical-path", "iterations", "memory", "phases", "findings"):
            ANALYSES[name].run(trace, Rows())


def test_work_that_never_finished_and_loss_are_said(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add("kernel", [{"context": 1, "stream": 7, "process": 0, "graph_level": False}])
        writer.add(
            "loss", [{"source": "cupti", "cause": "buffers were full", "count": 12, "severity": "lost"}]
        )
    with open_trace(tmp_path / "t.warp") as trace:
        found = verdict(trace)
    assert found.headline == "no kernel finished: 1 was launched but never seen running"
    assert any("12 lost in cupti: buffers were full" in f.text for f in found.findings)


def started(program, turns):
    """A program that prepares for 100 ms, then runs `turns` iterations of 1 ms of which the device works 0.7 ms."""
    program.launch("gemm", 100 * US)
    program.busy(100_000 * US)
    for _ in range(turns):
        program.launch("gemm", 500 * US)
        program.launch("relu", 200 * US)
        program.host = program.device + 292 * US
        program.add("user_event", start=program.host, duration=0, name="step", kind="step", thread=1)


def test_where_the_start_dominates_the_summary_says_what_comes_first_in_the_steady_state(program):
    started(program, 40)
    with program.open() as trace:
        found = verdict(trace)
    assert found.headline.startswith("the GPU is idle for 80% of the time while the host runs code")
    assert "of the loop's steady state" in found.summary
    assert "; in the steady state gemm takes 50% of the time (" in found.summary
    assert found.iterations is not None and found.iterations.first is not None
    assert found.to_json()["iterations"]["steady"]["first"]["name"] == "gemm"


def test_where_the_loop_is_nearly_all_of_the_time_its_account_is_that_of_the_whole(program):
    started(program, 2000)
    with program.open() as trace:
        found = verdict(trace)
    assert found.iterations is not None and found.iterations.first is None
    assert "in the steady state" not in found.summary


def test_a_trace_without_device_work_says_what_it_holds_instead(program):
    for _ in range(3):
        program.call("api", "cudaGetDeviceCount", 10 * US)
    program.annotated("step", program.host - 20 * US)
    with program.open() as trace:
        found = verdict(trace)
    assert found.headline == "no device work was recorded"
    assert found.summary == "the trace holds 3 calls and 1 range of the host, and no kernel, copy or fill"


def test_ranges_alone_are_not_called_the_hosts(program):
    for number in range(3):
        program.host += 100 * US
        program.annotated(f"[MEMCPY] {number}", program.host - 50 * US)
    with program.open() as trace:
        found = verdict(trace)
    assert "3 ranges, on tracks not marked as a device's" in found.summary


@pytest.mark.parametrize(
    ("severity", "saves", "kind", "name"),
    [("loss", None, None, "loss"), ("loss", 5, None, "loss"), ("note", None, None, "note"), ("warning", 5, None, "lever"),
     ("warning", 5, "host", "host")],
)  # fmt: skip
def test_a_finding_is_of_the_account_a_loss_a_lever_or_a_note(severity, saves, kind, name):
    assert Finding(severity, "text", saves_ns=saves, kind=kind).class_name == name


def test_five_kernels_at_most_have_shares_of_their_own(program):
    for _ in range(20):
        for number in range(8):
            program.launch(f"kernel_{number}", (100 + number) * US)
    with program.open() as trace:
        found = [one for one in verdict(trace).findings if one.kind == "compute"]
    assert [one.name for one in found] == [f"kernel_{number}" for number in range(7, 2, -1)]


def test_the_headline_has_one_share_and_one_lever(program):
    for turn in range(60):
        program.launch(f"gemm_{turn % 2}", 100 * US)
        program.busy(300 * US, "tokenise")
        program.synchronize()
    with program.open() as trace:
        found = verdict(trace)
    assert sum(one.kind is not None for one in found.leading) == 1
    assert sum(one.kind is None for one in found.leading) <= 1


@pytest.mark.parametrize(
    ("window", "chosen"),
    [
        ({}, "from the first to the last device work"),
        ({"begin": 5}, "the requested time"),
        ({"end": 90}, "the requested time"),
        ({"begin": 5, "end": 90}, "the requested time"),
        ({"devices": (0,)}, "from the first to the last device work"),
    ],
)
def test_the_window_is_the_requested_one_if_either_end_was_requested(build, window, chosen):
    found = verdict(build(kernel=[kernel(0, 40), kernel(60, 40)]), Rows(**window))
    assert found.chosen == chosen
    assert found.to_json()["window"] == {
        "begin": window.get("begin", 0),
        "end": window.get("end", 100),
        "chosen": chosen,
    }
