"""A job of a thousand ranks: made from a seed with one straggler, then asked who holds it up.

PYTHONPATH=src python benchmarks/cluster_scale.py make FOLDER --ranks 1000 --kernels 100000
PYTHONPATH=src python benchmarks/cluster_scale.py ask FOLDER --dask-workers 2
PYTHONPATH=src python benchmarks/cluster_scale.py ask FOLDER --dask-workers 1 2 4 8 16

Every rank has as many launches as kernels, one in a hundred of which is an all-reduce over all ranks. Eight ranks share a host,
and each host's clock has an offset and a drift of its own. From two fifths of the job on, STRAGGLER computes 8% more.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from warpsight.model.storage.writer import TraceWriter

STRAGGLER, EVERY, PER_HOST = 617, 100, 8
NAMES = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    "_Z17flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128ELi64ELi64EEEv16Flash_fwd_params",
    "triton_poi_fused_add_mul_0",
)
REDUCE = "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"
MIDDLE = np.array([2_400, 48_000, 31_000, 3_300])
BYTES, TRANSFER, GAP = 64 << 20, 400_000, 900
BEGIN = 5_000_000_000_000


def segments(ranks: int, count: int) -> np.ndarray[Any, Any]:
    """Time that each rank computes before each collective, ns: (ranks, count)."""
    usual = float(MIDDLE.mean() + GAP) * (EVERY - 1)
    out = usual * np.random.default_rng(1).normal(1, 0.002, (ranks, count))
    out[STRAGGLER % ranks, int(0.4 * count) :] *= 1.08
    return np.rint(out).astype(np.int64)


def make_rank(
    folder: Path, rank: int, ranks: int, kernels: int, meets: np.ndarray[Any, Any], own: np.ndarray[Any, Any]
) -> None:
    """One rank's trace. `meets`: when the last rank enters each collective; `own`: how long this one computes before it."""
    random = np.random.default_rng(rank)
    host = rank // PER_HOST
    offset = int(np.random.default_rng(host).integers(-5e9, 5e9)) if host else 0
    drift = (host % 21 - 10) * 1e-6 if host else 0.0
    count = len(meets)
    end = meets + TRANSFER + random.integers(0, 2_000, count)
    begin = np.append(BEGIN, end[:-1])  # of each stretch of computing
    which = np.tile(np.arange(EVERY - 1) % len(NAMES), (count, 1))
    length = (MIDDLE[which] * random.normal(1, 0.01, which.shape)).astype(np.int64)
    length = np.maximum((length * ((own - GAP * (EVERY - 1)) / length.sum(1))[:, None]).astype(np.int64), 500)
    start = begin[:, None] + np.cumsum(length + GAP, 1) - length
    entered = begin + own
    starts = np.concatenate([start, entered[:, None]], 1).ravel()
    durations = np.concatenate([length, (end - entered)[:, None]], 1).ravel()
    names = np.concatenate([which, np.full((count, 1), len(NAMES))], 1).ravel()
    shown = starts + offset + np.rint((starts - BEGIN) * drift).astype(np.int64)
    write(folder / f"rank={rank:05d}", rank, ranks, host, shown, durations, names)


def write(path: Path, rank: int, ranks: int, host: int, start: Any, duration: Any, which: Any) -> None:
    """The tables of one rank."""
    rows = len(start)
    with TraceWriter(path, force=True) as writer:
        names = np.array([writer.name(name) for name in (*NAMES, REDUCE)], np.int32)
        shape = writer.shape(grid_x=132, grid_y=1, grid_z=1, block_x=256, block_y=1, block_z=1, registers=64,
                             shared_static=0, shared_dynamic=0)  # fmt: skip
        stack = writer.stack([("train", "train.py", 61, None, "python", None)])
        process: dict[str, Any] = {"process": 0, "pid": 4000 + rank, "parent": 1, "host": f"node{host:04d}", "rank": rank,
                                   "local_rank": rank % PER_HOST, "world_size": ranks, "command": "python train.py",
                                   "executable": "python", "start": int(start[0]), "exit": "exit 0"}  # fmt: skip
        writer.add("process", [process])
        writer.add("thread", [{"thread": 4000 + rank, "name": "MainThread", "process": 0}])
        writer.add("device", [{"device": 0, "index": rank % PER_HOST, "uuid": f"GPU-{rank:04d}", "name": "NVIDIA H200",
                               "vendor": "NVIDIA", "platform": "cuda", "memory_bytes": 150_000_000_000,
                               "multiprocessors": 132, "driver": "580.1", "runtime": "13.0"}])  # fmt: skip
        writer.add("context", [{"context": 1, "device": 0, "null_stream": 7, "api": "cuda", "process": 0}])
        writer.add("stream", [{"stream": 7, "context": 1, "device": 0, "process": 0}])
        correlation = np.arange(1, rows + 1)
        one = {"process": np.zeros(rows, np.int32), "stack": np.full(rows, stack, np.int32), "correlation": correlation,
               "name_id": names[which], "shape_id": np.full(rows, shape, np.int32)}  # fmt: skip
        writer.add("kernel", pa.table({
            "start": start, "duration": duration, "stream": np.full(rows, 7, np.int32), "graph_level": np.zeros(rows, bool),
            "device": np.zeros(rows, np.int16), "context": np.ones(rows, np.int32), **one,
        }))  # fmt: skip
        writer.add("launch", pa.table({
            "start": start - 9_000, "duration": np.full(rows, 2_000),
            "function": pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), ["cudaLaunchKernel"]),
            "thread": np.full(rows, 4000 + rank, np.int32), "result": np.zeros(rows, np.int32),
            "captured": np.zeros(rows, bool), **one,
        }))  # fmt: skip
        chosen = np.flatnonzero(which == len(NAMES))
        n = len(chosen)
        writer.add("collective", pa.table({
            "start": start[chosen] - 8_000, "operation": ["all-reduce"] * n, "bytes": np.full(n, BYTES), "dtype": ["f32"] * n,
            "ranks": np.full(n, ranks, np.int32), "group": ["0x5ca1e"] * n, "correlation": correlation[chosen],
            "process": np.zeros(n, np.int32), "sequence": np.arange(n), "rank": np.full(n, rank, np.int32),
            "algorithm": ["ring"] * n, "protocol": ["simple"] * n, "channels": np.full(n, 16, np.int32),
            "id": np.arange(1, n + 1),
        }))  # fmt: skip
        writer.describe(clocks={"boot": f"boot-{host}"})


