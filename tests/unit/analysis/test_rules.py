"""Rules on programs made for one cause each, and on traces that lack what the rules look at."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.analysis.conftest import kernel, launch
from warpsight.analysis.rules import idle
from warpsight.analysis.rules.facts import Facts
from warpsight.analysis.rules.verdict import verdict
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

US = 1_000
MS = 1_000_000


class Program:
    """Writes a loop of calls and kernels; `host` and `device` are the clocks of both, in ns."""

    def __init__(self, path):
        self.path, self.rows = path, {}
        self.writer = TraceWriter(path)
        self.host, self.device, self.correlation = 1_000_000, 1_000_000, 0

    def add(self, table, **columns):
        self.rows.setdefault(table, []).append({"process": 0, **columns})

    def call(self, table, function, duration, **columns):
        self.correlation += 1
        self.add(
            table,
            start=self.host,
            duration=duration,
            function=function,
            thread=1,
            correlation=self.correlation,
            **columns,
        )
        self.host += duration
        return self.correlation

    def launch(self, name, duration, stream=7):
        number = self.call("launch", "cudaLaunchKernel", 4 * US, captured=False)
        self.device = max(self.device, self.host + 2 * US)
        self.add("kernel", start=self.device, duration=duration, name_id=self.writer.name(name), context=1, stream=stream,
                 device=0, correlation=number, graph_level=False)  # fmt: skip
        self.device += duration

    def synchronize(self):
        begin = self.host
        number = self.call("api", "cudaDeviceSynchronize", max(self.device - begin, 0) + 5 * US)
        self.add(
            "sync",
            start=begin,
            duration=self.host - begin,
            kind="context",
            context=1,
            stream=0,
            correlation=number,
        )

    def busy(self, duration, function=None):
        if function:
            stack = self.writer.stack(
                [
                    ("main", "train.py", 1, None, "python", None),
                    (function, "train.py", 9, None, "python", None),
                ]
            )
            for at in range(self.host, self.host + duration, 200 * US):
                self.add("sample", time=at, thread=1, stack=stack, state="R", gil=True)
        self.host += duration

    def open(self):
        self.writer.add("device", [{"device": 0, "index": 0, "uuid": "u", "name": "G", "vendor": "V", "platform": "cuda",
                                    "clock_khz": 2_000_000, "multiprocessors": 100}])  # fmt: skip
        for table, rows in self.rows.items():
            self.writer.add(table, rows)
        self.writer.close()
        return open_trace(self.path)


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path / "t.warp")


def first(trace):
    found = verdict(trace)
    return found, found.findings[0]


def test_idle_time_after_waits_is_what_the_wait_costs_up_to_what_it_can_save(program):
    for _ in range(30):
        for _ in range(4):
            program.launch("gemm", 100 * US)
        program.synchronize()
        program.busy(300 * US)
    with program.open() as trace:
        found, finding = first(trace)
        facts = Facts(trace)
        gaps = idle.gaps(facts)
    assert finding.rule == "waits/synchronise"
    assert "once per iteration" in finding.text
    assert (gaps.cause == idle.AFTER_WAIT).all()
    # 300 µs of host work and 11 µs of waking and launching follow 400 µs of kernels; the former could be hidden.
    assert finding.cost_ns == pytest.approx(0.43 * found.length, rel=0.15)


def test_a_busy_host_without_waits_is_named_by_its_samples(program):
    for _ in range(30):
        program.launch("gemm", 200 * US)
        program.busy(900 * US, "tokenise")
    with program.open() as trace:
        _, finding = first(trace)
    assert finding.rule == "host/busy"
    assert "tokenise (train.py:9)" in finding.text


def test_an_allocation_in_the_loop_is_named(program):
    for _ in range(30):
        program.launch("gemm", 200 * US)
        program.call("api", "cudaMalloc", 700 * US)
    with program.open() as trace:
        _, finding = first(trace)
    assert finding.rule == "calls/allocation"
    assert "cudaMalloc (28 times)" in finding.text or "cudaMalloc (29 times)" in finding.text


def test_memory_set_and_copied_synchronously_is_told(program):
    for _ in range(30):
        program.launch("gemm", 50 * US)
        number = program.call("api", "cudaMemset", 10 * US)
        program.device = max(program.device, program.host)
        program.add("memset", start=program.device, duration=40 * US, bytes=1 << 20, value=0, memory_kind="device",
                    asynchronous=False, context=1, stream=7, device=0, correlation=number)  # fmt: skip
        program.device += 40 * US
    with program.open() as trace:
        rules = {f.rule for f in verdict(trace).findings}
    assert "fills/synchronous" in rules


def test_a_clock_below_the_maximum_costs_in_proportion(program):
    for _ in range(100):
        program.launch("gemm", 1_000 * US)
    begin, end = 1_000_000, program.device
    for time in np.linspace(begin, end, 50).astype(int).tolist():
        for name, value in (("sm_clock", 1500.0), ("throttle_software_power_cap", 1.0)):
            program.add("counter", time=time, name=name, value=value, unit="1", device=0, source="nvml")
    with program.open() as trace:
        found, finding = first(trace)
    assert finding.rule == "clocks/throttled"
    assert finding.cost_ns == pytest.approx(0.25 * found.length, rel=0.02)
    assert "the power limit (100% of the busy time)" in finding.text


def test_exposed_communication_is_what_no_kernel_hides(program):
    for _ in range(30):
        start = program.device
        program.launch("gemm", 300 * US)
        program.device = start + 200 * US
        program.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 500 * US, stream=8)
    with program.open() as trace:
        found, finding = first(trace)
    assert finding.rule == "communication/exposed"
    assert finding.cost_ns <= found.length


def test_a_program_that_keeps_its_gpu_busy_has_no_cause(program):
    for _ in range(50):
        program.launch("gemm", 500 * US)
        program.launch("relu", 100 * US)
    with program.open() as trace:
        found = verdict(trace)
    assert found.headline.startswith("nothing stands out: the GPU was busy 100%")


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
    from warpsight.analysis.base.registry import ANALYSES
    from warpsight.model.selection import Rows

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
    assert found.headline == "no kernel finished: 1 were launched and never seen to run"
    assert any("12 lost in cupti: buffers were full" in f.text for f in found.findings)


def test_the_rank_that_waits_least_in_collectives_is_the_straggler(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        for process in range(4):
            writer.add("process", [{"process": process, "pid": process, "host": "h", "command": "c", "executable": "e",
                                    "start": 5, "rank": process}])  # fmt: skip
            wait = 10 if process == 2 else 60
            for step in range(20):
                for name, at, length in (
                    ("gemm", 0, 90 - wait),
                    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 95 - wait, wait),
                ):
                    writer.add("kernel", [{"start": (step * 100 + at) * US, "duration": length * US, "name_id": writer.name(name),
                                           "context": 1, "stream": 7, "device": process, "process": process,
                                           "graph_level": False}])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        found = {f.rule: f for f in verdict(trace).findings}
    assert "rank 2" in found["communication/straggler"].text
    assert found["communication/straggler"].values["waiting"] == pytest.approx(50 * 20 * US, rel=0.1)


def test_a_full_launch_queue_and_low_stretches_are_notes(program):
    for step in range(120):
        program.launch("gemm", 100 * US)
        if step % 4 == 0 and step > 10:  # the queue is full: this call waits for the device
            program.host = max(program.host, program.device - 100 * US)
            program.rows["launch"][-1]["duration"] = max(
                program.host - program.rows["launch"][-1]["start"], 4 * US
            )
    program.host = program.device + 2_000 * US
    for _ in range(4):
        program.launch("gemm", 100 * US)
    with program.open() as trace:
        begin = trace.sql("SELECT min(start) FROM kernel").fetchall()[0][0]
        end = trace.sql("SELECT max(start + duration) FROM kernel").fetchall()[0][0]
        from warpsight.model.selection import Rows

        rules = {f.rule for f in verdict(trace, Rows(begin, end)).findings}
    assert {"launches/queue-full", "idle/low-chunks"} <= rules


def test_time_without_device_work_is_told_with_the_lines_that_take_it(build):
    work = [kernel(900 * MS + n * MS, MS, correlation=n + 1) for n in range(20)]
    calls = [launch(899 * MS + n * MS, 5 * US, n + 1) for n in range(20)]
    samples = [
        {"time": n * 10 * MS, "process": 0, "thread": 100, "stack": 1 + (n >= 80), "state": "R", "gil": True}
        for n in range(90)
    ]
    stacks = (
        (("load", "model.py", 3, None, "python", None),),
        (("compile", "model.py", 9, None, "python", None),),
    )
    life = [
        {"process": 0, "pid": 7, "host": "h", "command": "c", "executable": "c", "start": 0, "end": 1000 * MS}
    ]
    with build(process=life, kernel=work, launch=calls, sample=samples, stacks=stacks) as trace:
        found = verdict(trace)
    (told,) = [f for f in found.findings if f.rule == "outside/device-unused"]
    assert told.severity == "note" and told.cost_ns is None
    assert told.values == {"before": 900 * MS, "after": 80 * MS}
    assert told.text == "of the program's 1.00 s pass 900 ms before the first device work"
    assert told.evidence[0].startswith("before the first device work: 89% of 90 samples in ")
    assert found.headline.startswith("nothing stands out in 20.0 ms:")


def test_a_program_that_mostly_computes_hears_nothing_of_its_begin(build):
    work = [kernel(100 * MS + n * MS, MS) for n in range(800)]
    with build(
        process=[
            {
                "process": 0,
                "pid": 7,
                "host": "h",
                "command": "c",
                "executable": "c",
                "start": 0,
                "end": 1000 * MS,
            }
        ],
        kernel=work,
    ) as trace:
        assert not [f for f in verdict(trace).findings if f.rule == "outside/device-unused"]
