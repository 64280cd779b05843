"""Flame graph, report and timeline of a trace of a million kernels and a million launches: time, memory, size.

    PYTHONPATH=src:. python benchmarks/pages.py [--kernels 1000000] [--trace PATH] [--repeat 3]

Each row is the best of several runs in this process, clock and processor time, without Python's start
(`benchmarks/commands.py` runs whole commands).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.synthetic_trace import Plan, make
from warpsight.analysis.flame.graph import WEIGHTS, Shape, flame
from warpsight.analysis.stats.overview import Picture
from warpsight.model import StoredTrace
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows
from warpsight.ui.render.flame import page as flame_page
from warpsight.ui.render.report import render
from warpsight.ui.render.report.collect import questions


def best(name: str, repeat: int, job: Callable[[], Any]) -> Any:
    """Run it, print the best of `repeat`, return what it gave."""
    found: list[tuple[float, float]] = []
    result = None
    for _ in range(repeat):
        clock, processor = time.perf_counter(), time.process_time()
        result = job()
        found.append((time.perf_counter() - clock, time.process_time() - processor))
    clock, processor = min(found)
    print(f"{name:24} {clock:6.2f} s  {processor:6.2f} s CPU", flush=True)
    return result


def inside(trace: StoredTrace, repeat: int) -> None:
    for weight in WEIGHTS:
        best(f"flame {weight}", repeat, lambda weight=weight: flame(trace, shape=Shape(weight)))
    graph = flame(trace)
    page = best("flame page", repeat, lambda: flame_page.page(graph, "t.warp"))
    print(f"{'':24} {len(page) / 1e6:6.2f} MB")
    picture = Picture.of(trace)
    middle, width = (picture.begin + picture.end) // 2, (picture.end - picture.begin) // 1000
    best("zoomed picture", repeat, lambda: picture.bins(middle, middle + width, 160))
    for name, job in questions().items():
        best(f"report: {name}", repeat, lambda job=job: job(trace, Rows()))
    page = best("report", repeat, lambda: render(trace))
    print(f"{'':24} {len(page.encode()) / 1e6:6.2f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--trace", type=Path, default=Path("/tmp/warpsight-benchmark-pages.warp"))
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    if not options.trace.exists():
        make(options.trace, Plan(kernels=options.kernels))
    with open_trace(options.trace) as trace:
        inside(trace, options.repeat)


if __name__ == "__main__":
    main()