def make(folder: Path, ranks: int, kernels: int, workers: int) -> None:
    """All ranks."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    own = segments(ranks, kernels // EVERY)
    meets, moment = np.zeros(own.shape[1], np.int64), np.full(ranks, BEGIN)
    for number in range(own.shape[1]):
        meets[number] = (moment + own[:, number]).max()
        moment[:] = meets[number] + TRANSFER + 1_000
    with ProcessPoolExecutor(workers) as pool:
        for done in [
            pool.submit(make_rank, folder, rank, ranks, kernels, meets, own[rank]) for rank in range(ranks)
        ]:
            done.result()


def ask(folder: Path, workers: list[int]) -> None:
    """Index, then first and second verdict for each number of Dask workers, with their times."""
    from warpsight.cluster import places

    began = time.perf_counter()
    found = places.find([folder])
    print(f"index: {len(found.traces):,} ranks in {time.perf_counter() - began:.2f} s")
    if workers == [0]:
        verdicts(folder, 0, None)
    else:
        from distributed import LocalCluster

        with LocalCluster(workers[0], threads_per_worker=1, dashboard_address=None) as cluster:
            for count in workers:
                began = time.perf_counter()
                cluster.scale(count)
                with cluster.get_client() as client:
                    client.wait_for_workers(count)
                    client.run(summarize_once, found.traces[0])
                print(f"{count} workers started in {time.perf_counter() - began:.1f} s")
                verdicts(folder, count, cluster.scheduler_address)
    used = [
        resource.getrusage(who).ru_maxrss / 1e6 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    print(f"memory: {used[0]:.2f} GB here, {used[1]:.2f} GB in the largest worker")


def summarize_once(path: str) -> None:
    """What a worker does for one rank, but for keeping it: all modules are loaded afterwards."""
    from warpsight.cluster.summary import summarize
    from warpsight.formats.importing import open_any

    with open_any(path) as trace:
        summarize(trace, path)


def verdicts(folder: Path, workers: int, scheduler: str | None) -> None:
    """The first verdict, without summaries, and the second."""
    from warpsight.cluster.executor import Dask, LocalExecutor
    from warpsight.cluster.job import load
    from warpsight.cluster.verdict import judge

    for kept in folder.glob(".*.summary.zip"):
        kept.unlink()
    for which in ("first", "second"):
        began = time.perf_counter()
        job = load([folder], Dask(scheduler) if scheduler else LocalExecutor(1))
        read = time.perf_counter() - began
        verdict = judge(job)
        print(f"{which} verdict: {time.perf_counter() - began:.2f} s, {read:.2f} s of it reading "
              f"({read * max(workers, 1) / len(job.summaries) * 1e3:.0f} ms of a worker a rank)")  # fmt: skip
    print(verdict.headline)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=("make", "ask"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--kernels", type=int, default=100_000, help="of each rank")
    parser.add_argument("--workers", type=int, default=2, help="processes that write")
    parser.add_argument(
        "--dask-workers", type=int, nargs="+", default=[2], help="one after another; 0: this process alone"
    )
    given = parser.parse_args()
    if given.do == "make":
        make(given.folder, given.ranks, given.kernels, given.workers)
    else:
        ask(given.folder, given.dask_workers)


if __name__ == "__main__":
    main()
