"""Small traces whose rows every test can recount by hand or by brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsight.model import StoredTrace, TraceWriter
from warpsight.model import open as open_trace

#: Nanoseconds since 1970: floats cannot tell neighbors apart there.
EPOCH = 1_790_000_000_123_456_789
NAMES = (
    "gemm",
    "_Z3addPf",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "softmax",
)
Build = Callable[..., StoredTrace]


def device(number: int, **more: Any) -> dict[str, Any]:
    """A row of table device."""
    return {"device": number, "index": number, "uuid": f"GPU-{number}", "name": "NVIDIA H200", "vendor": "NVIDIA",
            "platform": "cuda", **more}  # fmt: skip


def kernel(start: int | None, duration: int | None, name_id: int = 1, **more: Any) -> dict[str, Any]:
    """A row of table kernel on device 0, stream 7."""
    return {"start": start, "duration": duration, "name_id": name_id, "device": 0, "context": 1, "stream": 7,
            "process": 0, "graph_level": False, **more}  # fmt: skip


def launch(start: int, duration: int | None, correlation: int, **more: Any) -> dict[str, Any]:
    """A row of table launch by thread 100 of process 0."""
    return {"start": start, "duration": duration, "function": "cudaLaunchKernel", "thread": 100, "process": 0,
            "correlation": correlation, "captured": False, **more}  # fmt: skip


def copy(start: int, duration: int, size: int = 1 << 20, kind: str = "HtoD", **more: Any) -> dict[str, Any]:
    """A row of table memcpy on device 0, stream 7."""
    return {"start": start, "duration": duration, "bytes": size, "kind": kind, "source_kind": "pinned",
            "destination_kind": "device", "asynchronous": True, "device": 0, "context": 1, "stream": 7, "process": 0,
            **more}  # fmt: skip


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """A function that makes a trace of rows by table; `names` become ids from 1; `stacks` likewise."""
    opened: list[StoredTrace] = []

    def make(
        names: tuple[str, ...] = NAMES, stacks: tuple[tuple[Any, ...], ...] = (), shapes: tuple[dict[str, Any], ...] = (),
        manifest: dict[str, Any] | None = None, **tables: Any,
    ) -> StoredTrace:  # fmt: skip
        path = tmp_path / f"{len(opened)}.warp"
        with TraceWriter(path) as writer:
            for name in names:
                writer.name(name)
            for stack in stacks:
                writer.stack(stack)
            for shape in shapes:
                writer.shape(**shape)
            for table, rows in tables.items():
                writer.add(table, rows)
            writer.describe(**(manifest or {}))
        opened.append(open_trace(path))
        return opened[-1]

    yield make
    for trace in opened:
        trace.close()


def messy_rows(seed: int, origin: int = EPOCH, count: int = 300) -> dict[str, list[dict[str, Any]]]:
    """Work that real traces should not have but do: overlaps within a stream, empty rows, any order, two devices and two
    processes whose streams have the same numbers, kernels that never ran."""
    rng = np.random.default_rng(seed)

    def where() -> dict[str, int]:
        return {
            "device": int(rng.integers(2)),
            "stream": int(rng.choice([7, 13])),
            "process": int(rng.integers(2)),
        }

    def time() -> tuple[int, int]:
        return origin + int(rng.integers(5_000)), int(rng.choice([0, 1, 7, 40, 300]))

    kernels = [kernel(*time(), int(rng.integers(1, 5)), correlation=i, **where()) for i in range(count)]
    kernels += [kernel(None, None, correlation=count + i, **where()) for i in range(3)]
    copies = [copy(*time(), int(rng.integers(1, 1 << 20)), str(rng.choice(["HtoD", "DtoH", "DtoD"])), **where())
              for _ in range(count // 5)]  # fmt: skip
    sets = [{"start": s, "duration": d, "bytes": 64, "value": 0, "memory_kind": "device", "asynchronous": True,
             "context": 1, **where()} for s, d in (time() for _ in range(count // 10))]  # fmt: skip
    launches = [launch(int(k["start"] or origin) - int(rng.integers(-5, 400)), int(rng.integers(0, 60)), k["correlation"],
                       process=k["process"], thread=100 + k["process"]) for k in kernels]  # fmt: skip
    return {
        "device": [device(0), device(1)],
        "kernel": kernels,
        "memcpy": copies,
        "memset": sets,
        "launch": launches,
    }


@pytest.fixture(params=[0, 1, 2])
def messy(
    request: pytest.FixtureRequest, build: Build
) -> tuple[StoredTrace, dict[str, list[dict[str, Any]]]]:
    """A messy trace at epoch scale, and its rows."""
    rows = messy_rows(request.param)
    return build(**rows), rows
