"""`record --backend uprobe`: stacks of a program that knows nothing of it, from a library of our own named like CUDA's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.model import open as open_trace
from warpsight_plugins.uprobe import probes

LIBRARY = """
#include <unistd.h>
int cudaLaunchKernel(const void *kernel, int grid) { return getppid() + grid + !kernel; }
int cudaFree(void *p) { return getppid() + !p; }
"""
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cudaLaunchKernel(const void *, int);
int cudaFree(void *);
__attribute__((noinline)) int forward(int i) { return cudaLaunchKernel(0, i) + 1; }
__attribute__((noinline)) int backward(int i) { return cudaLaunchKernel(0, i) + 2; }
int main(int argc, char **argv) {
  int waits = argc > 1 && argv[1][0] == 'w', code = argc > 1 ? atoi(argv[1]) : 0, sum = 0;
  if (waits) { puts("ready"); fflush(stdout); }
  do {
    for (int i = 0; i < 5; i++) sum += forward(i);
    for (int i = 0; i < 3; i++) sum += backward(i);
    sum += cudaFree(0);
    if (waits) usleep(2000);
  } while (waits);
  return sum == 12345 ? 99 : code;
}
"""


def _missing() -> str | None:
    """Why uprobes cannot be used here."""
    if shutil.which("perf") is None:
        return "no perf"
    if os.geteuid() != 0:
        return "uprobes need root"
    if probes.tracefs() is None:
        return "tracefs is not mounted or not writable"
    return None


pytestmark = [
    pytest.mark.skipif(bool(_missing()), reason=str(_missing())),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, linked to a libcudart.so of our own beside it."""
    folder = tmp_path_factory.mktemp("uprobe")
    (folder / "library.c").write_text(LIBRARY)
    (folder / "program.c").write_text(PROGRAM)
    flags = ["gcc", "-g", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]
    subprocess.run([*flags, "-shared", "-fPIC", "-o", "libcudart.so", "library.c"], cwd=folder, check=True)
    subprocess.run(
        [*flags, "-o", "program", "program.c", "-L.", "-lcudart", f"-Wl,-rpath,{folder}"],
        cwd=folder,
        check=True,
    )
    return folder / "program"


def record(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warpsight.ui.cli", "record", "--backend", "uprobe", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def own_probes() -> list[str]:
    text = Path(f"{probes.tracefs()}/uprobe_events").read_text()
    return [line for line in text.splitlines() if "warpsight" in line and "libcudart.so" in line]


def test_every_launch_of_a_program_has_its_stack(program: Path, tmp_path: Path) -> None:
    done = record("-o", str(tmp_path / "run.warp"), "--", str(program), "7")
    assert done.returncode == 7, done.stderr
    assert "nvidia_uvm" in done.stderr or not probes.tracepoints()[1]
    with open_trace(tmp_path / "run.warp") as trace:
        rows = trace.sql("SELECT function, stack FROM launch ORDER BY start").fetchall()
        assert [function for function, _ in rows] == ["cudaLaunchKernel"] * 8
        frames = trace.stacks(stack for _, stack in rows)
        callers = [[f.split(" (")[0] for f in frames[stack]][-2] for _, stack in rows]
        assert callers == ["forward"] * 5 + ["backward"] * 3
        assert trace.sql("SELECT function FROM api").fetchall() == [("cudaFree",)]
    assert own_probes() == []


def test_children_are_recorded_and_strangers_are_not(program: Path, tmp_path: Path) -> None:
    stranger = subprocess.Popen([program, "wait"], stdout=subprocess.DEVNULL)
    try:
        library = f"--library {program.with_name('libcudart.so')}"
        done = record(
            "-o",
            str(tmp_path / "run.warp"),
            "--backend-args",
            library,
            "--",
            "sh",
            "-c",
            f"{program}; exit 3",
        )
    finally:
        stranger.kill()
        stranger.wait()
    assert done.returncode == 3, done.stderr
    with open_trace(tmp_path / "run.warp") as trace:
        assert trace.count("launch") == 8
        assert stranger.pid not in [pid for (pid,) in trace.sql("SELECT pid FROM process").fetchall()]


def test_a_running_process_is_recorded_until_the_time_is_over(program: Path, tmp_path: Path) -> None:
    running = subprocess.Popen([program, "wait"], stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None and running.stdout.readline() == "ready\n"
        done = record("-o", str(tmp_path / "run.warp"), "--pid", str(running.pid), "--for", "0.3")
        assert running.poll() is None  # it goes on
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert done.returncode == 0, done.stderr
    with open_trace(tmp_path / "run.warp") as trace:
        launches, frees = trace.count("launch"), trace.count("api")
        assert launches > 8 and abs(launches / 8 - frees) <= 1
        assert trace.sql("SELECT DISTINCT pid FROM process").fetchall() == [(running.pid,)]


def test_a_process_without_the_functions_is_refused_in_one_line(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        done = record("-o", str(tmp_path / "run.warp"), "--pid", str(sleeper.pid), "--for", "1")
    finally:
        sleeper.kill()
        sleeper.wait()
    assert done.returncode == 1
    assert "has no library with CUDA's or HIP's functions" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run.warp").exists()
