"""Rules about what happens outside of the account: ranks that wait for each other, time without device work."""

from __future__ import annotations

import pytest

from tests.unit.analysis.conftest import kernel, launch
from tests.unit.analysis.rules.program import MS, US
from warpsight.analysis.rules import outside
from warpsight.analysis.rules.base.facts import Facts
from warpsight.analysis.rules.verdict import verdict
from warpsight.cluster.executor import LocalExecutor
from warpsight.cluster.job import load
from warpsight.cluster.verdict import judge
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows


def test_a_trace_of_several_ranks_says_where_to_ask_which_one_holds_the_others_up(tmp_path):
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
        job = judge(load([tmp_path / "t.warp"], LocalExecutor(1)))
    assert "warpsight cluster analyze" in found["communication/ranks"].text
    assert (job.findings[0].rule, job.findings[0].values["rank"]) == ("cluster/straggler", 2)
    assert job.findings[0].values["cost"] == pytest.approx(50 * 20 * US, rel=0.1)


def test_time_before_the_first_device_work_is_a_note_with_the_lines_that_take_it(build):
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
    assert told.severity == "note" and told.saves_ns is None
    assert told.values == {"before": 900 * MS, "after": 80 * MS}
    assert told.text == "the program ran for 900 ms before the first device work, of 1.00 s in all"
    assert told.evidence[0].startswith("before the first device work: 89% of 90 samples in ")
    assert found.headline.startswith("100% of the time is in one kernel, gemm")


def test_a_short_start_is_not_worth_a_note(build):
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


@pytest.mark.parametrize(
    ("after", "text", "at"),
    [
        (100, "900 ms before the first device work and 100 ms after the last", (0, 900)),
        (99, "900 ms before the first device work", (0, 900)),
        (8_100, "900 ms before the first device work and 8.10 s after the last", (901, 9_001)),
        (8_101, "8.10 s after the last device work", (901, 9_002)),
    ],
)
def test_stretches_of_a_tenth_of_the_unused_time_are_named_and_the_longest_is_shown(build, after, text, at):
    life = {
        "process": 0,
        "pid": 7,
        "host": "h",
        "command": "c",
        "executable": "c",
        "start": 0,
        "end": (901 + after) * MS,
    }
    with build(process=[life], kernel=[kernel(900 * MS, MS)]) as trace:
        (told,) = outside.check(Facts(trace, Rows()))
    assert told.text.startswith(f"the program ran for {text}, of ")
    assert told.at == (at[0] * MS, at[1] * MS)
