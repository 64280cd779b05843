"""`stats ops` and `stats modules` on a million kernels under two million operators.

    PYTHONPATH=src:. python benchmarks/operators.py [--kernels 1000000] [--trace PATH]

Half of the kernels are launched by `linear` inside of a module, the other half by backward nodes on another thread.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import warpsight as ws
from warpsight.model import TraceWriter

FORWARD, ENGINE = 100, 101
SHAPES, MODULES = 500, 200


def operators(writer: TraceWriter, name: str, start: Any, duration: int, thread: int, **more: Any) -> None:
    """Rows of table op that differ in their start."""
    count = len(start)
    columns = {"start": start, "duration": np.full(count, duration), "name_id": np.full(count, writer.name(name)),
               "thread": np.full(count, thread), "process": np.zeros(count, np.int32), **more}  # fmt: skip
    writer.add("op", columns)


def make(path: Path, kernels: int) -> None:
    """Write the trace."""
    rng = np.random.default_rng(0)
    number = np.arange(kernels)
    start, nothing = number * 1000, np.zeros(kernels, np.int32)
    sizes = [
        json.dumps([[n], [8944, 1024], [1024, n], [], []]) for n in rng.integers(64, 4096, SHAPES).tolist()
    ]
    half = kernels // 2
    given = {
        "Input type": ["c10::BFloat16"] * 3 + ["Scalar"] * 2,
        "Input Strides": [[1], [1024, 1], [1, 1024], [], []],
        "Concrete Inputs": ["", "", "", "1", "1"],
    }
    forward, node = ([json.dumps({**given, "Fwd thread id": thread})] * half for thread in (0, 1))
    with TraceWriter(path) as writer:
        writer.add(
            "device",
            [
                {
                    "device": 0,
                    "index": 0,
                    "uuid": "u",
                    "name": "NVIDIA H200",
                    "vendor": "NVIDIA",
                    "platform": "cuda",
                }
            ],
        )
        names = [writer.name(f"kernel_{i}") for i in range(50)]
        writer.add("kernel", {
            "start": start + 600, "duration": rng.integers(100, 900, kernels), "name_id": rng.choice(names, kernels),
            "device": nothing, "context": nothing + 1, "stream": nothing + 7, "correlation": number, "process": nothing,
            "graph_level": nothing.astype(bool),
        })  # fmt: skip
        writer.add("launch", {
            "start": start + 300, "duration": np.full(kernels, 100), "function": ["cudaLaunchKernel"] * kernels,
            "thread": np.where(number % 2, ENGINE, FORWARD), "correlation": number, "process": nothing,
            "captured": nothing.astype(bool),
        })  # fmt: skip
        even, odd = start[::2][:half], start[1::2][:half]
        shapes = np.array(sizes)[rng.integers(0, SHAPES, half)].tolist()
        sequence = np.arange(half)
        operators(
            writer,
            "aten::linear",
            even + 200,
            500,
            FORWARD,
            shapes=shapes,
            attributes=forward,
            sequence=sequence,
        )
        operators(
            writer,
            "aten::addmm",
            even + 250,
            300,
            FORWARD,
            shapes=shapes,
            attributes=forward,
            sequence=sequence,
        )
        evaluation = "autograd::engine::evaluate_function: AddmmBackward0"
        operators(writer, evaluation, odd + 200, 500, ENGINE, attributes=node, sequence=sequence)
        operators(writer, "aten::addmm", odd + 250, 300, ENGINE, shapes=shapes, attributes=forward)
        modules = [writer.name(f"nn.Module: Linear_{i}") for i in range(MODULES)]
        writer.add("marker", {
            "start": even + 100, "duration": np.full(half, 800), "kind": ["push/pop"] * half, "open": np.zeros(half, bool),
            "name_id": rng.choice(modules, half), "domain": ["python"] * half, "source": ["framework"] * half,
            "category": ["python_function"] * half, "thread": np.full(half, FORWARD), "process": np.zeros(half, np.int32),
        })  # fmt: skip


def main() -> None:
    """Time both verbs, each on a trace that was just opened."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--trace", type=Path, default=Path("/tmp/warpsight-operators.warp"))
    options = parser.parse_args()
    if not options.trace.exists():
        make(options.trace, options.kernels)
    for subject, by in (
        ("ops", "name"),
        ("ops", "shapes"),
        ("ops", "forward"),
        ("modules", "name"),
        ("modules", "class"),
    ):
        with ws.open(options.trace) as trace:
            clock, processor = time.perf_counter(), time.process_time()
            (table,) = trace.stats(subject, by=by).tables.values()
            clock, processor = time.perf_counter() - clock, time.process_time() - processor
            print(f"{subject} by {by}: {clock:.2f} s, {processor:.2f} s CPU, {len(table):,} rows")


if __name__ == "__main__":
    main()
