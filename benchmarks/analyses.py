"""Time and peak memory of every analysis on one trace, each in a process of its own.

    PYTHONPATH=src:. python benchmarks/training_trace.py /tmp/1m.warp --kernels 1000000
    PYTHONPATH=src:. python benchmarks/analyses.py /tmp/1m.warp [NAME…] [--repeat 5]

For each analysis: the best clock and processor time of several runs after the first on the opened trace, which keeps the columns
that were read; the first run (it reads and imports); and the peak resident memory of the
process. With other work on the machine, processor time is what counts.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time


def measure(path: str, name: str, repeat: int) -> str:
    """Run one analysis in this process."""
    from warpsight.analysis.base.registry import analysis
    from warpsight.model import open as open_trace
    from warpsight.model.selection import Rows

    clocks, processor = [], []
    with open_trace(path) as trace:
        chosen = analysis(name)
        for _ in range(repeat + 1):
            begin, used = time.perf_counter(), time.process_time()
            chosen.run(trace, Rows())
            clocks.append(time.perf_counter() - begin)
            processor.append(time.process_time() - used)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    first, best, used = clocks[0], min(clocks[1:]), min(processor[1:])
    return f"{name:20} {best:6.3f} s  {used:6.3f} s CPU  first {first:6.3f} s  {peak:6.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--here", action="store_true", help="Measure in this process (used by the benchmark itself)."
    )
    options = parser.parse_args()
    from warpsight.analysis.base.registry import ANALYSES

    for name in options.names or ANALYSES:
        if options.here:
            print(measure(options.trace, name, options.repeat), flush=True)
        else:
            command = [
                sys.executable,
                __file__,
                "--here",
                "--repeat",
                str(options.repeat),
                options.trace,
                name,
            ]
            subprocess.run(command, check=False)


if __name__ == "__main__":
    main()
