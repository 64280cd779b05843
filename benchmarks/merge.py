"""Speed and truth of `warpsight merge`: stacks that carry the number of their launch, times as probes give them.

    PYTHONPATH=src:. python benchmarks/merge.py [--launches 20000] [--drift 200] [--threads 4] …

Each stack is taken 0.4 µs and an exponential rest before its call begins; two in a thousand wait 2–20 µs longer.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.formats.reading.samples import Samples
from warpsight.model.storage.writer import TraceWriter

PID, FOREIGN_PID = 4242, 777


@dataclass(frozen=True)
class Plan:
    """What is generated."""

    launches: int = 20_000
    threads: int = 1
    offset_ns: int = 0
    drift_ppm: float = 0.0
    lost_stacks: float = 0.0
    #: Stacks of another process, and launches that are graphs of eight kernels, as shares
    foreign: float = 0.0
    graphs: float = 0.0
    #: Thread ids of stacks are true; else the pid is in their place
    tids: bool = True
    gap_ns: int = 20_000
    even: bool = False
    seed: int = 1


def made(path: Path, plan: Plan) -> tuple[Samples, Any]:
    """Write the GPU side to `path`; returns the stacks and, per stack, the correlation of its launch (0: none)."""
    rng = np.random.default_rng(plan.seed)
    pieces = [_thread(rng, plan, thread) for thread in range(plan.threads)]
    probe, start, thread = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.argsort(start, kind="stable")
    probe, start, thread = probe[order], start[order], thread[order]
    graph = rng.random(len(start)) < plan.graphs
    _write(path, start, thread, graph)
    kept = np.flatnonzero(rng.random(len(start)) >= plan.lost_stacks)
    moment = (
        probe[kept] + plan.offset_ns + ((probe[kept] - probe[0]) * plan.drift_ppm * 1e-6).astype(np.int64)
    )
    foreign = int(len(kept) * plan.foreign)
    strangers = rng.integers(moment.min(), moment.max(), foreign)
    stacks = [
        _frames(f"host_launch_{k}", "cudaGraphLaunch" if graph[k] else "cudaLaunchKernel")
        for k in kept.tolist()
    ]
    stacks.append(_frames("stranger", "cudaLaunchKernel"))
    times = np.concatenate([moment, strangers])
    pid = np.repeat([PID, FOREIGN_PID], [len(kept), foreign])
    tid = np.concatenate([thread[kept], np.full(foreign, FOREIGN_PID)]) if plan.tids else pid
    number = np.concatenate([np.arange(len(kept)), np.full(foreign, len(kept))])
    truth = np.concatenate([kept + 1, np.zeros(foreign, np.int64)])
    turn = np.argsort(times, kind="stable")
    samples = Samples(
        times[turn], pid[turn], tid[turn], number[turn], np.zeros(len(turn), np.int64), stacks, [""], []
    )
    return samples, truth[turn]


def _thread(rng: Any, plan: Plan, thread: int) -> tuple[Any, Any, Any]:
    """Probe times, call begins and thread ids of one thread; a call ends before the next probe."""
    count = plan.launches // plan.threads
    gap = rng.lognormal(np.log(plan.gap_ns), 0.6, count)
    gap[rng.random(count) < 0.01] += rng.integers(100_000, 3_000_000)
    latency = 400 + rng.exponential(300, count)
    late = rng.random(count) < 0.002
    latency[late] += rng.integers(2_000, 20_000)
    call = 1_500 + rng.exponential(500, count)
    if plan.even:
        gap, latency, call = (np.full(count, float(value)) for value in (plan.gap_ns, 500, 1_500))
    begin = np.cumsum(gap + np.concatenate([[0], (latency + call)[:-1]]))
    probe = 10**12 + begin.astype(np.int64)
    return probe, probe + latency.astype(np.int64), np.full(count, 100 + thread)


def _frames(*names: str) -> tuple[Any, ...]:
    return tuple((name, None, None, None, "native", None) for name in ("main", *names))


def _write(path: Path, start: Any, thread: Any, graph: Any) -> None:
    count = len(start)
    with TraceWriter(path, force=True) as writer:
        who = {"process": 0, "pid": PID, "host": "", "command": "", "executable": "", "start": 0}
        writer.add("process", [who])
        correlation = np.arange(1, count + 1)
        writer.add("launch", {
            "start": start, "duration": np.full(count, 1_500), "thread": thread.astype(np.int32), "correlation": correlation,
            "function": np.where(graph, "cudaGraphLaunch", "cudaLaunchKernel").tolist(),
            "process": np.zeros(count, np.int32), "captured": np.zeros(count, bool)})  # fmt: skip
        each = np.where(graph, 8, 1)
        rows = int(each.sum())
        names = np.array([writer.name(f"k{i}") for i in range(50)], np.int32)
        zero = np.zeros(rows, np.int32)
        writer.add("kernel", {
            "start": np.repeat(start, each) + 5_000, "duration": np.full(rows, 1_500),
            "name_id": np.repeat(names[correlation % 50], each),
            "correlation": np.repeat(correlation, each), "context": zero, "stream": zero, "process": zero,
            "graph_level": np.zeros(rows, bool)})  # fmt: skip


def main() -> None:
    from warpsight.analysis.merge.matching import MATCHED
    from warpsight.analysis.merge.merge import merge
    from warpsight.formats.folded import timed as extended_folded
    from warpsight.model import open as open_trace

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--launches", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--offset", type=int, default=1_000_000, help="ns")
    parser.add_argument("--drift", type=float, default=0.0, help="ppm")
    parser.add_argument("--lost", type=float, default=0.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(options.launches, options.threads, options.offset, options.drift, options.lost)
        samples, truth = made(Path(folder) / "gpu.warp", plan)
        text = "\n".join(
            f"{t} python {p} {i} 1 {';'.join(f[0] for f in samples.stacks[s])}"
            for t, p, i, s in zip(
                *(c.tolist() for c in (samples.time, samples.pid, samples.tid, samples.stack)), strict=True
            )
        ).encode()
        best: dict[str, float] = {}
        for _ in range(3):
            with open_trace(Path(folder) / "gpu.warp") as trace:
                clock = time.process_time()
                read = extended_folded.parse_stacks(text)
                best["read stacks"] = min(best.get("read stacks", 9e9), time.process_time() - clock)
                clock = time.process_time()
                result = merge(read, trace)
                best["merge"] = min(best.get("merge", 9e9), time.process_time() - clock)
                clock = time.process_time()
                lines = result.folded("time")
                best["fold"] = min(best.get("fold", 9e9), time.process_time() - clock)
        found = np.flatnonzero(result.state == MATCHED)
        right = int((result.calls.correlation[result.call[found]] == truth[found]).sum())
        times = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in best.items())
        print(f"{options.launches:,} launches: {times}, all {sum(best.values()):.3f} s; {len(lines):,} lines, "
              f"{right:,} stacks right, {len(found) - right} wrong, {len(samples) - len(found):,} on none")  # fmt: skip


if __name__ == "__main__":
    main()
