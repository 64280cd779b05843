"""The host sampler: stacks of another process's Python threads, read from outside while it runs."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stack_recording import HERE, MINORS, Recorded, interpreter, read
from warpsight.capture.segments import layout

SOURCE = str(Path(layout.__file__).parents[3])


@contextmanager
def target(minor: int | str, behaviour: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A running `stack_target.py` and its threads' ids, the main thread's first."""
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"no CPython 3.{minor} here")
    command = [python, str(HERE / "stack_target.py"), behaviour]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def sample(
    library: Path,
    folder: Path,
    pid: int,
    times: int,
    pause: float = 0,
    meanwhile: Callable[[], None] = lambda: None,
) -> tuple[dict[str, Any], Recorded]:
    """Sample a process `times` times; what it said, and its rows. `meanwhile` runs after the first sample."""
    command = [
        sys.executable,
        str(HERE / "stack_sampling.py"),
        str(library),
        str(folder),
        str(pid),
        str(times),
    ]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    with subprocess.Popen(
        [*command, str(pause)], env=environment, stdout=subprocess.PIPE, text=True
    ) as sampling:
        assert sampling.stdout
        line = sampling.stdout.readline()
        if line == "sampling\n":
            meanwhile()
            line = sampling.stdout.readline()
        assert sampling.wait(300) == 0
    return json.loads(line), read(folder / "raw")


@pytest.mark.parametrize("minor", MINORS)
def test_waiting_threads_are_where_they_wait(library: Path, tmp_path: Path, minor: int | str) -> None:
    with target(minor, "waiting") as (process, threads):
        said, recorded = sample(library, tmp_path, process.pid, 50, 0.01)
    assert said["opened"]
    assert {int(row["thread"]) for row in recorded.samples} == set(threads)
    settled = recorded.samples[-4 * 10 :]  # the main thread may have been on its way at first
    for row in settled:
        chain = recorded.chain(int(row["stack"]))
        depth = [10, 0, 5, 30][threads.index(int(row["thread"]))]
        assert [name for name, _, _ in chain].count("waiting") == depth + 1
        own = [line for name, file, line in chain if name == "waiting" and file.endswith("stack_target.py")]
        assert len(set(own[:-1])) <= 1
        assert own[-1] not in own[:-1]
        assert chain[-1][1].endswith("threading.py")
        assert chr(row["state"]) == "S"
        assert not row["gil"]
        assert row["pid"] == process.pid
        assert recorded.stacks[int(row["stack"])]["method"] == layout.STACK_REMOTE


def sample_busy(library: Path, folder: Path, minor: int | str, doing: str) -> tuple[list[Any], Recorded]:
    """Samples of the only thread of a program that never waits, and the recording; all are there or said to be missed."""
    with target(minor, doing) as (process, threads):
        said, recorded = sample(library, folder, process.pid, 3000)
    busy = [row for row in recorded.samples if row["thread"] == threads[0]]
    assert len(busy) + said["statistics"][1] >= 3000
    return busy, recorded


@pytest.mark.parametrize("minor", MINORS)
def test_a_working_thread_is_never_seen_where_it_cannot_be(
    library: Path, tmp_path: Path, minor: int | str
) -> None:
    busy, recorded = sample_busy(library, tmp_path, minor, "working")
    assert len(busy) > 300
    ladder = [name + str(n) for n in range(12) for name in "ab"]
    seen = set()
    for stack in {int(row["stack"]) for row in busy}:
        names = [name for name, file, _ in recorded.chain(stack) if file == "ladder.py"]
        assert names == ladder[: len(names)]
        seen.add(len(names))
    assert len(seen) > 3
    assert any(row["gil"] for row in busy) == (not str(minor).endswith("t"))
    assert any(chr(row["state"]) == "R" for row in busy)


@pytest.mark.parametrize("minor", MINORS)
def test_a_generator_is_never_seen_without_what_resumed_it(
    library: Path, tmp_path: Path, minor: int | str
) -> None:
    """Between two values a generator's frame has no caller; read at that moment, the stack would end there."""
    busy, recorded = sample_busy(library, tmp_path, minor, "generating")
    assert len(busy) > 1000
    for stack in {int(row["stack"]) for row in busy}:
        names = [name.rpartition(".")[2] for name, _, _ in recorded.chain(stack)]
        assert names[0] == "<module>"
        assert "<genexpr>" not in names or "total" in names


def test_a_process_that_ends_is_noticed(library: Path, tmp_path: Path) -> None:
    with target(sys.version_info[1], "waiting") as (process, _):
        said, recorded = sample(library, tmp_path, process.pid, 200, 0.01, process.kill)
    assert said["results"][0] == 4
    assert said["results"][-1] == -errno.ESRCH
    assert len(recorded.samples) >= 4


def test_a_process_without_python_is_refused(library: Path, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        said, recorded = sample(library, tmp_path, process.pid, 1)
        process.kill()
    assert not said["opened"]
    assert not recorded.samples


def test_a_process_that_does_not_exist_is_refused(library: Path, tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    said, _ = sample(library, tmp_path, process.pid, 1)
    assert not said["opened"]


def test_exec_is_noticed(library: Path, tmp_path: Path) -> None:
    program = "import os, sys; print(1, flush=True); sys.stdin.read(1); os.execvp('sleep', ['sleep', '60'])"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        stdin = process.stdin

        def go() -> None:
            stdin.write("x")
            stdin.flush()

        said, _ = sample(library, tmp_path, process.pid, 400, 0.01, go)
        process.kill()
    assert said["results"][0] >= 1
    assert said["results"][-1] == -errno.EAGAIN
