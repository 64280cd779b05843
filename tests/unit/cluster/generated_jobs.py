"""Recordings of a data-parallel job with planted faults: a trace per rank, each on a host with a clock of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.model import TraceWriter

KERNELS = ("gemm_forward", "gemm_backward", "softmax")
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECEIVE = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
TRANSFER = 40_000
SIZE = 4 << 20


@dataclass
class Job:
    """What the ranks do, in ns. Faults are by rank.

    Attributes:
        compute: Length of each kernel.
        factor: Kernels of a rank take so many times as long, from step `since` on.
        slow_kernel: One kernel of a rank takes so much longer.
        uneven: In each step the kernels of one rank, another each time, take so many times as long.
        transfer: How long an all-reduce takes beyond waiting.
        loading: Extra host time of a rank before its step, for steps where `loads` says so.
        clock: Offset and drift of each rank's clock.
        source: `table` (collectives in the table), `ranges` (NCCL's NVTX ranges), `names` (kernels alone) or `titles`
            (all-to-alls of sends and receives, in the ranges that PyTorch makes).
        mismatch: rank, step, and what it does there instead: `operation` or `size`.
        warm_up: So many all-reduces of other sizes come first.
        other_name: One kernel of a rank has another name there.
        sampled: The host is sampled every millisecond, and has no ranges.
    """

    ranks: int = 4
    steps: int = 20
    buckets: int = 2
    compute: int = 1_000_000
    since: int = 0
    factor: dict[int, float] = field(default_factory=dict)
    slow_kernel: dict[int, tuple[str, float]] = field(default_factory=dict)
    uneven: float = 1.0
    transfer: int = TRANSFER
    loading: dict[int, int] = field(default_factory=dict)
    every: int = 1
    jitter: float = 0.02
    clock: dict[int, tuple[int, float]] = field(default_factory=dict)
    source: str = "table"
    mismatch: tuple[int, int, str] | None = None
    warm_up: int = 0
    other_name: dict[int, tuple[str, str]] = field(default_factory=dict)
    sampled: bool = False
    clock_mhz: dict[int, float] = field(default_factory=dict)
    seed: int = 1

    def write(self, folder: Path) -> list[Path]:
        """Make the traces; `folder/rank=00003` is one."""
        folder.mkdir(parents=True, exist_ok=True)
        timelines = self._run()
        paths = []
        for rank, rows in enumerate(timelines):
            paths.append(folder / f"rank={rank:05d}")
            self._trace(paths[-1], rank, rows)
        return paths

    def _run(self) -> list[list[dict[str, Any]]]:
        """What each rank's host and device did, in true time."""
        random = np.random.default_rng(self.seed)
        ready = np.full(self.ranks, 1e9)
        out: list[list[dict[str, Any]]] = [[] for _ in range(self.ranks)]
        for number in range(self.warm_up):
            done = ready.max() + self.transfer
            for rank in range(self.ranks):
                out[rank].append(
                    {"what": "all-reduce", "start": ready[rank], "end": done, "bytes": 512 * (number + 1)}
                )
            ready[:] = done + self.compute
        for step in range(self.steps):
            for rank in range(self.ranks):
                host = 20_000.0
                if rank in self.loading and step >= self.since and (step - self.since) % self.every == 0:
                    host += self.loading[rank]
                out[rank].append({"what": "load", "start": ready[rank], "end": ready[rank] + host})
                ready[rank] += host
            for bucket in range(self.buckets):
                for rank in range(self.ranks):
                    for name in KERNELS:
                        length = self.compute * random.normal(1, self.jitter)
                        if step >= self.since:
                            length *= self.factor.get(rank, 1.0)
                            slow = self.slow_kernel.get(rank)
                            length *= slow[1] if slow and slow[0] == name else 1.0
                        length *= self.uneven if rank == step * 3 % self.ranks else 1.0
                        out[rank].append({"what": name, "start": ready[rank], "end": ready[rank] + length})
                        ready[rank] += length + 2_000
                begin = ready.copy()
                done = begin.max() + self.transfer * random.uniform(1, 1.2)
                for rank in range(self.ranks):
                    what, size = "all-reduce", SIZE + bucket * 4096
                    if self.mismatch and self.mismatch[:2] == (rank, step) and bucket == 0:
                        what = "all-gather" if self.mismatch[2] == "operation" else what
                        size = size // 2 if self.mismatch[2] == "size" else size
                    out[rank].append(
                        {
                            "what": what,
                            "start": begin[rank],
                            "end": done + random.uniform(0, 1000),
                            "bytes": size,
                        }
                    )
                ready[:] = done + 3_000
        return out

    def _shown(self, rank: int, t: float) -> int:
        offset, drift = self.clock.get(rank, (0, 0.0))
        return offset + round(t * (1 + drift))

    def _trace(self, path: Path, rank: int, rows: list[dict[str, Any]]) -> None:
        with TraceWriter(path) as writer:
            host = f"host{rank}"
            writer.add("process", [{"process": 0, "pid": 100 + rank, "host": host, "rank": rank, "world_size": self.ranks,
                                    "command": "python train.py", "executable": "python", "start": 0}])  # fmt: skip
            writer.add("device", [{"device": 0, "index": rank, "uuid": f"GPU-{rank}", "name": "H", "vendor": "NVIDIA",
                                   "platform": "cuda", "host": host, "clock_khz": 1_980_000}])  # fmt: skip
            offset = self.clock.get(rank, (0, 0.0))[0]
            writer.add(
                "clock", [{"monotonic": 0, "realtime": 1_790_000_000_000_000_000 - offset + rank * 3_000_000}]
            )
            kernels = [row for row in rows if row["what"] != "load"]
            self._kernels(writer, rank, kernels)
            loads = [row for row in rows if row["what"] == "load"]
            if self.sampled:
                self._samples(writer, rank, rows)
            else:
                self._markers(writer, rank, loads, kernels)
            if rank in self.clock_mhz or self.clock_mhz:
                times = np.linspace(
                    self._shown(rank, kernels[0]["start"]), self._shown(rank, kernels[-1]["end"]), 50
                )
                writer.add("counter", [{"time": int(t), "name": "sm_clock", "value": self.clock_mhz.get(rank, 1980.0),
                                        "unit": "MHz", "device": 0, "source": "nvml"} for t in times])  # fmt: skip

    def _kernels(self, writer: TraceWriter, rank: int, kernels: list[dict[str, Any]]) -> None:
        names = {
            "all-reduce": SEND_RECEIVE if self.source == "titles" else ALL_REDUCE,
            "all-gather": ALL_GATHER,
        }
        names |= dict([self.other_name[rank]]) if rank in self.other_name else {}
        ids = {what: writer.name(names.get(what, what)) for what in (*KERNELS, "all-reduce", "all-gather")}
        device, launches, collectives = [], [], []
        for number, row in enumerate(kernels, 1):
            start, end = self._shown(rank, row["start"]), self._shown(rank, row["end"])
            stream = 20 if row["what"] in ("all-reduce", "all-gather") else 7
            device.append({"start": start, "duration": end - start, "name_id": ids[row["what"]], "device": 0, "context": 1,
                           "stream": stream, "correlation": number, "process": 0, "graph_level": False})  # fmt: skip
            launches.append({"start": start - 5_000, "duration": 2_000, "function": "cudaLaunchKernel", "thread": 1,
                             "correlation": number, "process": 0, "captured": False})  # fmt: skip
            if row["what"] in ("all-reduce", "all-gather"):
                collectives.append({"start": start, "duration": end - start, "operation": row["what"], "bytes": row["bytes"],
                                    "dtype": "Float", "ranks": self.ranks, "group": "0", "correlation": number, "process": 0,
                                    "members": json.dumps(list(range(self.ranks)))})  # fmt: skip
        writer.add("kernel", device)
        writer.add("launch", launches)
        if self.source == "table":
            writer.add("collective", collectives)

    def _samples(self, writer: TraceWriter, rank: int, rows: list[dict[str, Any]]) -> None:
        loading = writer.stack(["main (train.py:30)", "train (train.py:9)",
                                "DataLoader.__next__ (site-packages/torch/utils/data/dataloader.py:7)"])  # fmt: skip
        working = writer.stack(["main (train.py:30)", "train (train.py:12)"])
        moments = np.arange(rows[0]["start"], rows[-1]["end"], 1e6)
        inside = [any(r["what"] == "load" and r["start"] <= t < r["end"] for r in rows) for t in moments]
        writer.add("sample", [{"time": self._shown(rank, t), "thread": 1, "process": 0, "stack": loading if load else working,
                               "state": "R", "gil": True} for t, load in zip(moments, inside, strict=True)])  # fmt: skip

    def _markers(
        self, writer: TraceWriter, rank: int, loads: list[dict[str, Any]], kernels: list[dict[str, Any]]
    ) -> None:
        rows = [
            {"start": self._shown(rank, row["start"]), "duration": round(row["end"] - row["start"]),
             "name_id": writer.name("load batch"),
             "kind": "push/pop", "source": "annotate", "thread": 1, "process": 0, "open": False} for row in loads
        ]  # fmt: skip
        functions = {"all-reduce": "ncclAllReduce", "all-gather": "ncclAllGather"}
        for row in kernels if self.source == "ranges" else ():
            if row["what"] in functions:
                told = {"NCCL communicator ID": 77, "Message size [bytes]": row["bytes"]}
                rows.append({"start": self._shown(rank, row["start"]) - 6_000, "duration": 4_000, "domain": "NCCL",
                             "name_id": writer.name(functions[row["what"]]), "kind": "push/pop", "source": "nvtx", "thread": 1,
                             "process": 0, "open": False, "attributes": json.dumps(told)})  # fmt: skip
        if self.source == "titles":
            rows += [{"start": self._shown(rank, row["start"]) - 6_000, "duration": 4_000, "kind": "push/pop", "thread": 1,
                      "name_id": writer.name("nccl:all_to_all"), "source": "torch", "process": 0, "open": False}
                     for row in kernels if row["what"] in functions]  # fmt: skip
        rows.sort(key=lambda row: row["start"])
        writer.add("marker", rows)
