"""The report of a hang or crash is what its published schema says, with everything in it that it can hold."""

from __future__ import annotations

import json
import lzma
import os
import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import warpsight.model
from warpsight.debug import core_verdict, hang_report
from warpsight.model import TraceWriter
from warpsight.recorder.inspect import look
from warpsight.recorder.ring.progress import Outstanding
from warpsight.recorder.watch.coredump import CoreDump
from warpsight.recorder.watch.event import Incident, StuckProcess
from warpsight.ui.cli import app
from warpsight.ui.cli.output import json_text

GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMA: dict[str, Any] = json.loads(
    (resources.files("warpsight.ui.cli") / "schemas" / "hang_report.json").read_text(encoding="utf-8")
)


def fulfils(report: dict[str, Any]) -> None:
    Draft202012Validator(SCHEMA).validate(json.loads(json_text(report)))


def core(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(lzma.decompress((GOLDEN / "cores" / f"{name}.gpucore.xz").read_bytes()))
    return path


def end_of(trace: Path) -> int:
    with warpsight.model.open(trace) as opened:
        return int(opened.sql("SELECT max(start + duration) FROM kernel").fetchall()[0][0])


@pytest.mark.parametrize(
    ("name", "trace"),
    [
        ("named_barrier.lineinfo", "h200_empty_kernels"),
        ("illegal_address.debug", "h200_two_devices"),
        ("spin_flag.jit", "planted_leak"),
    ],
)
def test_a_report_with_everything_it_can_hold(name: str, trace: str, tmp_path: Path) -> None:
    recorded = GOLDEN / f"{trace}.warp.zip"
    event = Incident("hang", "nothing completed for 5 s", end_of(recorded) + 5_000_000, pid=os.getpid())
    event.suspects = [
        StuckProcess(os.getpid(), 5.04, Outstanding(2, 7, 9, 1, 7), 100),
        StuckProcess(1, 5.0, None, 0),
    ]
    event.processes = look.look([os.getpid()], 30)
    event.evidence = ["thread 1 of process 1 waits in cuCtxSynchronize"]
    event.trace, event.notes, event.took_s = recorded, ["a note"], 0.5
    event.dumps = [CoreDump(1, core(tmp_path, name), "", 0.25), CoreDump(2, None, "the driver listens on no pipe"),
                   CoreDump(3, tmp_path / "none")]  # fmt: skip
    report = hang_report.build(event, core_verdict.decode, program=["python", "train.py"])
    fulfils(report)
    assert report["processes"][0]["threads"], "the report holds threads"
    assert report["timeline"]["lanes"]
    assert report["dumps"][0]["core"]["kernels"]
    assert "unreadable" in report["dumps"][2]


def test_a_report_with_launches_that_did_not_complete(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as writer:
        writer.add(
            "process", [{"process": 0, "pid": 9, "host": "h", "command": "", "executable": "e", "start": 0}]
        )
        stack = writer.stack([("step", "train.py", 7, None, "python", None), "main"])
        one = {"thread": 9, "process": 0, "name_id": writer.name("_Z4workv"), "stack": stack}
        launch = {**one, "duration": 2_000, "function": "cuLaunchKernel", "captured": False}
        shape = writer.shape(grid_x=4, grid_y=1, grid_z=1, block_x=32, block_y=1, block_z=1)
        writer.add("launch", [{**launch, "start": 1_000, "correlation": 1, "result": 0, "shape_id": shape},
                              {**launch, "start": 9_000, "correlation": 2, "result": 700}])  # fmt: skip
        writer.add("marker", [{**one, "start": 500, "kind": "push/pop", "open": True, "source": "nvtx"}])
    event = Incident("crash", "the program ended", 20_000, exit="signal 6")
    event.trace = tmp_path / "t"
    report = hang_report.build(event)
    fulfils(report)
    assert report["launches"] and report["open_ranges"] and report["errors"]


def test_reports_without_a_trace_or_with_one_that_cannot_be_read(tmp_path: Path) -> None:
    event = Incident("asked", "process 1 was looked at", 5)
    fulfils(hang_report.build(event))
    event.trace = tmp_path / "none"
    fulfils(hang_report.build(event))


def test_dump_of_a_process_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    try:
        assert app.main(["dump", str(child), "--json", "-o", str(tmp_path / "d")]) == 0
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    printed = json.loads(capsys.readouterr().out)
    Draft202012Validator(SCHEMA).validate(printed)
    assert json.loads((tmp_path / "d" / "report.json").read_text()) == printed


def test_the_schema_refuses_what_is_not_so() -> None:
    report = json.loads(json_text(hang_report.build(Incident("asked", "r", 5))))
    check = Draft202012Validator(SCHEMA)
    assert check.is_valid(report)
    for wrong in ({"kind": "later"}, {"more": 1}, {"suspects": [{}]}, {"launches": [{"pid": 1}]}, {"timeline": 3},
                  {"dumps": [{"pid": 1, "path": None, "problem": None, "seconds": 1.0,
                              "core": {"verdict": "v", "kernels": [], "summary": {"file": 3}}}]}):  # fmt: skip
        assert not check.is_valid({**report, **wrong}), wrong
