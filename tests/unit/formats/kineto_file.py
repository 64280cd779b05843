"""Small files of torch.profiler, written event by event."""

import json
from pathlib import Path
from typing import Any


def write(path: Path, events: list[dict[str, Any]], **more: Any) -> Path:
    """A file with these events, which torch.profiler's schema version 1 describes."""
    content = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        **more,
        "traceEvents": events,
    }
    path.write_text(json.dumps(content))
    return path


def event(
    category: str, name: str, start: float, length: float, pid: Any, tid: Any, **args: Any
) -> dict[str, Any]:
    """A complete event; times are µs."""
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": start,
        "dur": length,
        "args": args,
    }


def kernel(start: float, length: float = 5, name: str = "k", **args: Any) -> dict[str, Any]:
    """A kernel of device 0, context 1 and stream 7 unless the arguments say otherwise."""
    full = {"device": 0, "context": 1, "stream": 7, "correlation": int(start), **args}
    return event("kernel", name, start, length, full["device"], full["stream"], **full)


def launch(start: float, correlation: int, length: float = 2) -> dict[str, Any]:
    """A call that launches the kernel of a correlation."""
    return event("cuda_runtime", "cudaLaunchKernel", start, length, 100, 100, correlation=correlation)
