"""Does a program run at full speed after recordings in it have ended? usage: after_recording.py plain|graph

Times the add loop, records it three times with `warpsight.record`, and times it again; prints one JSON line with the
medians before and after, the launches each recording should hold and the kernels and wrong stacks it does hold.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

import warpsight

LAUNCHES = 5_000


def loop(x: torch.Tensor) -> None:
    for _ in range(LAUNCHES):
        x.add_(1.0)


def timed(x: torch.Tensor) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(4):
        loop(x)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def capture(x: torch.Tensor) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            x.mul_(1.0)
    return graph


def check(path: Path) -> tuple[int, int]:
    """Kernels of the add loop in a trace, and how many of them do not have `loop` as their innermost Python function."""
    with warpsight.open(path) as trace:
        rows = trace.sql(
            "SELECT count(*), count(*) FILTER (WHERE f.function IS NULL OR f.function <> 'loop') FROM kernel k "
            "LEFT JOIN stack s ON s.id = k.stack LEFT JOIN frame f ON f.id = s.frame "
            "WHERE k.graph IS NULL AND k.name LIKE '%OnSelf_add%'"
        ).fetchall()
    return int(rows[0][0]), int(rows[0][1])


def main() -> None:
    x = torch.zeros(256, device="cuda")
    graph = capture(x) if sys.argv[1] == "graph" else None
    timed(x)
    before = [timed(x) for _ in range(7)]
    held = []
    folder = Path(tempfile.mkdtemp())
    for number in range(3):
        path = folder / f"{number}.warp"
        with warpsight.record(path):
            loop(x)
            if graph:
                graph.replay()
            torch.cuda.synchronize()
        held.append(check(path))
    timed(x)
    after = [timed(x) for _ in range(7)]
    print(
        json.dumps(
            {
                "before": statistics.median(before),
                "after": statistics.median(after),
                "launches": LAUNCHES,
                "kernels": [h[0] for h in held],
                "wrong_stacks": [h[1] for h in held],
            }
        )
    )


if __name__ == "__main__":
    main()
