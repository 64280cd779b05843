"""The rules, the critical path and the other analyses of one trace: seconds each, and the memory of the process.

    PYTHONPATH=src:. python benchmarks/analyze.py [--kernels 1000000] [--trace PATH] [NAME …]

Best of three on processor time, since the machine is shared with other work; the clock is given beside it.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.synthetic_trace import Plan, make
from warpsight.analysis.base.registry import ANALYSES, analysis
from warpsight.analysis.path import dependencies as graph
from warpsight.analysis.rules.verdict import verdict
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows


def best(function: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Least processor time of some runs, and the clock of that run, in seconds."""
    found = []
    for _ in range(repeat):
        clock, processor = time.perf_counter(), time.process_time()
        function()
        found.append((time.process_time() - processor, time.perf_counter() - clock))
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    path = options.trace or Path(f"/tmp/warpsight-analyze-{options.kernels}.warp")
    if not path.exists():
        make(path, Plan(kernels=options.kernels))
    with open_trace(path) as trace:
        print(f"{trace.count('kernel'):,} kernels, {trace.count('launch') + trace.count('api'):,} calls")
        runs: dict[str, Callable[[], object]] = {
            "dependency graph": lambda: graph.build(trace),
            "verdict (all rules)": lambda: verdict(trace),
        }
        runs |= {
            name: lambda name=name: analysis(name).run(trace, Rows()) for name in options.names or ANALYSES
        }
        for name, run in runs.items():
            processor, clock = best(run, options.repeat)
            print(f"{name:22}{processor:8.2f} s CPU {clock:8.2f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
