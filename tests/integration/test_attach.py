"""`warpsight attach` and `detach` on processes that were started dormant."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import warpsight.model
from tests.integration import standin_programs
from tests.integration.recorded import TIMEOUT
from tests.integration.stack_recording import interpreter
from tests.integration.standin_programs import Standin, until
from warpsight.capture.segments import layout, segment
from warpsight.debug import stuck_launches
from warpsight.recorder import attach


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


def dormant(standin: Standin, *steps: str) -> subprocess.Popen[bytes]:
    more = {"WARPSIGHT": "dormant", "CUDA_INJECTION64_PATH": str(standin.library)}
    return subprocess.Popen(standin.program(*steps), env=standin.environment(**more))


def completed(folder: Path) -> bool:
    """Whether a recording that goes on has taken up kernels that are complete."""
    for path in folder.glob("raw/*/data-*.seg*"):
        with contextlib.suppress(FileNotFoundError):  # closed, and so renamed, at this moment
            kernels = segment.read(path)[0].get(layout.BY_NAME["Kernel"].kind)
            if kernels is not None and kernels.rows["end"].any():
                return True
    return False


def test_a_dormant_process_is_recorded_from_attach_to_detach(standin: Standin, tmp_path: Path) -> None:
    process = dormant(standin, "init", "rate:work:500:60000")
    try:
        until(lambda: attach.door(process.pid), "the dormant process")
        folder = tmp_path / "a.warp"
        attached = standin.start(
            "attach", str(process.pid), "--sample", "0", "--counters", "off", "-o", str(folder)
        )
        until(lambda: completed(folder), "kernels")
        ended = standin.run("detach", str(process.pid))
        assert ended.returncode == 0, ended.stderr
        assert attached.wait(TIMEOUT) == 0
        assert process.poll() is None  # it goes on
        with warpsight.model.open(folder) as trace:
            kernels, timed = trace.sql("SELECT count(*), count(start) FROM kernel").fetchall()[0]
        assert kernels == timed > 0
        again = standin.run("attach", str(process.pid), "--sample", "0", "--counters", "off", "--for", "1", "-o",
                            str(tmp_path / "b.warp"))  # fmt: skip
        assert again.returncode == 0, again.stderr
        with warpsight.model.open(tmp_path / "b.warp") as trace:
            assert trace.count("kernel") > 0
    finally:
        process.kill()
        process.wait()


LAUNCHING = """
import ctypes, sys, time
driver = ctypes.CDLL(sys.argv[1])
driver.cuInit(0)
launch = driver.cuLaunchKernel
launch.argtypes = [ctypes.c_char_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
print("launching", flush=True)
def step():
    launch(b"scaled", 4, 1, 1, 128, 1, 1, 0, None, None, None)
    time.sleep(0.002)
while True:
    step()
"""


@pytest.fixture
def launching(
    standin: Standin, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[str]]:
    """A Python of a version with sys.remote_exec that launches kernels and knows nothing of the recorder."""
    wanted = dict(getattr(request, "param", {}))
    minor = wanted.pop("minor", "14")
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"no CPython 3.{minor} here, and sys.remote_exec came with it")
    (tmp_path / "launching.py").write_text(LAUNCHING)
    command = [python, str(tmp_path / "launching.py"), str(standin.folder / "libcuda.so.1")]
    environment = {k: v for k, v in standin.environment().items() if not k.startswith("PYTHON")}
    environment |= wanted
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "launching\n"
            yield process
        finally:
            process.kill()


def kernels_and_stacks(path: Path) -> tuple[set[str], list[list[str]]]:
    """Names of the kernels that have times, and the functions of the stacks that launched them, innermost first."""
    with warpsight.model.open(path) as trace:
        rows = trace.sql("SELECT DISTINCT name, stack FROM kernel WHERE start IS NOT NULL").fetchall()
        stacks = stuck_launches.frames_of(trace, [stack for _, stack in rows]).values()
    return {name for name, _ in rows}, [[str(frame["function"]) for frame in frames] for frames in stacks]


@pytest.mark.parametrize("launching", [{"minor": "14"}, {"minor": "14t"}], ids=["14", "14t"], indirect=True)
def test_a_python_that_runs_already_is_recorded_through_remote_exec(
    launching: subprocess.Popen[str], standin: Standin, tmp_path: Path
) -> None:
    before = set(Path(tempfile.gettempdir()).glob("warpsight-attach-*.py"))
    options = ("--sample", "0", "--counters", "off")
    done = standin.run("attach", str(launching.pid), *options, "--for", "2", "-o", str(tmp_path / "a.warp"))
    assert done.returncode == 0, done.stderr
    assert "sys.remote_exec" in done.stderr
    assert kernels_and_stacks(tmp_path / "a.warp") == ({"scaled"}, [["step", "<module>"]])
    folder = tmp_path / "b.warp"  # again, with the library already there, until somebody detaches it
    attached = standin.start("attach", str(launching.pid), *options, "-o", str(folder))
    until(lambda: completed(folder), "kernels")
    ended = standin.run("detach", str(launching.pid))
    assert ended.returncode == 0, ended.stderr
    assert attached.wait(TIMEOUT) == 0
    assert kernels_and_stacks(folder) == ({"scaled"}, [["step", "<module>"]])
    assert launching.poll() is None
    assert set(Path(tempfile.gettempdir()).glob("warpsight-attach-*.py")) <= before
    assert standin.run("detach", str(launching.pid)).returncode == 1


@pytest.mark.parametrize("launching", [{"PYTHON_DISABLE_REMOTE_DEBUG": "1"}], indirect=True)
def test_a_python_that_refuses_remote_code_is_said_to(
    launching: subprocess.Popen[str], standin: Standin, tmp_path: Path
) -> None:
    done = standin.run("attach", str(launching.pid), "-o", str(tmp_path / "a.warp"))
    assert done.returncode == 1
    assert "Remote debugging is not enabled" in done.stderr
    assert not (tmp_path / "a.warp").exists()


def test_a_process_that_cannot_be_attached_to_says_what_would_help(standin: Standin, tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        done = standin.run("attach", str(process.pid), "-o", str(tmp_path / "a.warp"))
    finally:
        process.kill()
        process.wait()
    assert done.returncode == 1
    assert "WARPSIGHT=dormant" in done.stderr
    assert not (tmp_path / "a.warp").exists()
    assert standin.run("attach", "999999999").returncode == 1
    assert standin.run("detach", "1").returncode == 1


def test_the_door_is_closed_when_the_process_ends(standin: Standin) -> None:
    process = dormant(standin, "init", "sleep:300")
    until(lambda: attach.door(process.pid) or process.poll() is not None, "the door")
    assert process.wait(TIMEOUT) == 0
    assert not list(Path("/tmp").glob(f"warpsight-attach-*/{process.pid}"))
