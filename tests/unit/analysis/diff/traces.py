"""Runs of small programs as traces, made from a seed: what a run took is known to the nanosecond."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from warpsight.analysis.diff import runs
from warpsight.analysis.diff.answer import Difference
from warpsight.analysis.diff.compare import compare_runs
from warpsight.analysis.diff.runs import ReducedRun
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

DAY = 1_790_000_000 * 10**9


@dataclass(frozen=True)
class Launch:
    """One kernel of an iteration: its name, length (ns), the functions that launch it (outermost first), and its ranges."""

    name: str
    length: int = 30_000
    frames: tuple[str, ...] = ("main", "layer")
    ranges: tuple[str, ...] = ()


TRAINING = (
    Launch("gemm_a", 60_000, ("main", "forward", "attention")),
    Launch("softmax_b", 20_000, ("main", "forward", "attention")),
    Launch("gemm_c", 40_000, ("main", "forward", "mlp")),
    Launch("add_functor", 10_000, ("main", "forward", "mlp")),
    Launch("adam_d", 30_000, ("main", "step")),
)


@dataclass(frozen=True)
class Program:
    """A loop of launches.

    Attributes:
        launches: One iteration; every `other_every`-th takes `other` instead.
        turns: Iterations.
        announced: Text of the range around each, before its number; None: none.
        noise: Relative noise of a run as a whole, of each kernel in a run, and of each launch.
        factors: Name of a kernel → how many times as long it takes.
    """

    launches: tuple[Launch, ...] = TRAINING
    turns: int = 24
    announced: str | None = "step "
    noise: tuple[float, float, float] = (0.01, 0.004, 0.02)
    factors: tuple[tuple[str, float], ...] = ()
    other: tuple[Launch, ...] = ()
    other_every: int = 4
    folder: str = "/home/one"

    def slower(self, name: str, factor: float) -> Program:
        """The same program with one slower kernel."""
        return replace(self, factors=(*self.factors, (name, factor)))


def record(path: Path, program: Program, seed: int, began: int | None = None) -> Path:
    """Write one run as a trace; `began` is when, ns since 1970."""
    rng = np.random.default_rng(seed)
    whole, each, launch_noise = program.noise
    machine = np.exp(rng.normal(0, whole))
    own = {one.name: np.exp(rng.normal(0, each)) for one in (*program.launches, *program.other)}
    factors = dict(program.factors)
    with TraceWriter(path) as writer:
        if began is not None:
            writer.add("clock", [{"monotonic": 0, "realtime": began}])
        kernels, launches, markers = [], [], []
        clock = 1_000_000
        for turn in range(program.turns):
            begin = clock
            other = program.other and turn % program.other_every == program.other_every - 1
            for launch in program.other if other else program.launches:
                length = launch.length * machine * own[launch.name] * factors.get(launch.name, 1.0)
                duration = max(int(length * np.exp(rng.normal(0, launch_noise))), 1)
                stack = writer.stack(
                    [(f, f"{program.folder}/train.py", 1, None, "python", None) for f in launch.frames]
                )
                number = len(kernels)
                kernels.append({"start": clock, "duration": duration, "name_id": writer.name(launch.name), "context": 1,
                                "stream": 7, "device": 0, "process": 0, "graph_level": False, "stack": stack,
                                "correlation": number})  # fmt: skip
                launches.append({"start": clock - 50, "duration": 20, "function": "cudaLaunchKernel", "thread": 1, "process": 0,
                                 "correlation": number, "captured": False})  # fmt: skip
                for depth, text in enumerate(launch.ranges):
                    markers.append(_range(writer, text, clock - 90 + depth, 60))
                clock += duration + 1_000
            clock += 5_000
            if program.announced is not None:
                markers.append(_range(writer, f"{program.announced}{turn}", begin - 200, clock - begin - 300))
        writer.add("kernel", kernels)
        writer.add("launch", launches)
        if markers:
            writer.add("marker", markers)
    return path


def _range(writer: TraceWriter, text: str, start: int, duration: int) -> dict[str, object]:
    return {"start": start, "duration": duration, "kind": "push/pop", "open": False, "thread": 1, "process": 0,
            "name_id": writer.name(text), "source": "nvtx"}  # fmt: skip


@cache
def run_of(program: Program, seed: int, began: int | None = None) -> ReducedRun:
    """One run, reduced; each is recorded once for all tests."""
    with (
        TemporaryDirectory() as folder,
        open_trace(record(Path(folder) / "run.warp", program, seed, began)) as trace,
    ):
        return runs.read(trace)


def sides(
    before: Program,
    after: Program,
    count: int = 5,
    *,
    in_turn: bool = True,
    seed: int = 0,
    timed: bool = True,
) -> tuple[list[ReducedRun], list[ReducedRun]]:
    """Runs of two programs, in the order in which they were taken."""
    found: tuple[list[ReducedRun], list[ReducedRun]] = [], []
    for number in range(2 * count):
        second = bool(number % 2) if in_turn else number >= count
        began = DAY + number * 10**9 if timed else None
        found[second].append(run_of(after if second else before, seed + number, began))
    return found


def compared(before: Program, after: Program, count: int = 5, **more: Any) -> Difference:
    """The comparison of some runs of two programs."""
    return compare_runs(*sides(before, after, count, **more))


def rows(found: Difference, table: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    return list(found.result.tables[table].to_pylist())


def row(found: Difference, table: str, name: str) -> dict[str, Any]:
    """One row of a table by its name."""
    return next(one for one in rows(found, table) if one["name"] == name)
