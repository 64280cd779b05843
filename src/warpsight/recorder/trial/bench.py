"""Recording a known program and checking that nothing of it is missing: for `bench` and the self-test."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import warpsight.model
from warpsight.errors import WarpsightError
from warpsight.machine import cuda_driver, opencl, workload

_TIMEOUT_S = 600
#: Turns of the three programs at most, and launches of each in a turn at least: the machine's speed wanders in seconds, turns
#: take milliseconds.
TURNS, LEAST = 500, 20
#: Launches unless another number is asked for.
LAUNCHES = 50_000
#: The share of turns that are faster than what counts: others on the machine only ever make a turn longer.
_QUANTILE = 0.25
#: Resamples for the uncertainty, and its factor: nineteen times of twenty.
_RESAMPLES, _SURE = 400, 1.96

# Every launch with its kernel and stack, by the id that ties them together.
_JOINED = """
SELECT count(*) AS launches,
       count(k.start) AS kernels,
       count(l.stack) FILTER (WHERE k.start IS NOT NULL) AS complete,
       count(DISTINCT l.stack) AS stacks,
       avg(s.depth) AS frames
FROM launch l
LEFT JOIN kernel k ON k.process = l.process AND k.correlation = l.correlation
LEFT JOIN stack s ON s.id = l.stack
"""


@dataclass(frozen=True)
class Bench:
    """What was recorded of `launches` launches, and what each cost. Times are nanoseconds per launch.

    `bare_ns`, `without_stacks_ns` and `with_stacks_ns` are the time the program needed to issue one launch: lower quartiles over
    turns. `launch_cost_ns` and `stack_cost_ns` are what recording a launch and its stack add to it; None where that is less than
    the uncertainty (95 %) beside it.
    """

    platform: str
    device: str
    launches: int
    recorded: int
    kernels: int
    complete: int
    stacks: int
    frames: float
    kernels_per_second: float
    bare_ns: float
    without_stacks_ns: float
    with_stacks_ns: float
    launch_cost_ns: float | None = None
    stack_cost_ns: float | None = None
    launch_uncertainty_ns: float = 0.0
    stack_uncertainty_ns: float = 0.0

    @property
    def ok(self) -> bool:
        """Every launch has its kernel and its stack."""
        return self.complete == self.kernels == self.recorded == self.launches

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object."""
        return {**asdict(self), "ok": self.ok}


def program(platform: str, launches: int | None) -> list[str]:
    """The command line of the workload; without a number it launches on request."""
    return [sys.executable, "-m", workload.__name__, platform, "-" if launches is None else str(launches)]


def run(platform: str, launches: int, stacks: str = "python", turns: int = TURNS) -> Bench:
    """Run the workload bare, recorded without stacks, and recorded with stacks: `python`, `native` or `both`.

    The three programs live at the same time and launch in turns, so that all meet the same machine.

    Raises:
        WarpsightError: when the workload or the recording fails.
    """
    (cuda_driver if platform == "cuda" else opencl).require()
    sizes = _sizes(launches - 1, turns)
    with tempfile.TemporaryDirectory(prefix="warpsight-bench-") as folder:
        command = program(platform, None)
        plain, traced = Path(folder, "plain.warp"), Path(folder, "stacks.warp")
        recorded = [record_command(plain, command, "off"), record_command(traced, command, stacks)]
        times, device, total = _in_turn([command, *recorded], sizes)
        with warpsight.model.open(traced) as trace:
            recorded_rows, kernels, complete, distinct, frames = trace.sql(_JOINED).fetchall()[0]
    launch_cost, launch_sure = cost(times[0], times[1])
    stack_cost, stack_sure = cost(times[1], times[2])
    bare, without, with_stacks = (float(np.quantile(kind, _QUANTILE)) for kind in times)
    return Bench(
        platform, device, launches, recorded_rows, kernels, complete, distinct, float(frames or 0),
        (launches - 1) / total if total else 0.0, bare, without, with_stacks, launch_cost, stack_cost, launch_sure, stack_sure,
    )  # fmt: skip


def cost(before: Sequence[float], after: Sequence[float]) -> tuple[float | None, float]:
    """How much longer turns after took than those before, by their lower quartiles, and how sure that is.

    The first is None where it is less than the second, which resampled pairs of turns give.
    """
    pairs = np.array([before, after])
    found = np.diff(np.quantile(pairs, _QUANTILE, axis=1))[0]
    drawn = np.random.default_rng(0).integers(0, pairs.shape[1], (_RESAMPLES, pairs.shape[1]))
    sure = _SURE * float(np.std(np.diff(np.quantile(pairs[:, drawn], _QUANTILE, axis=2), axis=0)))
    return float(found) if found > sure else None, sure


def _sizes(launches: int, turns: int) -> list[int]:
    """Launches of each turn."""
    turns = max(1, min(turns, launches // LEAST))
    return [launches * (i + 1) // turns - launches * i // turns for i in range(turns)]


def _in_turn(commands: Sequence[list[str]], sizes: Sequence[int]) -> tuple[list[list[float]], str, float]:
    """Of each program its nanoseconds per launch in each turn, the device, and the seconds that the last one took in all."""
    times: list[list[float]] = [[] for _ in commands]
    total = 0.0
    with contextlib.ExitStack() as all_of_them:
        programs = [all_of_them.enter_context(_Program(command)) for command in commands]
        device = str([one.answer() for one in programs][-1]["device"])
        for turn, size in enumerate(sizes):
            order = range(len(programs)) if turn % 2 == 0 else reversed(range(len(programs)))
            for i in order:
                done = programs[i].launch(size)
                times[i].append(1e9 * float(done["issue_s"]) / max(size, 1))
                total += float(done["total_s"]) if i == len(programs) - 1 else 0.0
        for one in programs:
            one.finish()
    return times, device, total


class _Program:
    """A workload that launches on request."""

    def __init__(self, command: list[str]) -> None:
        self._command = " ".join(command)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
                                         env=environment)  # fmt: skip

    def __enter__(self) -> _Program:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def launch(self, count: int) -> dict[str, Any]:
        """Launch and wait for the answer."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone: there will be no answer
            self._process.stdin.write(f"{count}\n")
            self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next object it prints."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                parsed: dict[str, Any] = json.loads(line)
                return parsed
        raise self._failed()

    def finish(self) -> None:
        """Let it end, and its recording."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise WarpsightError(f"{self._command} did not end within {_TIMEOUT_S} s") from None
        if code:
            raise self._failed()

    def _failed(self) -> WarpsightError:
        self._process.wait(_TIMEOUT_S)
        self._errors.seek(0)
        said = self._errors.read().strip()[-2000:]
        return WarpsightError(f"{self._command} ended with {self._process.returncode}: {said}")


def record_command(path: Path, program: list[str], stacks: str = "python") -> list[str]:
    """The command line that records a program quietly."""
    return [
        sys.executable,
        "-m",
        "warpsight",
        "record",
        "-q",
        "-o",
        str(path),
        "--stacks",
        stacks,
        "--",
        *program,
    ]
