"""A training job as a trace of any size, made from a seed: two ranks of one device each, for benchmarks of analyses.

Each rank launches from two threads (forward and backward) onto a compute stream, and collectives onto a second stream that
waits for events; streams have the same numbers on both devices. Steps load data (pageable copies, host samples), synchronize at
their end, and are marked with nested ranges; clocks, power and throttling are sampled; memory is allocated and freed.

    PYTHONPATH=src:. python benchmarks/training_trace.py /tmp/1m.warp --kernels 1000000
    PYTHONPATH=src:. python benchmarks/training_trace.py /tmp/10m.warp --kernels 10000000
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.synthetic_trace import KERNELS
from warpsight.model.storage.writer import TraceWriter

TIME_0 = 1_790_000_000_123_456_789
STEP_KERNELS = 1_000
LAYERS = 16
COLLECTIVE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
PART_ROWS = 2_000_000
RANKS = 2
COMPUTE, TALK = 7, 13


@dataclass
class _Rank:
    """Ids and clocks of one rank while its steps are written."""

    number: int
    names: Any
    shapes: Any
    stacks: Any
    rng: Any
    host: int = TIME_0
    device: int = TIME_0 + 50_000
    correlation: int = 1
    step: int = 0


def make(path: str | Path, kernels: int = 1_000_000, *, seed: int = 1, force: bool = False) -> Path:
    """Write a trace with `kernels` kernels in all, and one launch call for each."""
    with TraceWriter(path, force=force) as writer:
        names = np.array([writer.name(n) for n, _ in KERNELS[:5]] + [writer.name(COLLECTIVE)], np.int32)
        shapes = np.array([writer.shape(grid_x=100 << i % 5, grid_y=1, grid_z=1, block_x=64 << i % 4, block_y=1, block_z=1,
                                        registers=32 + 16 * i, shared_static=4096 * i) for i in range(6)], np.int32)  # fmt: skip
        stacks = np.array([writer.stack(_frames(layer)) for layer in range(LAYERS)], np.int32)
        _definitions(writer)
        for number in range(RANKS):
            rank = _Rank(number, names, shapes, stacks, np.random.default_rng(seed + number))
            for first in range(0, kernels // RANKS, PART_ROWS):
                _steps(writer, rank, min(PART_ROWS, kernels // RANKS - first))
            _sampled(writer, rank)
        writer.describe(source="synthetic training job", settings={"seed": seed})
    return Path(path)


def _frames(layer: int) -> list[Any]:
    def frame(function: str, file: str, line: int) -> tuple[str, str, int, None, str, None]:
        return (function, file, line, None, "python", None)

    return [
        frame("<module>", "train.py", 90),
        frame("step", "train.py", 40),
        frame(f"Block{layer}.forward", "model.py", 10 + layer),
    ]


def _definitions(writer: TraceWriter) -> None:
    for rank in range(RANKS):
        writer.add("process", [{"process": rank, "pid": 5000 + rank, "host": "node", "rank": rank, "local_rank": rank,
                                "world_size": RANKS, "command": "python train.py", "executable": "python",
                                "start": TIME_0}])  # fmt: skip
        writer.add(
            "thread",
            [
                {"thread": 5000 + 10 * t + rank, "name": ("MainThread", "backward")[t], "process": rank}
                for t in (0, 1)
            ],
        )
        writer.add("device", [{"device": rank, "index": rank, "uuid": f"GPU-{rank}", "name": "NVIDIA H200", "vendor": "NVIDIA",
                               "platform": "cuda", "multiprocessors": 132, "compute_capability": "9.0", "clock_khz": 1_980_000,
                               "memory_bytes": 150_000_000_000, "memory_bandwidth": 4_800_000_000_000}])  # fmt: skip
        writer.add(
            "context",
            [{"context": 1, "device": rank, "null_stream": COMPUTE, "api": "cuda", "process": rank}],
        )
        writer.add(
            "stream", [{"stream": s, "context": 1, "device": rank, "process": rank} for s in (COMPUTE, TALK)]
        )


def _steps(writer: TraceWriter, rank: _Rank, count: int) -> None:
    """Kernels and calls of some steps. The device begins a kernel when it is launched and the stream's last one has ended."""
    rng, place = rank.rng, np.arange(count) % STEP_KERNELS
    which = np.where(place % 20 == 19, 5, rng.integers(0, 5, count))
    middle = np.array([2_400, 5_800, 18_000, 11_000, 3_300, 40_000])
    duration = (middle[which] * rng.lognormal(0, 0.15, count) / 32).astype(np.int64) * 32 + 640
    pause = np.where(place == 0, 4_000_000, 0) + np.where(rng.random(count) < 0.002, 300_000, 0)
    call = rank.host + np.cumsum(rng.integers(8_000, 11_000, count) + pause)
    start = np.empty(count, np.int64)
    for own in (np.flatnonzero(which < 5), np.flatnonzero(which == 5)):
        busy = np.cumsum(duration[own] + 1_100)
        before = np.concatenate([[0], busy[:-1]])
        start[own] = before + np.maximum.accumulate(np.maximum(call[own] + 5_200, rank.device) - before)
    rank.host, rank.device = int(call[-1]) + 20_000, int((start + duration).max())
    correlation = rank.correlation + np.arange(count) * 2
    rank.correlation += 2 * count
    thread = 5000 + rank.number + np.where(place > STEP_KERNELS // 2, 10, 0)
    layer = rank.stacks[place * LAYERS // STEP_KERNELS]
    common = {"process": _same(rank.number, count, np.int32), "correlation": correlation}
    where = {"device": pa.array(np.full(count, rank.number, np.int16)), "context": _same(1, count, np.int32),
             "stream": np.where(which == 5, TALK, COMPUTE).astype(np.int32)}  # fmt: skip
    writer.add("kernel", pa.table({
        "start": start, "duration": duration, "name_id": rank.names[which], "shape_id": rank.shapes[which], "stack": layer,
        "graph_level": np.zeros(count, bool), **where, **common,
    }))  # fmt: skip
    writer.add("launch", pa.table({
        "start": call, "duration": rng.integers(2_500, 5_000, count), "thread": thread.astype(np.int32),
        "function": pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), ["cudaLaunchKernel"]), "stack": layer,
        "captured": np.zeros(count, bool), "name_id": rank.names[which], "shape_id": rank.shapes[which], **common,
    }))  # fmt: skip
    _around(writer, rank, call, start, start + duration, np.flatnonzero(place == 0))


