"""Recordings of a job with two kinds of groups: pairs of neighbors (0, 1), (2, 3), … in each layer, then even and odd ranks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpsight.model import TraceWriter

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
TRANSFER = 20_000


@dataclass
class Grid:
    """What the ranks do; times in ns.

    Attributes:
        slow: A rank, and how many times as long its kernels take.
        hung: A rank and the step before whose first collective it stops; the others wait for `waited`.
    """

    ranks: int = 8
    steps: int = 12
    layers: int = 4
    compute: int = 1_000_000
    slow: tuple[int, float] | None = None
    hung: tuple[int, int] | None = None
    waited: int = 5_000_000_000

    def write(self, folder: Path) -> None:
        """Make the traces."""
        random = np.random.default_rng(4)
        ready = np.full(self.ranks, 1e9)
        stopped = np.zeros(self.ranks, bool)
        self._rows: list[list[tuple[str, str, int, int]]] = [
            [] for _ in range(self.ranks)
        ]  # what, group, start, end
        pairs = [(f"pair{i}", (i, i + 1)) for i in range(0, self.ranks, 2)]
        stripes = [(f"stripe{i}", tuple(range(i, self.ranks, 2))) for i in range(2)]
        for step in range(self.steps):
            for number in range(self.layers + 1):
                for rank in np.flatnonzero(~stopped).tolist():
                    if (rank, step) == self.hung:
                        stopped[rank] = True
                        continue
                    length = self.compute * random.normal(1, 0.005)
                    length *= self.slow[1] if self.slow and self.slow[0] == rank else 1
                    self._rows[rank].append(("gemm", "", round(ready[rank]), round(ready[rank] + length)))
                    ready[rank] += length + 2_000
                for name, members in pairs if number < self.layers else stripes:
                    there = [rank for rank in members if not stopped[rank]]
                    begin = ready[there].max(initial=0)
                    whole = len(there) == len(members)
                    for rank in there:
                        end = begin + (TRANSFER if whole else self.waited)
                        self._rows[rank].append(
                            (REDUCE, name, round(ready[rank]), round(end + random.uniform(0, 500)))
                        )
                        ready[rank] = end + 2_000
                        stopped[rank] |= not whole
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.ranks):
            self._trace(folder / f"rank={rank:05d}", rank)

    def _trace(self, path: Path, rank: int) -> None:
        with TraceWriter(path) as writer:
            writer.add("process", [{"process": 0, "pid": 100 + rank, "host": "host", "rank": rank, "world_size": self.ranks,
                                    "command": "python train.py", "executable": "python", "start": 0}])  # fmt: skip
            writer.add("device", [{"device": 0, "index": rank, "uuid": f"GPU-{rank}", "name": "H", "vendor": "NVIDIA",
                                   "platform": "cuda", "host": "host"}])  # fmt: skip
            writer.add("clock", [{"monotonic": 0, "realtime": 1_790_000_000_000_000_000}])
            kernels, launches, collectives = [], [], []
            for number, (what, group, start, end) in enumerate(self._rows[rank], 1):
                kernels.append({"start": start, "duration": end - start, "name_id": writer.name(what), "device": 0,
                                "context": 1, "stream": 20 if group else 7, "correlation": number, "process": 0,
                                "graph_level": False})  # fmt: skip
                launches.append({"start": start - 1_500, "duration": 500, "function": "cudaLaunchKernel", "thread": 1,
                                 "correlation": number, "process": 0, "captured": False})  # fmt: skip
                if group:
                    collectives.append({"start": start, "duration": end - start, "operation": "all-reduce", "dtype": "f32",
                                        "bytes": 1 << 20 if group.startswith("pair") else 8 << 20, "group": group,
                                        "ranks": 2 if group.startswith("pair") else self.ranks // 2,
                                        "correlation": number, "process": 0})  # fmt: skip
            writer.add("kernel", kernels)
            writer.add("launch", launches)
            writer.add("collective", collectives)
