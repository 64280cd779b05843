"""Traces like those of real programs, of any size, made from a seed: for benchmarks and tests.

PYTHONPATH=src python benchmarks/synthetic_trace.py /tmp/ten-million.warp --kernels 10000000
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from warpsight.model.storage.writer import TraceWriter

#: Mangled and plain kernel names with the middle of their lognormal durations in ns.
KERNELS = (
    (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
        2_400,
    ),
    ("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4ELi4EEEEEvT1_", 5_800),
    ("ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_32x1_tn", 48_000),
    ("_Z17flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128ELi64ELi64EEEv16Flash_fwd_params", 31_000),
    ("triton_poi_fused_add_mul_0", 3_300),
    ("_ZN3ncclL30ncclDevKernel_AllReduce_Sum_fEP11ncclDevComm", 120_000),
)
TIME_0 = 8_765_432_109_876
FUNCTIONS = ("cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch")
STACKS = 200


@dataclass(frozen=True)
class Plan:
    """Sizes of a synthetic trace."""

    kernels: int = 10_000
    streams: int = 3
    threads: int = 2
    names: int = 60
    shapes: int = 40
    processes: int = 1
    seed: int = 1
    #: Share of kernels that start before the one before them on the same stream has ended.
    overlap: float = 0.0
    part_rows: int = 1_000_000


def make(path: str | Path, plan: Plan = Plan(), *, force: bool = False) -> Path:
    """Write a trace; the same plan gives the same rows."""
    rng = np.random.default_rng(plan.seed)
    with TraceWriter(path, force=force) as writer:
        names = [writer.name(_name(i)) for i in range(plan.names)]
        shapes = [writer.shape(**_shape(i)) for i in range(plan.shapes)]
        stacks = [writer.stack(_frames(i)) for i in range(STACKS)]
        ranges = [writer.name(f"step {i}") for i in range(100)]
        _definitions(writer, plan)
        for process in range(plan.processes):
            work = _Work(rng, plan, process, np.array(names), np.array(shapes), np.array(stacks))
            for start in range(0, plan.kernels, plan.part_rows):
                work.write(writer, min(plan.part_rows, plan.kernels - start))
            _host(writer, rng, process, work.clock, ranges)
        writer.describe(
            source="synthetic", settings={"seed": plan.seed}, overhead={"estimate_ns": 123_456_789}
        )
    return Path(path)


def _name(i: int) -> str:
    name, _ = KERNELS[i % len(KERNELS)]
    return (
        name
        if i < len(KERNELS)
        else f"{name.replace('kernel', f'kernel_{i}')}"
        if "kernel" in name
        else f"{name}_{i}"
    )


def _shape(i: int) -> dict[str, Any]:
    return {"grid_x": 1 << i % 14, "grid_y": 1 + i % 3, "grid_z": 1, "block_x": 32 << i % 5, "block_y": 1, "block_z": 1,
            "registers": 24 + i, "shared_static": 1024 * (i % 7), "shared_dynamic": 0}  # fmt: skip


def _frames(i: int) -> list[Any]:
    def frame(function: str, file: str, line: int) -> tuple[str, str, int, None, str, None]:
        return (function, file, line, None, "python", None)

    return [frame("<module>", "train.py", 88), frame("train", "train.py", 61), frame(f"Block{i % 16}.forward", "model.py", 40),
            frame(f"layer_{i}", "model.py", 100 + i)]  # fmt: skip


def _definitions(writer: TraceWriter, plan: Plan) -> None:
    processes = range(plan.processes)
    writer.add("process", [
        {"process": p, "pid": 4000 + p, "parent": 1, "host": "gpu-host", "rank": p, "local_rank": p,
         "world_size": plan.processes, "command": f"python train.py --rank {p}", "executable": "/usr/bin/python3",
         "start": TIME_0, "exit": "exit 0"} for p in processes
    ])  # fmt: skip
    writer.add("thread", [{"thread": 4000 + p + t * 100, "name": "MainThread" if not t else f"autograd-{t}", "process": p}
                          for p in processes for t in range(plan.threads)])  # fmt: skip
    writer.add("device", [
        {"device": 0, "index": 0, "uuid": "GPU-0000", "name": "NVIDIA H200", "vendor": "NVIDIA", "platform": "cuda",
         "memory_bytes": 150_000_000_000, "multiprocessors": 132, "driver": "580.1", "runtime": "13.0"}
    ])  # fmt: skip
    writer.add(
        "context",
        [{"context": 1, "device": 0, "null_stream": 7, "api": "cuda", "process": p} for p in processes],
    )
    writer.add("stream", [{"stream": 7 + s, "context": 1, "device": 0, "process": p}
                          for p in processes for s in range(plan.streams)])  # fmt: skip
    writer.add("clock", [{"monotonic": TIME_0, "realtime": 1_790_000_000_123_456_789, "process": 0}])


@dataclass
class _Work:
    """Kernels, launches and copies of one process, part after part."""

    rng: np.random.Generator
    plan: Plan
    process: int
    names: np.ndarray[Any, Any]
    shapes: np.ndarray[Any, Any]
    stacks: np.ndarray[Any, Any]
    clock: int = TIME_0
    correlation: int = 1

    def write(self, writer: TraceWriter, count: int) -> None:
        rng = self.rng
        which = np.minimum(rng.zipf(1.3, count) - 1, len(self.names) - 1)
        middle = np.array(
            [KERNELS[i % len(KERNELS)][1] * (1 + i // len(KERNELS) / 9) for i in range(len(self.names))]
        )
        duration = (middle[which] * rng.lognormal(0, 0.12, count) / 32).astype(np.int64) * 32 + 640
        gap = rng.integers(200, 3_000, count) + np.where(rng.random(count) < 0.001, 2_000_000, 0)
        begin = self.clock + np.cumsum(duration + gap)
        start = begin - np.where(rng.random(count) < self.plan.overlap, (duration + gap) // 2 + 900, 0)
        self.clock = int(begin[-1] + duration[-1]) + 1_000_000
        correlation = self.correlation + np.arange(count)
        self.correlation += count
        stream = 7 + (which % self.plan.streams)
        shape = self.shapes[which % len(self.shapes)]
        stack = self.stacks[(which * 7 + correlation % 3) % len(self.stacks)]
        fixed = {"device": pa.array(np.zeros(count, np.int16)), "context": np.ones(count, np.int32),
                 "process": np.full(count, self.process, np.int32)}  # fmt: skip
        writer.add("kernel", pa.table({
            "start": start, "duration": duration, "name_id": self.names[which].astype(np.int32),
            "shape_id": shape.astype(np.int32), "stream": stream.astype(np.int32), "correlation": correlation,
            "stack": stack.astype(np.int32), "graph_level": np.zeros(count, bool), **fixed,
        }))  # fmt: skip
        self._launches(writer, start, correlation, which, stack, shape)
        self._copies(writer, begin, max(1, count // 50))

    def _launches(
        self, writer: TraceWriter, begin: Any, correlation: Any, which: Any, stack: Any, shape: Any
    ) -> None:
        count = len(begin)
        thread = 4000 + self.process + np.where(which % 5 == 4, 100 * (self.plan.threads > 1), 0)
        start = np.maximum.accumulate(begin - 6_000 - self.rng.integers(0, 900, count))
        room = np.diff(np.append(start, start[-1] + 5_000))
        writer.add("launch", pa.table({
            "start": start, "duration": np.clip(self.rng.integers(1_500, 4_000, count), 1, np.maximum(room, 1)),
            "function": pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), list(FUNCTIONS)),
            "thread": thread.astype(np.int32),
            "correlation": correlation, "process": np.full(count, self.process, np.int32), "stack": stack.astype(np.int32),
            "result": np.zeros(count, np.int32), "name_id": self.names[which].astype(np.int32),
            "shape_id": shape.astype(np.int32), "captured": np.zeros(count, bool),
        }))  # fmt: skip

    def _copies(self, writer: TraceWriter, begin: Any, count: int) -> None:
        at = np.linspace(0, len(begin) - 1, count).astype(np.int64)
        numbers = 1 << (self.rng.integers(10, 24, count))
        correlation = self.correlation + np.arange(count)
        self.correlation += count
        kinds = np.array(["HtoD", "DtoH", "DtoD"])[np.arange(count) % 3]
        writer.add("memcpy", pa.table({
            "start": begin[at] - 50, "duration": 1_000 + numbers // 40, "bytes": numbers, "kind": kinds.tolist(),
            "source_kind": ["pinned"] * count, "destination_kind": ["device"] * count, "asynchronous": np.ones(count, bool),
            "device": pa.array(np.zeros(count, np.int16)), "context": np.ones(count, np.int32),
            "stream": np.full(count, 7 + self.plan.streams, np.int32), "correlation": correlation,
            "process": np.full(count, self.process, np.int32),
        }))  # fmt: skip
        writer.add("api", pa.table({
            "start": begin[at] - 9_000_000, "duration": np.full(count, 2_000), "function": ["cudaMemcpyAsync"] * count,
            "thread": np.full(count, 4999, np.int32), "correlation": correlation,
            "process": np.full(count, self.process, np.int32), "result": (np.arange(count) % 17 == 16).astype(np.int32),
        }))  # fmt: skip


def _host(writer: TraceWriter, rng: np.random.Generator, process: int, end: int, ranges: list[int]) -> None:
    """Ranges, counters, memory and synchronization over the whole time."""
    edges = np.linspace(TIME_0, end, len(ranges) + 1).astype(np.int64)
    writer.add("marker", {
        "start": edges[:-1], "duration": np.diff(edges) - 1, "kind": ["push/pop"] * len(ranges), "open": [False] * len(ranges),
        "name_id": ranges, "domain": [None] * len(ranges), "depth": [0] * len(ranges), "source": ["nvtx"] * len(ranges),
        "thread": [4000 + process] * len(ranges), "process": [process] * len(ranges),
    })  # fmt: skip
    times = np.linspace(TIME_0, end, 500).astype(np.int64)
    for name, unit, low, high in (("gpu utilisation", "%", 0, 101), ("power", "W", 90, 700)):
        writer.add("counter", {
            "time": times, "name": [name] * 500, "value": rng.integers(low, high, 500).astype(float), "unit": [unit] * 500,
            "device": [0] * 500, "source": ["nvml"] * 500, "process": [None] * 500,
        })  # fmt: skip
    address = 0x7F00_0000_0000 + np.arange(250) * 0x100_0000
    writer.add("memory", {
        "time": times[:250], "operation": ["allocate"] * 250, "address": address, "bytes": [1 << 20] * 250,
        "kind": ["device"] * 250, "device": [0] * 250, "allocator": ["cudaMalloc"] * 250, "process": [process] * 250,
    })  # fmt: skip
    writer.add("memory", {
        "time": times[250:450], "operation": ["free"] * 200, "address": address[:200], "bytes": [1 << 20] * 200,
        "kind": ["device"] * 200, "device": [0] * 200, "allocator": ["cudaMalloc"] * 200, "process": [process] * 200,
    })  # fmt: skip
    writer.add("sync", {
        "start": times[10::50], "duration": [40_000] * 10, "kind": ["stream"] * 10, "context": [1] * 10, "stream": [7] * 10,
        "process": [process] * 10,
    })  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path")
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--overlap", type=float, default=0.0)
    options = parser.parse_args()
    plan = Plan(
        kernels=options.kernels, streams=options.streams, processes=options.processes, overlap=options.overlap
    )
    make(options.path, plan, force=True)


if __name__ == "__main__":
    main()