def _around(writer: TraceWriter, rank: _Rank, call: Any, start: Any, end: Any, begins: Any) -> None:
    """What surrounds the kernels of each step: a copy, a wait, ranges, waits for events, allocations."""
    count, process, main = len(begins), rank.number, 5000 + rank.number
    last = np.append(begins[1:], len(call)) - 1
    ids = rank.correlation + np.arange(count)
    rank.correlation += count
    where = {"device": [process] * count, "context": [1] * count, "process": [process] * count}
    loaded = call[begins] - 1_500_000
    copy = {"duration": 700_000, "bytes": 16 << 20, "kind": "HtoD", "source_kind": "pageable", "destination_kind": "device",
            "asynchronous": False, "stream": COMPUTE}  # fmt: skip
    call_of_copy = {"duration": 1_200_000, "function": "cudaMemcpyAsync", "thread": main, "process": process}
    writer.add("memcpy", {"start": loaded + 400_000, "correlation": ids, **_each(copy, count), **where})
    writer.add("api", {"start": loaded, "correlation": ids, **_each(call_of_copy, count)})
    wait = np.maximum(end[last] - call[last], 2_000)
    writer.add(
        "sync",
        {
            "start": call[last] + 6_000,
            "duration": wait,
            "kind": ["stream"] * count,
            "stream": [COMPUTE] * count,
            **where,
        },
    )
    talks = np.arange(19, len(call), 20)
    writer.add("sync", pa.table({
        "start": call[talks] - 2_000, "duration": np.full(len(talks), 900), "kind": ["stream wait event"] * len(talks),
        "stream": _same(TALK, len(talks), np.int32), "context": _same(1, len(talks), np.int32),
        "process": _same(process, len(talks), np.int32), "device": pa.array(np.full(len(talks), process, np.int16)),
    }))  # fmt: skip
    _ranges(writer, rank, call, begins, last)
    at = np.arange(0, len(call), 50)
    address = 0x7F00_0000_0000 + (np.arange(len(at)) % 256) * (1 << 20)
    for operation, shift in (("allocate", -3_000), ("free", 200_000)):
        writer.add("memory", pa.table({
            "time": call[at] + shift, "operation": [operation] * len(at), "address": pa.array(address, pa.uint64()),
            "bytes": _same(1 << 20, len(at), np.int64), "kind": ["device"] * len(at),
            "device": pa.array(np.full(len(at), process, np.int16)), "allocator": ["caching"] * len(at),
            "process": _same(process, len(at), np.int32), "stack": pa.array(rank.stacks[np.arange(len(at)) % LAYERS]),
        }))  # fmt: skip


