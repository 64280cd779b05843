"""Recording a known program and checking that nothing of it is missing: for `bench` and the self-test."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import warpsight.model
from warpsight.errors import WarpsightError
from warpsight.machine import cuda_driver, opencl, workload

_TIMEOUT_S = 600
#: How often each way of running is measured, in turns: a single difference of two runs is as often noise as cost.
ROUNDS = 3

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

    `bare_ns`, `without_stacks_ns` and `with_stacks_ns` are the time the program needed to issue one launch: medians of some
    rounds. `launch_cost_ns` and `stack_cost_ns` are what recording a launch and its stack add; None where that is less than
    rounds of the same kind differ by, which is `noise_ns`.
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
    noise_ns: float = 0.0

    @property
    def ok(self) -> bool:
        """Every launch has its kernel and its stack."""
        return self.complete == self.kernels == self.recorded == self.launches

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object."""
        return {**asdict(self), "ok": self.ok}


def program(platform: str, launches: int) -> list[str]:
    """The command line of the workload."""
    return [sys.executable, "-m", workload.__name__, platform, str(launches)]


def run(platform: str, launches: int, stacks: str = "python", rounds: int = ROUNDS) -> Bench:
    """Run the workload bare, recorded without stacks, and recorded with stacks: `python`, `native` or `both`.

    The counts are those of the round that lost most.

    Raises:
        WarpsightError: when the workload or the recording fails.
    """
    (cuda_driver if platform == "cuda" else opencl).require()
    made = [_round(platform, launches, stacks) for _ in range(rounds)]
    recorded, kernels, complete, distinct, frames = min(
        (found for _, found in made), key=lambda found: found[2]
    )
    bare, plain, traced = (
        [1e9 * float(done["issue_s"]) / max(launches - 1, 1) for done in kind]
        for kind in zip(*(done for done, _ in made), strict=True)
    )
    last = made[-1][0][-1]
    return Bench(
        platform,
        last["device"],
        launches,
        recorded,
        kernels,
        complete,
        distinct,
        float(frames or 0),
        (launches - 1) / last["total_s"] if last["total_s"] else 0.0,
        statistics.median(bare),
        statistics.median(plain),
        statistics.median(traced),
        cost(bare, plain),
        cost(plain, traced),
        max(max(kind) - min(kind) for kind in (bare, plain, traced)),
    )


def cost(before: Sequence[float], after: Sequence[float]) -> float | None:
    """How much longer the rounds after took, by their medians; None when rounds of one kind differ by as much."""
    difference = statistics.median(after) - statistics.median(before)
    noise = max(max(kind) - min(kind) for kind in (before, after))
    return difference if difference > noise else None


def _round(platform: str, launches: int, stacks: str) -> tuple[list[dict[str, Any]], tuple[Any, ...]]:
    """What the workload printed when it ran bare, recorded and recorded with stacks; what the last recording holds."""
    command = program(platform, launches)
    with tempfile.TemporaryDirectory(prefix="warpsight-bench-") as folder:
        bare = _last_json(command)
        plain = _last_json(record_command(Path(folder, "plain.warp"), command, "off"))
        traced = _last_json(record_command(Path(folder, "stacks.warp"), command, stacks))
        with warpsight.model.open(Path(folder, "stacks.warp")) as trace:
            found: tuple[Any, ...] = trace.sql(_JOINED).fetchall()[0]
    return [bare, plain, traced], found


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


def _last_json(command: list[str]) -> dict[str, Any]:
    """Run a command and parse the last line it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise WarpsightError(f"{' '.join(command)} did not end within {_TIMEOUT_S} s") from error
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise WarpsightError(
            f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}"
        )
    parsed: dict[str, Any] = json.loads(lines[-1])
    return parsed
