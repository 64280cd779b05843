"""Capsules that a recording cuts out of its program: a frame, the step after a trigger, a hang."""

# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

import warpsight
from tests.integration import standin_programs
from tests.integration.capsule_programs import (  # noqa: F401 - a fixture
    COUNT,
    Done,
    Programs,
    floats,
    frame,
    programs,
    the_output,
)
from warpsight.replay.capsule import browsing
from warpsight.replay.capsule import manifest as m


def test_a_recording_cuts_a_frame_out_of_its_program(programs: Programs, tmp_path: Path) -> None:
    """The trace has the program's launches and copies, and none that cutting out made."""
    steps = ["add", *frame("add"), *frame("fill:4", "set", "add"), "add"]
    command: list[str | Path] = [
        "record",
        "--capsule",
        "frame:1",
        "-o",
        tmp_path / "x.warp",
        "--",
        programs.folder / "program",
    ]
    started = programs.start(*command, *steps)
    output, _ = started.communicate()
    capsule = Done(started.returncode, output, tmp_path / "x.capsule").capsule
    assert [one.kind for one in browsing.overview(capsule).operations] == ["launch", "fill", "launch"]
    with warpsight.open(tmp_path / "x.warp") as trace:
        calls = dict(
            trace.sql(
                "select function, count(*) from (from api select function union all from launch select function) group by all"
            ).fetchall()
        )
    assert {name: calls.get(name) for name in ("cuLaunchKernel", "cuMemsetD8Async", "cuMemcpyHtoDAsync_v2")} == {
        "cuLaunchKernel": 5, "cuMemsetD8Async": 1, "cuMemcpyHtoDAsync_v2": 3
    }  # fmt: skip


def test_a_trigger_of_the_ring_cuts_the_next_step_out(programs: Programs, tmp_path: Path) -> None:
    step = ["range:warpsight:step", "fill:3", "end:warpsight:step"]
    go, ready = tmp_path / "go", tmp_path / "ready"
    command: list[str | Path] = [
        "record",
        "--ring",
        "60s",
        "--capsule",
        "trigger",
        "-o",
        tmp_path / "x.warp",
        "--",
    ]
    steps = [
        *step,
        f"make:{ready}",
        f"await:{go}",
        "range:warpsight:step",
        "fill:7",
        "add",
        "end:warpsight:step",
        *step,
    ]
    started = programs.start(*command, programs.folder / "program", *steps)
    while not ready.exists():
        assert started.poll() is None, started.communicate()[0]
        time.sleep(0.01)
    program = standin_programs.child_named(started.pid, "program")
    caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{program}/status").read_text())
    assert (
        caught is not None and int(caught[1], 16) & 0x7FFFFFFF == 0
    )  # a signal would interrupt the program's sleeps
    triggered = programs.start("trigger", tmp_path / "x.warp")
    assert (triggered.communicate()[0], triggered.returncode)[1] == 0
    go.touch()
    output, _ = started.communicate()
    capsule = Done(started.returncode, output, tmp_path / "x.capsule").capsule
    assert [one.kind for one in browsing.overview(capsule).operations] == ["launch", "launch"]


def test_a_hang_cuts_out_the_launch_that_hangs(programs: Programs, tmp_path: Path) -> None:
    """No step follows. The stand-in reports no work as complete, so the first launch is the one that hangs."""
    go = tmp_path / "go"
    options = ["--ring", "60s", "--trigger", "hang=1", "--capsule", "trigger", "-o", tmp_path / "x.warp"]
    steps = ["range:warpsight:step", "add", "fill:3", f"await:{go}"]
    started = programs.start("record", *options, "--", programs.folder / "program", *steps)
    while not any('"kind":"end"' in log.read_text() for log in tmp_path.glob(".x.capsule-*/*/log")):
        assert started.poll() is None, started.communicate()[0]
        time.sleep(0.01)
    go.touch()
    output, _ = started.communicate()
    capsule = Done(started.returncode, output, tmp_path / "x.capsule").capsule
    (launch,) = capsule.manifest.operations
    assert isinstance(launch, m.Launch) and capsule.manifest.functions[launch.function].name == "add_listed"
    assert len(capsule.manifest.allocations) == 5  # the inputs, through the list of their addresses
    expected = 4 * np.arange(COUNT, dtype=np.float32) + 1  # the stand-in has run it
    assert floats(capsule, the_output(capsule), "before").tolist() == expected.tolist()
    assert all(one.after is None for one in capsule.manifest.allocations)
    assert "the work hung" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--capsule step:0", "write step:N (from 1)"),
        ("--capsule trigger", "needs --ring"),
        ("--capsule step:3 --delay 1", "from the program's start on"),
    ],
)
def test_what_a_recording_cannot_cut_out_is_refused_before_the_program_runs(
    programs: Programs, tmp_path: Path, options: str, message: str
) -> None:
    started = programs.start(
        "record", *options.split(), "-o", tmp_path / "x.warp", "--", programs.folder / "program", "add"
    )
    output, _ = started.communicate()
    assert (started.returncode, message in output, "ran\n" in output) == (2, True, False), output
    assert list(tmp_path.iterdir()) == []
