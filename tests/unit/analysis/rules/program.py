"""A program with one host thread and one device, written as a trace call by call; times in ns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpsight.model import StoredTrace, TraceWriter
from warpsight.model import open as open_trace

US = 1_000
MS = 1_000_000
THREAD = 1


class Program:
    """Writes calls and kernels; `host` and `device` are the clocks of both."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.writer = TraceWriter(path)
        self.host, self.device, self.correlation = MS, MS, 0

    def add(self, table: str, **columns: Any) -> None:
        self.rows.setdefault(table, []).append({"process": 0, **columns})

    def stack(self, *functions: str, line: int = 9) -> int:
        """The id of a stack: `main` and these functions, the innermost last."""
        frames = [(name, "train.py", line + i, None, "python", None) for i, name in enumerate(functions)]
        return self.writer.stack([("main", "train.py", 1, None, "python", None), *frames])

    def call(self, table: str, function: str, duration: int, **columns: Any) -> int:
        """An API call, and its correlation id."""
        self.correlation += 1
        self.add(table, start=self.host, duration=duration, function=function, thread=THREAD,
                 correlation=self.correlation, **columns)  # fmt: skip
        self.host += duration
        return self.correlation

    def launch(self, name: str, duration: int, stream: int = 7, **columns: Any) -> None:
        """A launch of 4 µs; its kernel begins 2 µs later at the earliest."""
        number = self.call("launch", "cudaLaunchKernel", 4 * US, captured=False)
        self.device = max(self.device, self.host + 2 * US)
        self.add("kernel", start=self.device, duration=duration, name_id=self.writer.name(name), context=1, stream=stream,
                 device=0, correlation=number, graph_level=False, **columns)  # fmt: skip
        self.device += duration

    def synchronize(self) -> None:
        """Wait for the device, and 5 µs more for waking up."""
        begin = self.host
        number = self.call("api", "cudaDeviceSynchronize", max(self.device - begin, 0) + 5 * US)
        self.add("sync", start=begin, duration=self.host - begin, kind="context", context=1, stream=0,
                 correlation=number)  # fmt: skip

    def busy(self, duration: int, function: str | None = None) -> None:
        """Code of the host; samples every 200 µs show the function."""
        if function:
            stack = self.stack(function)
            for at in range(self.host, self.host + duration, 200 * US):
                self.add("sample", time=at, thread=THREAD, stack=stack, state="R", gil=True)
        self.host += duration

    def annotated(self, name: str, begin: int) -> None:
        """A range from `begin` to now."""
        self.add("marker", start=begin, duration=self.host - begin, kind="push/pop", open=False,
                 name_id=self.writer.name(name), source="nvtx", thread=THREAD)  # fmt: skip

    def open(self, **device: Any) -> StoredTrace:
        self.writer.add("device", [{"device": 0, "index": 0, "uuid": "u", "name": "G", "vendor": "V", "platform": "cuda",
                                    "clock_khz": 2_000_000, "multiprocessors": 100, **device}])  # fmt: skip
        for table, rows in self.rows.items():
            self.writer.add(table, rows)
        self.writer.close()
        return open_trace(self.path)
