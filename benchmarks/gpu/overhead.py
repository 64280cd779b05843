"""Overhead of recording as a ratio to the bare run: interleaved pairs, with an upper bound of the paired median.

usage: overhead.py [--pairs 15] [--seconds S] [--only torch,empty,after] [--minimal LIBRARY] [-o results.json]

One pair is a bare process and a recorded process, in alternating order. The bound is distribution-free: the order
statistic that the true median exceeds with less than 5 % probability. A bar is met when the bound is within it. Every
run is printed to standard error as it ends, and `--seconds` begins no pair after that time: what was measured is kept.
`--minimal LIBRARY` also times the C++ loop under another injection library (tests/gpu/minimal_injection.cpp).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RATIOS = [
    ("recorded", "bare"),
    ("recorded", "minimal"),
    ("minimal", "bare"),
]
RECORD = [sys.executable, "-m", "warpsight", "record", "-q", "-f"]


def upper_bound(ratios: list[float]) -> float:
    """Upper 95 % confidence bound of the median: the smallest order statistic x(k) with P(Binomial(n, ½) < k) ≥ 0.95."""
    ordered = sorted(ratios)
    n = len(ordered)
    below = 0.0
    for k in range(n):
        below += math.comb(n, k) / 2**n
        if below >= 0.95:
            return ordered[k]
    return ordered[-1]


def run(command: list[str], environment: dict[str, str] | None = None) -> Any:
    """Run a workload and parse the JSON line it prints last."""
    result = subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True
    )
    if result.returncode:
        raise SystemExit(
            f"{' '.join(command)} exited with {result.returncode}:\n{result.stdout}\n{result.stderr}"
        )
    return json.loads(result.stdout.strip().splitlines()[-1])


def recorded(command: list[str], *options: str) -> Any:
    """Run a workload under `warpsight record`, in a folder that is removed again."""
    with tempfile.TemporaryDirectory() as folder:
        return run([*RECORD, "-o", str(Path(folder) / "run.warp"), *options, "--", *command])


def summary(name: str, ratios: list[float], bare: list[float]) -> dict[str, Any]:
    """The figures of one line of the table."""
    return {
        "case": name,
        "pairs": len(ratios),
        "bare": round(statistics.median(bare), 6),
        "median": round(statistics.median(ratios), 4),
        "upper95": round(upper_bound(ratios), 4),
        "min": round(min(ratios), 4),
        "max": round(max(ratios), 4),
    }


def in_turn(
    cases: dict[str, Callable[[], Any]], pairs: int, until: float = math.inf
) -> Iterator[tuple[str, Any]]:
    """Every case once per pair, the order reversed from pair to pair; yields the case and what it gave."""
    names = list(cases)
    for pair in range(pairs):
        if time.monotonic() > until:
            return
        for case in names if pair % 2 == 0 else names[::-1]:
            result = cases[case]()
            print(json.dumps({"pair": pair, "case": case, "result": result}), file=sys.stderr, flush=True)
            yield case, result


def compared(name: str, times: dict[str, list[float]]) -> list[dict[str, Any]]:
    """A line for each ratio of interest among the cases that were measured."""
    lines = []
    for top, bottom in RATIOS:
        if top in times and bottom in times:
            ratios = [a / b for a, b in zip(times[top], times[bottom], strict=True)]
            lines.append(summary(f"{name}: {top} / {bottom}", ratios, times[bottom]))
    return lines


def torch_pairs(pairs: int, minimal: str | None, workloads: str, until: float) -> list[dict[str, Any]]:
    """All torch workloads of a pair run in the same two processes (three with a minimal injection library)."""
    command = [sys.executable, str(HERE / "torch_workloads.py"), "--workloads", workloads]
    cases = {"bare": lambda: run(command), "recorded": lambda: recorded(command)}
    if minimal:
        cases["minimal"] = lambda: run(command, {"CUDA_INJECTION64_PATH": minimal})
    times: dict[str, dict[str, list[float]]] = {}
    for case, results in in_turn(cases, pairs, until):
        for workload, result in results.items():
            by_case = times.setdefault(workload, {})
            by_case.setdefault(case, []).append(statistics.median(result["bare"]))
    return [line for workload in times for line in compared(f"torch {workload}", times[workload])]


def empty_pairs(pairs: int, minimal: str | None, until: float) -> list[dict[str, Any]]:
    """The C++ loop: bare, recorded without stacks, and under a minimal injection library."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    program = str(Path(tempfile.mkdtemp()) / "empty_kernels")
    subprocess.run([nvcc, "-O2", "-arch=native", "-o", program, str(HERE / "empty_kernels.cu")], check=True)
    command = [program, "20000", "15"]  # launches, repetitions: a shared host disturbs some of them
    cases = {
        "bare": lambda: run(command),
        "recorded": lambda: recorded(command, "--stacks", "off"),
    }
    if minimal:
        cases["minimal"] = lambda: run(command, {"CUDA_INJECTION64_PATH": minimal})
    times: dict[str, list[float]] = {}
    for case, result in in_turn(cases, pairs, until):
        times.setdefault(case, []).append(statistics.median(result["total_ns"]))
    return compared("empty kernels", times)


def after_pairs(pairs: int, seconds: float) -> list[dict[str, Any]]:
    """The add loop before the first and after each of three recordings in one process."""
    script = str(HERE / "after_recording.py")
    lines = []
    for mode in ("plain", "graph"):
        until = time.monotonic() + seconds / 2
        ratios: list[float] = []
        bare: list[float] = []
        for _, result in in_turn({mode: lambda mode=mode: run([sys.executable, script, mode])}, pairs, until):
            bare.append(result["before"])
            ratios.append(result["after"] / result["before"])
        lines.append(summary(f"after three recordings, {mode}", ratios, bare))
    return lines


GROUPS: dict[str, Callable[[argparse.Namespace, float], list[dict[str, Any]]]] = {
    "torch": lambda o, until: torch_pairs(o.pairs, o.minimal, o.workloads, until),
    "empty": lambda o, until: empty_pairs(o.pairs, o.minimal, until),
    "after": lambda o, until: after_pairs(o.pairs, o.seconds),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=math.inf, help="of each group: begin no pair later")
    parser.add_argument("--only", default="empty,torch,after")
    parser.add_argument("--workloads", default="add,decode,graph,train", help="of torch_workloads.py")
    parser.add_argument("--minimal", help="path of a minimal CUPTI injection library")
    parser.add_argument("-o", "--output", help="write the figures as JSON lines")
    options = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for what in options.only.split(","):
        new = GROUPS[what](options, time.monotonic() + options.seconds)
        lines += new
        for line in new:
            print(json.dumps(line), flush=True)
    if options.output:
        Path(options.output).write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
