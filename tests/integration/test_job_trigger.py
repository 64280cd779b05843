"""`warpsight cluster trigger`: ranks of a job start and end recording together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import warpsight.model

PATIENCE = 120
#: Steps until a file says to end; after HELD of them a rank waits for another file. Its progress is a file, too.
HELD = 100
PROGRAM = """
import os, pathlib, sys, time
import warpsight as ws
place = pathlib.Path(sys.argv[1])
rank = os.environ["RANK"]
for number in range(100_000):
    with ws.annotate("work"):
        time.sleep(0.002)
    ws.step()
    (place / f"steps.{rank}").write_text(str(number + 1))
    while number + 1 == 100 and not (place / "go").exists():
        time.sleep(0.01)
    if (place / "end").exists():
        break
"""
GLOO = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(64)
""" + PROGRAM.replace("time.sleep(0.002)", "dist.all_reduce(x)").replace(
    'if (place / "end").exists():',
    "stop = torch.tensor(float((place / 'end').exists())); dist.all_reduce(stop)\n    if stop:",
)


class Job:
    """Two ranks, each recorded by a launcher of its own into one folder, as on two hosts."""

    def __init__(self, folder: Path, library: Path, *options: str) -> None:
        self.folder, self.path = folder, folder / "job.warp"
        self.environment = {**os.environ, "WARPSIGHT_LIBRARY": str(library)}
        self.running = []
        for rank in range(2):
            placed = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
            command = [sys.executable, "-m", "warpsight", "record", "-q", *options, "-o", str(self.path), "--",
                       sys.executable, "-c", PROGRAM, str(folder)]  # fmt: skip
            self.running.append(subprocess.Popen(command, env={**self.environment, **placed}))

    def until(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come"
            assert all(one.poll() in (None, 0) for one in self.running)
            time.sleep(0.01)

    def steps(self, rank: int) -> int:
        try:
            return int((self.folder / f"steps.{rank}").read_text() or 0)
        except OSError:
            return 0

    def trigger(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "warpsight", "cluster", "trigger", str(self.path), *options]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def hold(self) -> None:
        """Wait until both ranks wait."""
        self.until(lambda: self.steps(0) == self.steps(1) == HELD, "the steps that they wait after")

    def hold_passed(self) -> None:
        self.until(lambda: min(self.steps(0), self.steps(1)) > HELD, "steps after those")

    def first_moment(self, rank: int) -> float:
        """When the first recorded step ended, by the wall clock (s)."""
        with warpsight.model.open(self.path / f"rank={rank:05d}") as trace:
            sql = """SELECT min(start) + (SELECT max(realtime - monotonic) FROM clock) FROM user_event WHERE kind = 'step'"""
            return float(trace.sql(sql).fetchall()[0][0]) / 1e9

    def go(self) -> None:
        (self.folder / "go").touch()

    def end(self) -> None:
        (self.folder / "end").touch()
        for one in self.running:
            assert one.wait(PATIENCE) == 0

    def marked(self, rank: int) -> list[int]:
        """The steps that a rank's recording has."""
        with warpsight.model.open(self.path / f"rank={rank:05d}") as trace:
            found = trace.sql(
                "SELECT attributes FROM user_event WHERE kind = 'step' ORDER BY start"
            ).fetchall()
        return [json.loads(text)["step"] for (text,) in found]

    def notes(self, rank: int) -> str:
        with warpsight.model.open(self.path / f"rank={rank:05d}") as trace:
            return " ".join(text for (text,) in trace.sql("SELECT cause FROM loss").fetchall())


def test_all_ranks_record_the_same_steps(tmp_path: Path, library: Path) -> None:
    job = Job(tmp_path, library, "--on-trigger")
    job.hold()
    first = HELD + 50
    done = job.trigger("--step", str(first), "--steps", "7")
    assert done.returncode == 0, done.stderr
    assert (
        f"2 of 2 recordings of {job.path} record from step {first} for 7 steps" in done.stderr + done.stdout
    )
    job.go()
    job.until(lambda: min(job.steps(0), job.steps(1)) > first + 20, "the steps after it")
    job.end()
    wanted = list(range(first, first + 8))  # the end of each step, that before the first too
    assert [job.marked(rank) for rank in range(2)] == [wanted, wanted]
    assert f"a trigger asked to record from step {first} for 7 steps" in job.notes(1)


def test_a_rank_that_is_past_the_step_is_named(tmp_path: Path, library: Path) -> None:
    job = Job(tmp_path, library, "--on-trigger")
    job.hold()
    done = job.trigger("--step", "2")
    assert done.returncode == 1
    assert (
        "0 of 2 recordings" in done.stderr + done.stdout
        and "1 of its 1 processes are past step 2" in done.stderr
    )
    job.go()
    job.end()
    assert job.marked(0) == job.marked(1) == []


def test_all_ranks_record_from_one_time_on(tmp_path: Path, library: Path) -> None:
    job = Job(tmp_path, library, "--on-trigger")
    job.go()
    job.hold_passed()
    wait = 5.0
    asked = time.time()
    assert job.trigger("--in", str(wait)).returncode == 0
    job.until(lambda: time.time() > asked + wait + 1, "the time")
    seen = [job.steps(rank) for rank in range(2)]
    job.until(lambda: all(job.steps(rank) > seen[rank] + 50 for rank in range(2)), "steps after it")
    job.end()
    for rank in range(2):
        marked = job.marked(rank)
        assert marked[0] > HELD and marked == list(range(marked[0], marked[-1] + 1))
        assert job.first_moment(rank) >= asked + wait


def test_without_a_trigger_nothing_is_recorded_and_the_trace_says_so(tmp_path: Path, library: Path) -> None:
    job = Job(tmp_path, library, "--on-trigger")
    job.hold()
    job.go()
    job.end()
    assert job.marked(0) == [] and "no `warpsight cluster trigger` came" in job.notes(0)


def test_a_folder_that_nobody_records_into_is_one_clear_error(tmp_path: Path, library: Path) -> None:
    command = [sys.executable, "-m", "warpsight", "cluster", "trigger", str(tmp_path), "--step", "3"]
    done = subprocess.run(command, env={**os.environ, "WARPSIGHT_LIBRARY": str(library)}, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)  # fmt: skip
    assert done.returncode == 2 and "nothing is recorded into" in done.stderr


def test_ranks_of_torchrun_under_one_launcher(tmp_path: Path, library: Path) -> None:
    pytest.importorskip("torch.distributed.run")
    (tmp_path / "train.py").write_text(GLOO)
    path = tmp_path / "job.warp"
    environment = {**os.environ, "WARPSIGHT_LIBRARY": str(library), "OMP_NUM_THREADS": "1"}
    program = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(tmp_path / "train.py"),
    ]
    command = [sys.executable, "-m", "warpsight", "record", "-q", "--on-trigger", "-o", str(path), "--", sys.executable,
               *program, str(tmp_path)]  # fmt: skip
    running = subprocess.Popen(command, env=environment)
    deadline = time.monotonic() + PATIENCE
    counts = [tmp_path / f"steps.{rank}" for rank in range(2)]
    while not all(one.exists() and one.read_text() == str(HELD) for one in counts):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)
    first = HELD + 50
    ask = [
        sys.executable,
        "-m",
        "warpsight",
        "cluster",
        "trigger",
        str(path),
        "--step",
        str(first),
        "--steps",
        "3",
    ]
    done = subprocess.run(ask, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / "go").touch()
    while min(int(one.read_text() or 0) for one in counts) < first + 10:
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)
    (tmp_path / "end").touch()
    assert running.wait(PATIENCE) == 0
    with warpsight.model.open(path) as trace:
        found = trace.sql(
            "SELECT rank, attributes FROM user_event JOIN process USING (process) WHERE kind = 'step'"
        ).fetchall()
    steps = {rank: sorted(json.loads(text)["step"] for of, text in found if of == rank) for rank in (0, 1)}
    assert steps == {0: list(range(first, first + 4)), 1: list(range(first, first + 4))}
