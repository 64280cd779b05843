"""Recordings of a training pipeline: each rank is a stage on a GPU of its own, and nothing but messages joins them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpsight.model import TraceWriter

MESSAGE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
TRANSFER = 30_000


@dataclass
class Pipeline:
    """All micro-batches forward, then all backward; times in ns.

    Attributes:
        slow: Kernels of one stage take so many times as long, from step `since` on.
        uneven: In each step one stage, another each time, takes so many times as long: its sequences are longer.
        late: The first stage's host takes so much longer to load each batch.
        same_gpu: All stages run on one device.
        announced: The program marks its steps.
        barrier: All stages meet in one all-reduce at the end.
    """

    stages: int = 4
    steps: int = 24
    micro: int = 4
    compute: int = 1_000_000
    slow: tuple[int, float] | None = None
    since: int = 0
    uneven: float = 1.0
    late: int = 0
    same_gpu: bool = False
    announced: bool = True
    barrier: bool = False

    def write(self, folder: Path) -> list[Path]:
        """Make the traces; `folder/rank=00001` is one."""
        self._random = np.random.default_rng(3)
        self._rows: list[list[tuple[str, int, int, int]]] = [
            [] for _ in range(self.stages)
        ]  # what, peer, start, end
        self._ready = np.full(self.stages, 1e9)
        marks: list[list[tuple[float, float]]] = [[] for _ in range(self.stages)]
        for step in range(self.steps):
            for rank in range(self.stages):
                begin = self._ready[rank]
                self._ready[rank] += 50_000 + (self.late if rank == 0 else 0)
                marks[rank].append((begin, self._ready[rank]))
            order = range(self.stages)
            for way, stages in ((1, order), (-1, order[::-1])):
                arrived = np.zeros(self.micro)
                for rank in stages:
                    for batch in range(self.micro):
                        self._message(rank, -way, arrived[batch])
                        self._kernel(rank, step)
                        arrived[batch] = self._ready[rank]
                        self._message(rank, way, arrived[batch])
        if self.barrier:
            end = round(self._ready.max())
            for rank in range(self.stages):
                self._rows[rank].append(("all-reduce", -1, round(self._ready[rank]), end + TRANSFER))
        folder.mkdir(parents=True, exist_ok=True)
        return [self._trace(folder / f"rank={rank:05d}", rank, marks[rank]) for rank in range(self.stages)]

    def _message(self, rank: int, way: int, ready: float) -> None:
        peer = rank + way
        if not 0 <= peer < self.stages:
            return
        sent = ready == self._ready[rank]
        start, end = self._ready[rank], max(self._ready[rank], ready) + TRANSFER
        self._rows[rank].append(("send" if sent else "receive", peer, round(start), round(end)))
        self._ready[rank] = end + 2_000

    def _kernel(self, rank: int, step: int) -> None:
        length = self.compute * self._random.normal(1, 0.02)
        if self.slow and self.slow[0] == rank and step >= self.since:
            length *= self.slow[1]
        if rank == step * 3 % self.stages:
            length *= self.uneven
        start = self._ready[rank]
        self._rows[rank].append(("layer", -1, round(start), round(start + length)))
        self._ready[rank] = start + length + 2_000

    def _trace(self, path: Path, rank: int, marks: list[tuple[float, float]]) -> Path:
        with TraceWriter(path) as writer:
            writer.add("process", [{"process": 0, "pid": 100 + rank, "host": "host", "rank": rank, "world_size": self.stages,
                                    "command": "python train.py", "executable": "python", "start": 0}])  # fmt: skip
            gpu = 0 if self.same_gpu else rank
            writer.add("device", [{"device": 0, "index": gpu, "uuid": f"GPU-{gpu}", "name": "H", "vendor": "NVIDIA",
                                   "platform": "cuda", "host": "host", "clock_khz": 1_980_000}])  # fmt: skip
            writer.add("clock", [{"monotonic": 0, "realtime": 1_790_000_000_000_000_000}])
            kernels, launches, messages = [], [], []
            for number, (what, peer, start, end) in enumerate(self._rows[rank], 1):
                name = what if what == "layer" else ALL_REDUCE if what == "all-reduce" else MESSAGE
                kernels.append({"start": start, "duration": end - start, "name_id": writer.name(name), "device": 0,
                                "context": 1, "stream": 7, "correlation": number, "process": 0,
                                "graph_level": False})  # fmt: skip
                launches.append({"start": start - 1_500, "duration": 500, "function": "cudaLaunchKernel", "thread": 1,
                                 "correlation": number, "process": 0, "captured": False})  # fmt: skip
                if what != "layer":
                    messages.append({"start": start, "duration": end - start, "operation": what, "bytes": 1 << 20,
                                     "dtype": "Float", "ranks": 2, "group": "p2p", "correlation": number, "process": 0,
                                     "peer": peer if peer >= 0 else None})  # fmt: skip
            writer.add("kernel", kernels)
            writer.add("launch", launches)
            writer.add("collective", messages)
            ranges = []
            for number, (start, end) in enumerate(marks if self.announced else ()):
                until = marks[number + 1][0] if number + 1 < len(marks) else self._ready[rank]
                ranges.append((f"ProfilerStep#{number}", start, until))
                ranges.append(("load batch", start, end))
            writer.add("marker", [
                {"start": round(start), "duration": round(end) - round(start), "name_id": writer.name(name), "kind": "push/pop",
                 "source": "annotate", "thread": 1, "process": 0, "open": False} for name, start, end in ranges])  # fmt: skip
        return path
