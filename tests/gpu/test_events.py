"""Event traces on a real GPU: accesses equal what the program must do, races are found, the program is unharmed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import event_truth
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races.detect import races

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
RACED = {"shared_race", "loop_race", "warp_race", "flag_race", "scope_race", "global_race"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


def _traced(
    folder: Path, name: str, *options: str, arguments: tuple[str, ...] = (), architecture: str = "native"
) -> tuple[EventTrace, str, int]:
    """The trace of a program of this folder, what it printed and its exit code."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    program, out = folder / name, folder / f"{name}.events"
    if not program.is_file():
        subprocess.run(
            ["nvcc", "-O2", "-lineinfo", f"-arch={architecture}", "-o", program, HERE / f"{name}.cu"],
            check=True,
        )
    command = [
        sys.executable,
        "-m",
        "warpsight",
        "sass",
        "trace",
        "-f",
        "-o",
        out,
        *options,
        "--",
        program,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return EventTrace(out), done.stdout, done.returncode


def test_every_access_of_every_lane_is_told(folder: Path) -> None:
    trace, printed, code = _traced(folder, "event_truth", "--events", "memory,values,barriers")
    assert (code, trace.notes) == (0, [])
    base = json.loads(printed)
    for kernel, expected in event_truth.EXPECTED.items():
        assert event_truth.recorded(trace, kernel) == expected(base), kernel


def test_planted_races_are_found_and_their_twins_are_not(folder: Path) -> None:
    trace, _, code = _traced(folder, "event_races")
    assert code == 0
    assert {race.kernel.split("(")[0] for race in races(trace).races} == RACED


def test_what_the_async_proxy_reads_is_followed(folder: Path) -> None:
    classes = "memory,barriers,tma,wgmma"
    trace, _, code = _traced(folder, "async_races", "--events", classes, architecture="sm_90a")
    found = {race.kernel.removeprefix("void ").split("(")[0]: race.reason for race in races(trace).races}
    assert code == 0 and set(found) == {"copied<false>", "multiplied<false>", "overwritten<false>"}
    assert "fence.proxy.async" in found["multiplied<false>"] and "wait_group" in found["overwritten<false>"]


def test_a_kernel_that_faults_faults_as_before_and_keeps_its_events(folder: Path) -> None:
    trace, _, code = _traced(folder, "event_truth", arguments=("fault",))
    assert code == 1
    assert len(trace.events) == 2


def test_nothing_is_lost_in_a_small_ring(folder: Path) -> None:
    trace, _, code = _traced(
        folder, "event_truth", "--events", "memory", "--ring-mib", "1", arguments=("measure", "4194304", "1")
    )
    assert code == 0
    assert len(trace.events) == 2 * 2 * 4194304 // 32
    assert trace.notes == []
