"""`stats` on ten million kernels: time of the analysis, and of the whole command.

    PYTHONPATH=src:. python benchmarks/stats.py [--kernels 10000000] [--trace PATH]

Two cores shared with other work, so processor time is given beside the clock: 10 M kernels, 60 names, 69,402 distinct
(name, duration) pairs: 0.8 s of processor time over two threads. SQL's quantile_cont takes 2.5 s.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.synthetic_trace import Plan, make
from warpsight.analysis.stats.sums import stats
from warpsight.model import open as open_trace


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=10_000_000)
    parser.add_argument("--trace", type=Path, default=Path("/tmp/warpsight-benchmark.warp"))
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    if not options.trace.exists():
        make(options.trace, Plan(kernels=options.kernels))
    with open_trace(options.trace) as trace:
        for _ in range(options.repeat):
            clock, processor = time.perf_counter(), time.process_time()
            rows = len(stats(trace).tables["kernels"])
            clock, processor = time.perf_counter() - clock, time.process_time() - processor
            print(
                f"analysis: {clock:.3f} s, {processor:.3f} s CPU, {rows} groups of {trace.count('kernel'):,} kernels"
            )
    clock = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "warpsight.ui.cli", "stats", str(options.trace)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    print(f"command:  {time.perf_counter() - clock:.3f} s")


if __name__ == "__main__":
    main()
