"""A small machine that runs random programs with CUDA's rules and writes what a recorder would see.

Host threads issue calls; work of a stream runs in order, after the launch's latency, after events it waits for, and
around the legacy default stream. Every begin is the latest of what it must wait for, so the cause of every begin is known.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from warpsight.model import TraceWriter

LATENCY, NULL, CONTEXT, PID = 5_000, 7, 1, 100


@dataclass
class Machine:
    """`ready[stream]` is when the last work of a stream ends; all times in ns. With `nested`, the program makes system
    calls, and its launches do."""

    seed: int
    nested: bool = False
    clock: int = 1_000_000
    correlation: int = 0
    ready: dict[int, int] = field(default_factory=dict)
    events: dict[int, int] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.streams = [NULL, 8, 9, 10]
        #: 8 and 9 are ordinary streams, 10 is a non-blocking one.
        self.blocking = {8, 9}

    def call(self, table: str, function: str, duration: int, **columns: Any) -> int:
        self.clock += self.random.choice((200, 900, 15_000))
        self.correlation += 1
        if self.nested and table == "launch":
            inner = {
                "start": self.clock + 300,
                "duration": 500,
                "function": "ioctl",
                "thread": PID,
                "process": 0,
            }
            self.rows.setdefault("api", []).append(inner)
        row = {"start": self.clock, "duration": duration, "function": function, "thread": PID, "process": 0,
               "correlation": self.correlation, **columns}  # fmt: skip
        self.rows.setdefault(table, []).append(row)
        self.clock += duration
        return self.correlation

    def begin(self, stream: int, issued: int) -> int:
        after = [issued + LATENCY, self.ready.get(stream, 0)]
        if stream == NULL:
            after += [self.ready.get(s, 0) for s in self.blocking]
        elif stream in self.blocking:
            after.append(self.ready.get(NULL, 0))
        return max(after)

    def where(self, stream: int, correlation: int) -> dict[str, Any]:
        return {
            "context": CONTEXT,
            "stream": stream,
            "device": 0,
            "process": 0,
            "correlation": correlation,
        }

    def launch(self) -> None:
        stream = self.random.choice(self.streams)
        number = self.call("launch", "cudaLaunchKernel", 1_500, captured=False)
        start = self.begin(stream, self.clock - 1_500)
        duration = self.random.choice((800, 4_000, 60_000))
        row = {"start": start, "duration": duration, "graph_level": False, **self.where(stream, number)}
        self.rows.setdefault("kernel", []).append(row)
        self.ready[stream] = start + duration

    def copy(self) -> None:
        stream = self.random.choice(self.streams)
        number = self.call("api", "cudaMemcpy", 0)
        issued = self.clock
        start = self.begin(stream, issued)
        row = {"start": start, "duration": 9_000, "bytes": 64, "kind": "HtoD", "source_kind": "pageable",
               "destination_kind": "device", "asynchronous": False, **self.where(stream, number)}  # fmt: skip
        self.rows.setdefault("memcpy", []).append(row)
        self.ready[stream] = start + 9_000
        self.rows["api"][-1]["duration"] = start + 9_000 + 700 - issued
        self.clock = start + 9_000 + 700

    def record(self) -> None:
        stream, event = self.random.choice(self.streams), self.random.randrange(3)
        number = self.call("api", "cudaEventRecord", 300)
        self.rows.setdefault("event", []).append({"event": event, **self.where(stream, number)})
        self.events[event] = self.ready.get(stream, 0)

    def wait(self) -> None:
        stream, event = self.random.choice(self.streams), self.random.randrange(3)
        number = self.call("api", "cudaStreamWaitEvent", 300)
        self.sync(number, "stream wait event", stream, event)
        self.ready[stream] = max(self.ready.get(stream, 0), self.events.get(event, 0))

    def sync(self, number: int, kind: str, stream: int, event: int | None = None) -> None:
        api = self.rows["api"][-1]
        row = {"start": api["start"], "duration": api["duration"], "kind": kind, "event": event, "result": 0}
        self.rows.setdefault("sync", []).append({**row, **self.where(stream, number)})

    def synchronize(self) -> None:
        kind = self.random.choice(("stream", "context", "event"))
        stream, event = self.random.choice(self.streams), self.random.randrange(3)
        number = self.call("api", "cudaSynchronize", 400)
        begun = self.clock - 400
        until = {"stream": self.ready.get(stream, 0), "context": max(self.ready.values(), default=0),
                 "event": self.events.get(event, 0)}[kind]  # fmt: skip
        if until > begun:
            self.clock = max(until + 600, begun + 400)
            self.rows["api"][-1]["duration"] = self.clock - begun
        self.sync(number, kind, stream, event if kind == "event" else None)

    def run(self, steps: int) -> None:
        actions: list[Callable[[], Any]] = [self.launch] * 6 + [
            self.copy,
            self.record,
            self.wait,
            self.synchronize,
        ]
        if self.nested:
            actions.append(lambda: self.call("api", "read", 400))
        for _ in range(steps):
            self.random.choice(actions)()

    def write(self, path: Any) -> None:
        with TraceWriter(path) as writer:
            writer.add(
                "context",
                [{"context": CONTEXT, "device": 0, "null_stream": NULL, "api": "cuda", "process": 0}],
            )
            flags = {NULL: 3, 8: 1, 9: 1, 10: 2}
            writer.add("stream", [{"stream": s, "context": CONTEXT, "device": 0, "flags": f, "process": 0}
                                  for s, f in flags.items()])  # fmt: skip
            for table, rows in self.rows.items():
                writer.add(table, rows)
