"""Recording a known program and checking that no row is missing: for `bench` and the self-test."""

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
import numpy.typing as npt

import warpsight.model
from warpsight.errors import WarpsightError
from warpsight.machine import opencl, workload
from warpsight.machine.cuda import cuda_driver

_TIMEOUT_S = 600
#: Of programs that are not wanted any more.
_GRACE_S = 3.0
#: Turns of the three programs at most, and launches of each in a turn at least: the machine's speed wanders in seconds, turns
#: take milliseconds.
TURNS, LEAST = 500, 20
#: Launches unless another number is requested.
LAUNCHES = 50_000
#: The share of turns that are faster than what counts: others on the machine only ever make a turn longer.
_QUANTILE = 0.25
#: Sets of three programs, each started anew, and Student's factor for the mean of so many: nineteen times of twenty.
SETS, _STUDENT = 5, 2.776
#: Resamples for the uncertainty of a single set, and its factor.
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
    """A recording of `launches` launches, and the cost per launch in ns.

    `bare_ns`, `without_stacks_ns` and `with_stacks_ns` are the time the program needed to issue one launch: lower quartiles over
    turns, averaged over sets of programs. `launch_cost_ns` and `stack_cost_ns` are the added cost of recording a launch and its
    stack; None if that is less than its uncertainty (95%).
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
        """Whether every launch has its kernel and its stack."""
        return self.complete == self.kernels == self.recorded == self.launches

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object."""
        return {**asdict(self), "ok": self.ok}


def program(platform: str, launches: int | None) -> list[str]:
    """The command line of the workload; without a number it launches on request."""
    return [sys.executable, "-m", workload.__name__, platform, "-" if launches is None else str(launches)]


def run(platform: str, launches: int, stacks: str = "python", turns: int = TURNS) -> Bench:
    """Run the workload bare, recorded without stacks, and recorded with stacks: `python`, `native` or `both`.

    The three programs run at the same time and launch in turns, so that all see the same machine. Five such sets follow one
    another.

    Raises:
        WarpsightError: when the workload or the recording fails.
    """
    (cuda_driver if platform == "cuda" else opencl).require()
    several = turns >= SETS and launches >= SETS * LEAST
    shares = _shares(launches, SETS if several else 1)
    sets = [_set(platform, share, stacks, max(1, turns // len(shares))) for share in shares]
    bare, without, traced = ([one.times[kind] for one in sets] for kind in range(3))
    launch_cost, launch_sure = cost(bare, without)
    stack_cost, stack_sure = cost(without, traced)
    seconds = sum(one.seconds for one in sets)
    return Bench(
        platform=platform,
        device=sets[0].device,
        launches=launches,
        recorded=sum(one.recorded for one in sets),
        kernels=sum(one.kernels for one in sets),
        complete=sum(one.complete for one in sets),
        stacks=max(one.stacks for one in sets),
        frames=float(np.mean([one.frames for one in sets])),
        kernels_per_second=(launches - len(sets)) / seconds if seconds else 0.0,
        bare_ns=float(np.mean(_quartiles(bare))),
        without_stacks_ns=float(np.mean(_quartiles(without))),
        with_stacks_ns=float(np.mean(_quartiles(traced))),
        launch_cost_ns=launch_cost,
        stack_cost_ns=stack_cost,
        launch_uncertainty_ns=launch_sure,
        stack_uncertainty_ns=stack_sure,
    )


@dataclass(frozen=True)
class _Set:
    """The results of three programs that ran at the same time: for each, nanoseconds per launch in each turn."""

    times: list[list[float]]
    device: str
    #: That the last of them took in all.
    seconds: float
    #: Launches of the last: all, those with their kernel, those with kernel and stack.
    recorded: int
    kernels: int
    complete: int
    stacks: int
    frames: float


def _set(platform: str, launches: int, stacks: str, turns: int) -> _Set:
    sizes = _sizes(launches - 1, turns)
    with tempfile.TemporaryDirectory(prefix="warpsight-bench-") as folder:
        command = program(platform, None)
        plain, traced = Path(folder, "plain.warp"), Path(folder, "stacks.warp")
        recorded = [record_command(plain, command, "off"), record_command(traced, command, stacks)]
        times, device, seconds = _in_turn([command, *recorded], sizes)
        with warpsight.model.open(traced) as trace:
            rows, kernels, complete, distinct, frames = trace.sql(_JOINED).fetchall()[0]
    return _Set(times, device, seconds, rows, kernels, complete, distinct, float(frames or 0))


def cost(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> tuple[float | None, float]:
    """How much longer turns after took than turns before, by the lower quartiles of each set, and the uncertainty.

    The first is None if it is less than the second. The uncertainty comes from differences between sets, because the
    programs' places in memory and their processors matter more than the turns of one set show. For a single set, it comes from
    resampled pairs of turns.
    """
    found = _quartiles(after) - _quartiles(before)
    if len(found) > 1:
        sure = _STUDENT * float(np.std(found, ddof=1)) / len(found) ** 0.5
    else:
        pairs = np.array([before[0], after[0]])
        drawn = np.random.default_rng(0).integers(0, pairs.shape[1], (_RESAMPLES, pairs.shape[1]))
        sure = _SURE * float(np.std(np.diff(np.quantile(pairs[:, drawn], _QUANTILE, axis=2), axis=0)))
    mean = float(np.mean(found))
    return mean if mean > sure else None, sure


def _quartiles(sets: Sequence[Sequence[float]]) -> npt.NDArray[np.float64]:
    return np.array([np.quantile(turns, _QUANTILE) for turns in sets])


def _shares(launches: int, sets: int) -> list[int]:
    """Launches of each set."""
    return [launches * (i + 1) // sets - launches * i // sets for i in range(sets)]


def _sizes(launches: int, turns: int) -> list[int]:
    """Launches of each turn."""
    return _shares(launches, max(1, min(turns, launches // LEAST)))


def _in_turn(commands: Sequence[list[str]], sizes: Sequence[int]) -> tuple[list[list[float]], str, float]:
    """For each program, its nanoseconds per launch in each turn, the device, and the total seconds of the last turn."""
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
        if self._process.poll() is None:  # a recorder has its socket and memory to remove
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
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