def _ranges(writer: TraceWriter, rank: _Rank, call: Any, begins: Any, last: Any) -> None:
    count, half = len(begins), (begins + last) // 2
    step = [writer.name(f"step {rank.step + i}") for i in range(count)]
    rank.step += count
    forward, backward = writer.name("forward"), writer.name("backward")
    layers = np.linspace(begins, half, LAYERS + 1).astype(np.int64)
    layer = [writer.name(f"layer {i}") for i in range(LAYERS)]
    pieces = [
        (call[begins] - 10_000, call[last] + 10_000, step, 0, 0),
        (call[begins] - 5_000, call[half] + 1, [forward] * count, 1, 0),
        (call[half] + 2, call[last] + 5_000, [backward] * count, 0, 10),
    ]
    pieces += [
        (call[layers[i]] - 100, call[layers[i + 1]] - 200, [layer[i]] * count, 2, 0) for i in range(LAYERS)
    ]
    for start, end, names, depth, thread in pieces:
        same = {"kind": "push/pop", "open": False, "depth": depth, "source": "nvtx", "thread": 5000 + thread + rank.number,
                "process": rank.number}  # fmt: skip
        length = np.maximum(end - start, 0)
        writer.add("marker", {"start": start, "duration": length, "name_id": names, **_each(same, count)})


def _sampled(writer: TraceWriter, rank: _Rank) -> None:
    """Host samples and counters over the whole time."""
    times = np.arange(TIME_0, rank.device, 10_000_000)
    count, rng = len(times), rank.rng
    for thread in (0, 10):
        writer.add("sample", pa.table({
            "time": times, "thread": _same(5000 + thread + rank.number, count, np.int32), "gil": rng.random(count) < 0.5,
            "stack": rank.stacks[rng.integers(0, LAYERS, count)], "state": np.where(rng.random(count) < 0.7, "R", "S").tolist(),
            "process": _same(rank.number, count, np.int32),
        }))  # fmt: skip
    clock = np.where(rng.random(count) < 0.2, 1_410.0, 1_980.0)
    for name, unit, value in (("sm_clock", "MHz", clock), ("power", "W", rng.integers(300, 700, count).astype(float)),
                              ("throttle_software_power_cap", "1", (clock < 1_980).astype(float))):  # fmt: skip
        writer.add("counter", pa.table({
            "time": times, "name": [name] * count, "value": value, "unit": [unit] * count, "source": ["nvml"] * count,
            "device": pa.array(np.full(count, rank.number, np.int16)),
        }))  # fmt: skip
    flush = {"duration": 150_000, "kind": "buffer flush", "process": rank.number}
    writer.add("overhead", {"start": times[::20], **_each(flush, len(times[::20]))})


def _each(row: dict[str, Any], count: int) -> dict[str, list[Any]]:
    """Columns that repeat one row."""
    return {name: [value] * count for name, value in row.items()}


def _same(value: int, count: int, kind: Any) -> Any:
    return np.full(count, value, kind)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path")
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    make(options.path, options.kernels, seed=options.seed, force=True)


if __name__ == "__main__":
    main()
