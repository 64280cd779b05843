"""What reading costs as commands: processor time, clock and peak memory of `analyze`, its critical path, `flame` and `report`.

    PYTHONPATH=src:. python benchmarks/training_trace.py /tmp/1m.warp --kernels 1000000
    PYTHONPATH=src:. python benchmarks/commands.py /tmp/1m.warp [NAME…] [--repeat 5]

Each command runs in a process of its own, Python's start and the writing of pages included; the least of several runs. With other
work on the machine, processor time is what counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Name → words of the command; {} is the trace.
COMMANDS = {
    "analyze": ["analyze", "{}"],
    "critical-path": ["analyze", "{}", "critical-path"],
    "flame": ["flame", "{}", "-o", "flame.html"],
    "report": ["report", "{}", "-o", "report.html"],
}


def measure(trace: Path, words: list[str]) -> tuple[float, float, float]:
    """Processor time and clock of one run (s), and its peak memory (GB)."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "warpsight", "-q", *(word.format(trace) for word in words)]
        # The command runs elsewhere: relative entries of PYTHONPATH would no longer lead to this version.
        entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, entries))}
        clock = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        clock = time.perf_counter() - clock
    if status:
        sys.exit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime, clock, usage.ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Of {', '.join(COMMANDS)}.")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    trace = options.trace.resolve()
    for name in options.names or COMMANDS:
        processor, clock, memory = zip(
            *(measure(trace, COMMANDS[name]) for _ in range(options.repeat)), strict=True
        )
        print(
            f"{name:14} {min(processor):6.2f} s CPU  {min(clock):6.2f} s  {min(memory):5.2f} GB", flush=True
        )


if __name__ == "__main__":
    main()
