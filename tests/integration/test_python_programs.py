"""`ws.watch`, `ws.dump`, `ws.attach`, `ws.core`, `ws.cluster`: what their verbs do, from Python, on real processes and files."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import warpsight as ws
from tests.golden.cores import golden_cores
from tests.integration import standin_programs
from tests.integration.standin_programs import Standin

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[bytes]]:
    """A program that waits for its input in a function of its own."""
    code = "def wait_for_work():\n    input()\nprint('there', flush=True)\nwait_for_work()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None and program.stdout.readline() == b"there\n"
        yield program
        program.kill()


def test_a_watched_program_that_crashes_leaves_a_report(standin: Standin, tmp_path: Path) -> None:
    program = standin.program("init", "looked_up:bad_kernel:1", "fault")
    watched = ws.watch(program, tmp_path / "reports", dumps=True, environment=standin.environment())
    assert watched.returncode == 128 + signal.SIGABRT
    assert watched.path == tmp_path / "reports" and (watched.path / "report.html").exists()
    (report,) = watched.reports
    assert (report.document["kind"], report.document["launches"][0]["kernel"]) == ("crash", "bad_kernel")
    assert report.document["reason"] in str(report)


@pytest.mark.usefixtures("library")
def test_a_watched_program_that_ends_well_leaves_nothing(tmp_path: Path) -> None:
    watched = ws.watch([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "reports")
    assert (watched.path, watched.returncode, watched.reports) == (None, 3, ())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on_hang": "shout"}, "on_hang must be one of report, dump, kill, not 'shout'"),
        ({"hang_after": -1.0}, "hang_after must be a number of seconds, 0 or more, not -1"),
        ({"dump_memory": "some"}, "dump_memory must be one of"),
        ({"ring": "long"}, "takes a time, a size or both"),
        ({"stacks": "some"}, "must be one of python, native"),
    ],
)
def test_wrong_options_are_said_in_python(tmp_path: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(ws.UsageError, match=said):
        ws.watch(["true"], tmp_path / "reports", **options)  # type: ignore[arg-type]
    with pytest.raises(ws.UsageError, match="force=True replaces it"):
        ws.watch(["true"], tmp_path)


def test_what_a_process_does_is_seen(waiting: subprocess.Popen[bytes]) -> None:
    report = ws.dump(waiting.pid)
    assert report.to_json()["reason"] == f"process {waiting.pid} was inspected"
    assert "wait_for_work" in str(report) and "wait_for_work" in report._repr_html_()


def test_a_process_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ws.WarpsightError, match=r"4194304|no process"):
        ws.dump(4_194_304)
    with pytest.raises(ws.WarpsightError):
        ws.detach(4_194_304)
    with pytest.raises(ws.UsageError, match="seconds, the length of the recording, must be above 0"):
        ws.attach(1, seconds=0)
    with pytest.raises(ws.WarpsightError, match="4194304"):
        ws.attach(4_194_304, seconds=1)


def test_a_process_that_cannot_be_recorded_is_an_error_with_the_reason(
    waiting: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with pytest.raises(ws.WarpsightError, match=rf"{waiting.pid}.*WARPSIGHT"):
        ws.attach(waiting.pid, tmp_path / "a.warp", seconds=1)
    assert not (tmp_path / "a.warp").exists()


def test_a_core_dump_prints_as_its_verb_does(tmp_path: Path) -> None:
    path = golden_cores.unpack("cluster_barrier.lineinfo", tmp_path)
    report = ws.core(path)
    printed = subprocess.run([sys.executable, "-m", "warpsight", "core", "--top", "0", str(path)], capture_output=True, text=True,
                             check=True)  # fmt: skip
    assert str(ws.core(path, top=0)) == printed.stdout.rstrip()
    assert report.document["places"] and "<pre " in report._repr_html_()


def test_a_job_is_judged() -> None:
    found = ws.cluster.analyze(GOLDEN / "ranks_loader.warp.zip", workers=1)
    assert found.headline.startswith("straggler: rank 1") and found.ranks.num_rows == 2


def test_what_sanitizes_and_measures_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ws.UsageError, match="tool must be one of memcheck"):
        ws.sanitize(["true"], "leakcheck")
    with pytest.raises(ws.UsageError, match="device must be auto, cuda or opencl"):
        ws.bench(device="tpu")
