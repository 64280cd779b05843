"""What the recorder measures of its own work in the program, and where an account of the time shows it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import warpsight.model
from tests.integration import standin_programs
from tests.integration.recorded import record
from tests.integration.standin_programs import Standin
from warpsight.analysis.account import account
from warpsight.analysis.account.calls_held import CUPTI_CALL, CUPTI_KERNEL
from warpsight.analysis.account.classes import RECORDER
from warpsight.analysis.account.own_cost import own_cost


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


def test_callbacks_of_launches_are_timed_and_stand_in_the_account(standin: Standin, tmp_path: Path) -> None:
    steps = standin.program("init", "rate:work:20000:4000", "sync")
    path = tmp_path / "a.warp"
    done = standin.run("record", "-q", "--sample", "off", "--counters", "off", "-o", str(path), "--", *steps)
    assert done.returncode == 0, done.stderr
    with warpsight.model.open(path) as trace:
        cost = trace.manifest["overhead"]
        found = account(trace)
    launches = trace.manifest["rows"]["launch"]
    assert 2 * launches - 64 <= cost["own_cuda_calls"] <= 2 * launches + 64  # two callbacks each
    each = cost["own_cuda_ns"] / cost["own_cuda_calls"]
    assert each > 10
    assert cost["own_cuda_ns"] < cost["duration_ns"]
    assert sum(entry.time for entry in found.entries) == found.span
    (mine,) = [
        entry for entry in found.of(RECORDER) if entry.name == "the recorder's work in GPU calls and ranges"
    ]
    assert 0 < mine.time <= cost["own_cuda_ns"] + launches * (CUPTI_CALL + CUPTI_KERNEL)


def test_ranges_of_a_program_are_timed(library: Path, tmp_path: Path) -> None:
    text = "import warpsight as ws\nfor _ in range(2000):\n    with ws.annotate('inner'): pass"
    found = record(
        library, tmp_path / "a.warp", [sys.executable, "-c", text], "--sample", "off", "--counters", "off"
    )
    assert found.code == 0, found.err
    with warpsight.model.open(tmp_path / "a.warp") as trace:
        cost = trace.manifest["overhead"]
    assert 3900 <= cost["own_range_calls"] <= 4000
    assert cost["own_range_ns"] > 0
    assert "own_cuda_calls" not in cost


def test_the_summary_and_the_account_agree_on_what_recording_cost(standin: Standin, tmp_path: Path) -> None:
    steps = standin.program("init", "rate:work:20000:4000", "sync")
    path = tmp_path / "a.warp"
    done = standin.run("record", "--sample", "off", "--counters", "off", "-o", str(path), "--", *steps)
    assert done.returncode == 0, done.stderr
    with warpsight.model.open(path) as trace:
        found = account(trace)
        cost = own_cost(trace)
    assert cost is not None
    recorder = found.time(RECORDER)
    assert cost.waited == recorder
    assert f"GPU work took about {recorder / (found.span - recorder):.1%} longer" in done.stderr


def test_the_work_in_opencl_calls_is_timed_and_stands_in_the_account(library: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "warpsight.recorder.demo.heat_opencl"]
    found = record(library, tmp_path / "a.warp", program, "--sample", "off", "--counters", "off")
    if "OpenCL" in found.err and found.code:
        pytest.skip("there is no OpenCL device here")
    assert found.code == 0, found.err
    with warpsight.model.open(tmp_path / "a.warp") as trace:
        cost = trace.manifest["overhead"]
        launches = trace.manifest["rows"]["launch"]
        account_of = account(trace)
    assert cost["own_opencl_calls"] >= 2 * launches  # before and after each command
    assert 0 < cost["own_opencl_ns"] < cost["duration_ns"]
    assert "own_cuda_calls" not in cost
    assert sum(entry.time for entry in account_of.entries) == account_of.span
