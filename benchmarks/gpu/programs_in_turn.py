"""What recording costs a program, on a machine whose speed wanders: programs that are all alive run blocks of steps in turn.

usage: programs_in_turn.py WORKLOAD ... --arms floor,record [--to floor] [--seconds 30] [--block 0.3]

Arms: `bare`, `floor` (floor.cpp: CUPTI's records, thrown away), `walk` (the second floor: stacks of launches, too), `record` (all
defaults), `pc` (record --pc-sampling on), `waiting` (capsule record --range that never comes), `counting` (capsule record -k '*'
--launch that never comes), `looking` (-k that never comes, where who writes memory is noted); options may follow, as in
`record+--stacks=off+--sample=off`. Each is a program of its own, on one core (JAX's on all, it has threads of its own), that
waits for its turn; of the arm that the others are compared `--to` there are two. One JSON line for each workload: for each arm
the time of a step over the mean of those two in the same round, median over the rounds and its 95% interval, the same of all
rounds together (`total`), and the same between the two (`alike`). Short blocks leave what a recorder does now and then to
whichever program runs then; blocks of 0.3 s hold a flush.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from overhead import build_floor
from workloads import WORKLOADS

NEVER = "1000000000000"
COMMANDS = {
    "record": ["record", "-q"],
    "pc": ["record", "-q", "--pc-sampling", "on"],
    "waiting": ["capsule", "record", "--range", "none"],
    "counting": ["capsule", "record", "-k", "*", "--launch", NEVER],
    "looking": ["capsule", "record", "-k", "no such kernel"],
}
ARMS = ("bare", "floor", "walk", *COMMANDS)


class Program:
    """A program that runs blocks of a workload's steps when it is told to."""

    def __init__(self, workload: str, arm: str, folder: Path, floor: Path | None) -> None:
        command = [sys.executable, __file__, "--serve", workload]
        environment = dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false")
        self.trace: Path | None = None
        if arm in ("floor", "walk"):
            environment["CUDA_INJECTION64_PATH"] = str(floor)
            environment |= {"FLOOR_WALK": "1"} if arm == "walk" else {}
        elif arm != "bare":
            name, *more = arm.split("+")
            suffix = ".warp" if COMMANDS[name][0] == "record" else ".capsule"
            out = folder / f"{name}{time.monotonic_ns()}{suffix}"
            command = [
                sys.executable,
                "-m",
                "warpsight",
                *COMMANDS[name],
                *more,
                "-o",
                str(out),
                "--",
                *command,
            ]
            self.trace = out if out.suffix == ".warp" else None
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def block(self, seconds: float) -> float:
        """Run steps for so long: the time of one."""
        assert self.process.stdin and self.process.stdout
        print(seconds, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self) -> list[str]:
        """End it: what its recording lacks."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        if self.trace is None:
            return []
        import warpsight

        with warpsight.open(self.trace) as trace:
            lost = trace.sql("SELECT cause FROM loss WHERE severity <> 'note'").fetchall()
            return [cause for (cause,) in lost] + ([] if trace.count("kernel") else ["no kernel"])


def serve(name: str) -> None:
    """Be one of the programs."""
    workload = WORKLOADS[name]()
    workload.timed()  # what is recorded has its threads from here on, and they may use the other cores
    if name != "jax":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for line in sys.stdin:
        workload.timed()
        steps: list[float] = []
        end = time.perf_counter() + float(line)
        while not steps or time.perf_counter() < end:
            steps.append(workload.timed()[0])
        print(statistics.fmean(steps), flush=True)


def middle(ratios: list[float]) -> list[float]:
    """The median and its 95% interval."""
    ordered, off = sorted(ratios), round(0.98 * len(ratios) ** 0.5)
    low, high = max(len(ordered) // 2 - off, 0), min((len(ordered) - 1) // 2 + off, len(ordered) - 1)
    return [round(one, 4) for one in (statistics.median(ordered), ordered[low], ordered[high])]


def measure(workload: str, options: argparse.Namespace, folder: Path, floor: Path | None) -> list[str]:
    """Print what each arm costs; what the recordings lack."""
    arms = [options.to, options.to, *(arm for arm in options.arms if arm != options.to)]
    programs = [Program(workload, one, folder, floor) for one in arms]
    for program in programs * 3:  # warm
        program.block(options.block)
    rounds: list[list[float]] = []
    order = list(range(len(programs)))
    end = time.perf_counter() + options.seconds
    while time.perf_counter() < end:
        random.shuffle(order)
        took = {place: programs[place].block(options.block) for place in order}
        rounds.append([took[place] for place in range(len(programs))])
    line: dict[str, Any] = {"workload": workload, "rounds": len(rounds), "block_s": options.block, "to": options.to,
                            f"{options.to}_ms": round(statistics.median(r[0] for r in rounds) * 1e3, 3)}  # fmt: skip
    base = sum(one[0] + one[1] for one in rounds)
    for place, arm in list(enumerate(arms))[2:]:
        line[arm] = middle([2 * one[place] / (one[0] + one[1]) for one in rounds])
        line[f"{arm}_total"] = round(2 * sum(one[place] for one in rounds) / base, 4)
    line["alike"] = middle([one[1] / one[0] for one in rounds])
    print(json.dumps(line), flush=True)
    return [
        f"{workload}, {arm}: {lack}"
        for arm, program in zip(arms, programs, strict=True)
        for lack in program.end()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", default=["add500", "products"])
    parser.add_argument("--arms", type=lambda text: text.split(","), default=["waiting", "counting"])
    parser.add_argument("--to", default="bare", choices=ARMS)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--block", type=float, default=0.02)
    parser.add_argument("--serve", metavar="WORKLOAD", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    if not {arm.split("+")[0] for arm in options.arms} <= set(ARMS):
        parser.error(f"--arms: any of {', '.join(ARMS)}")
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        floor = build_floor(Path(temporary)) if {"floor", "walk"} & {options.to, *options.arms} else None
        for workload in options.workloads:
            failures += measure(workload, options, Path(temporary), floor)
    for failure in failures:
        print("FAILED:", failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
