"""What `capsule record` costs a program before the work that it is to cut out, on a machine whose speed wanders.

usage: capsule_waiting.py [WORKLOAD ...] [--seconds 10] [--block 0.02]

Arms: `waiting` (`--range` that never comes) and `counting` (`-k '*' --launch` that never comes), each beside `bare`: programs of
their own, all alive and on one core, that run a block of steps in turn and wait for their turn otherwise. One JSON line for each
workload: for each arm the time of a step over that of two bare programs in the same round, median over the rounds and its 95%
interval, and the same between those two.
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

from workloads import WORKLOADS

NEVER = {"waiting": ["--range", "none"], "counting": ["-k", "*", "--launch", "1000000000000"]}


class Program:
    """A program that runs blocks of a workload's steps when it is told to."""

    def __init__(self, workload: str, arm: str, folder: Path) -> None:
        command = [sys.executable, __file__, "--serve", workload]
        if arm != "bare":
            out = folder / f"{arm}{time.monotonic_ns()}.capsule"
            record = ["-m", "warpsight", "capsule", "record", "-o", str(out), *NEVER[arm], "--"]
            command = [sys.executable, *record, *command]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def block(self, seconds: float) -> float:
        """Run steps for so long: the time of one."""
        assert self.process.stdin and self.process.stdout
        print(seconds, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self) -> None:
        """End it."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def serve(name: str) -> None:
    """Be one of the programs."""
    workload = WORKLOADS[name]()
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


def measure(workload: str, options: argparse.Namespace, folder: Path) -> None:
    """Print what each arm costs."""
    arms = ["bare", "bare", *options.arms]
    programs = [Program(workload, one, folder) for one in arms]
    for program in programs * 3:  # warm
        program.block(options.block)
    rounds, order = [], list(range(len(programs)))
    end = time.perf_counter() + options.seconds
    while time.perf_counter() < end:
        random.shuffle(order)
        took = {place: programs[place].block(options.block) for place in order}
        rounds.append([took[place] for place in range(len(programs))])
    line = {
        "workload": workload,
        "rounds": len(rounds),
        "bare_ms": round(statistics.median(r[0] for r in rounds) * 1e3, 3),
    }
    between = {"between_bare": middle([one[1] / one[0] for one in rounds])}
    of_bare = {
        arm: middle([2 * one[place] / (one[0] + one[1]) for one in rounds])
        for place, arm in enumerate(arms)
        if place > 1
    }
    print(json.dumps({**line, **of_bare, **between}), flush=True)
    for program in programs:
        program.end()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", default=["add500", "products"])
    parser.add_argument("--arms", type=lambda text: text.split(","), default=list(NEVER))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--block", type=float, default=0.02)
    parser.add_argument("--serve", metavar="WORKLOAD", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    with tempfile.TemporaryDirectory() as temporary:
        for workload in options.workloads:
            measure(workload, options, Path(temporary))


if __name__ == "__main__":
    main()
