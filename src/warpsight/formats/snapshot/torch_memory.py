"""PyTorch memory snapshots (`torch.cuda.memory._dump_snapshot`): allocations of its caching allocator as table `memory`.

The file is a pickle of lists, dictionaries, texts and numbers. Reading refuses anything else, so no code of the
file ever runs. Layout: https://pytorch.org/docs/stable/torch_cuda_memory.html and `torch/cuda/_memory_viz.py`.
"""

from __future__ import annotations

import bisect
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.errors import TraceError
from warpsight.formats.snapshot.plain_pickle import Once, PlainData
from warpsight.model import StoredTrace, TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.definitions import Frame

_ALLOCATOR = "PyTorch caching allocator"
#: Actions of a snapshot that are operations of table `memory`. A requested free is none yet: the block stays in use
#: until the streams that use it are done.
_OPERATIONS = {
    "alloc": "allocate",
    "free_completed": "free",
    "segment_alloc": "pool create",
    "segment_map": "pool create",
    "segment_free": "pool destroy",
    "segment_unmap": "pool destroy",
}
_IN_USE = ("active_allocated", "active_awaiting_free", "active_pending_free")


@dataclass(frozen=True)
class _MemoryOperation:
    """One row of table `memory`, with its stack as frames from the outermost inwards."""

    time: int
    operation: str
    device: int
    address: int
    bytes: int
    stream: int
    #: The segment (one cudaMalloc) that holds the block: address, size, bytes in use after the operation.
    pool: int
    pool_size: int
    pool_used: int
    tag: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class _OutOfMemory:
    """A request that failed."""

    time: int
    device: int
    bytes: int
    free: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class TorchSnapshot:
    """The contents of a snapshot in time order; times are ns since 1970."""

    path: Path
    operations: tuple[_MemoryOperation, ...]
    failures: tuple[_OutOfMemory, ...]
    devices: int
    #: The allocator's settings, as PyTorch names them.
    settings: Mapping[str, Any]

    def write(self, path: str | os.PathLike[str], *, force: bool = False, offset_ns: int = 0) -> StoredTrace:
        """Make it a trace; `offset_ns` is subtracted from every time, for example to get CLOCK_MONOTONIC.

        Raises:
            TraceError: when `path` exists without `force`.
        """
        with TraceWriter(path, force=force) as writer:
            writer.describe(source="PyTorch memory snapshot", settings={"torch_memory": dict(self.settings)})
            start = min((row.time for row in self.operations), default=0) - offset_ns
            writer.add("process", [{"process": 0, "pid": 0, "host": "", "command": str(self.path), "executable": "",
                                    "start": start}])  # fmt: skip
            writer.add("device", [_device(number) for number in range(self.devices)])
            writer.add("memory", [_row(writer, row, offset_ns) for row in self.operations])
            writer.add("user_event", [_event(writer, row, offset_ns) for row in self.failures])
        return open_trace(path)


def read(path: str | os.PathLike[str]) -> TorchSnapshot:
    """Read a snapshot without executing any of it.

    Raises:
        TraceError: when the file is not a snapshot, or refers to code.
    """
    content = _load(Path(path))
    try:
        operations: list[_MemoryOperation] = []
        failures: list[_OutOfMemory] = []
        traces = content.get("device_traces", [])
        last = max((int(s["device"]) for s in content["segments"]), default=-1)
        stack = Once(_frames)
        for device in sorted({*range(len(traces)), *(int(s["device"]) for s in content["segments"])}):
            trace = traces[device] if 0 <= device < len(traces) else []
            known = _Segments([s for s in content["segments"] if int(s["device"]) == device], stack)
            operations += known.before(trace, device)
            operations += filter(None, (known.operation(entry, device) for entry in trace))
            failures += (_failure(entry, device, stack) for entry in trace if entry["action"] == "oom")
        settings = content.get("allocator_settings", {})
        operations.sort(key=lambda row: row.time)
        return TorchSnapshot(
            Path(path), tuple(operations), tuple(failures), max(len(traces), last + 1), settings
        )
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise TraceError(
            f"{path} is not a memory snapshot of PyTorch: {type(error).__name__}: {error}"
        ) from None


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = PlainData(file).load()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from None
    except TraceError as error:
        raise TraceError(f"{path} is not read: {error}") from None
    except Exception as error:  # a pickle can be wrong in every way
        raise TraceError(
            f"{path} is not a memory snapshot of PyTorch: {type(error).__name__}: {error}"
        ) from None
    if not isinstance(content, dict) or not isinstance(content.get("segments"), list):
        raise TraceError(f"{path} is not a memory snapshot of PyTorch: it has no segments")
    return content


class _Segments:
    """Segments of one device over the history: which one holds an address, and how much of it is in use."""

    def __init__(self, at_end: list[dict[str, Any]], stack: Once[tuple[Frame, ...]]) -> None:
        self._at_end = at_end
        self._stack = stack
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}
        self._used: dict[int, int] = {}

    def before(self, trace: list[dict[str, Any]], device: int) -> Iterator[_MemoryOperation]:
        """Blocks that exist at the start of the history: those freed in it, or remaining, without an allocation."""
        time = min((_time(entry) for entry in trace), default=0)
        segments, blocks = _first(trace, "pool create", "pool destroy"), _first(trace, "allocate", "free")
        for entry in segments.values():
            if _OPERATIONS[entry["action"]] == "pool destroy":
                yield self._before_history(
                    "pool create", time, device, int(entry["addr"]), int(entry["size"]), {}
                )
        for segment in self._at_end:
            start = int(segment["address"])
            if start not in segments:
                yield self._before_history(
                    "pool create", time, device, start, int(segment["total_size"]), segment
                )
        for entry in blocks.values():
            if _OPERATIONS[entry["action"]] == "free":
                yield self._before_history(
                    "allocate", time, device, int(entry["addr"]), int(entry["size"]), {}
                )
        for segment in self._at_end:
            for block, address in _blocks(segment):
                if block["state"] in _IN_USE and address not in blocks:
                    yield self._before_history(
                        "allocate", time, device, address, int(block["size"]), {**segment, **block}
                    )

    def _before_history(
        self, what: str, time: int, device: int, address: int, size: int, entry: dict[str, Any]
    ) -> _MemoryOperation:
        self._apply(what, address, size)
        return self._made(what, time, device, address, size, "before the history", entry)

    def operation(self, entry: dict[str, Any], device: int) -> _MemoryOperation | None:
        """One entry of the history; None if it is not an operation."""
        what = _OPERATIONS.get(entry["action"])
        if what is None:
            return None
        address, size = int(entry["addr"]), int(entry["size"])
        if what != "pool destroy":
            self._apply(what, address, size)
        row = self._made(
            what, _time(entry), device, address, size, str(entry.get("user_metadata") or ""), entry
        )
        if what == "pool destroy":
            self._apply(what, address, size)
        return row

    def _apply(self, what: str, address: int, size: int) -> None:
        if what == "pool create":
            if address not in self._sizes:
                bisect.insort(self._starts, address)
            self._sizes[address], self._used[address] = size, 0
        elif what == "pool destroy":
            if self._sizes.pop(address, None) is not None:
                self._starts.remove(address)
        elif pool := self._holder(address):
            self._used[pool] += size if what == "allocate" else -size

    def _holder(self, address: int) -> int:
        place = bisect.bisect_right(self._starts, address) - 1
        start = self._starts[place] if place >= 0 else 0
        return start if place >= 0 and address < start + self._sizes[start] else 0

    def _made(
        self, what: str, time: int, device: int, address: int, size: int, tag: str, entry: dict[str, Any]
    ) -> _MemoryOperation:
        pool = self._holder(address)
        return _MemoryOperation(
            time, what, device, address, size, int(entry.get("stream", 0)), pool, self._sizes.get(pool, 0),
            max(self._used.get(pool, 0), 0), tag, self._stack(entry.get("frames")),
        )  # fmt: skip


def _first(trace: list[dict[str, Any]], *operations: str) -> dict[int, dict[str, Any]]:
    """The first of some operations at each address."""
    chosen = [entry for entry in trace if _OPERATIONS.get(entry["action"]) in operations]
    return {int(entry["addr"]): entry for entry in reversed(chosen)}


def _blocks(segment: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Blocks of a segment with their addresses, which must be added up for early versions."""
    address = int(segment["address"])
    for block in segment["blocks"]:
        address = int(block.get("address", address))
        yield block, address
        address += int(block["size"])


def _time(entry: dict[str, Any]) -> int:
    return int(entry.get("time_us", 0)) * 1000


def _frames(frames: list[dict[str, Any]] | None) -> tuple[Frame, ...]:
    """The stack of an entry's frames, outermost first; C++ frames have no file."""
    out: list[Frame] = []
    for frame in reversed(frames or []):
        file, name, line = (
            str(frame.get("filename") or ""),
            str(frame.get("name") or "?"),
            int(frame.get("line") or 0),
        )
        native = file in ("", "??")
        out.append(
            (name, None if native else file, line or None, None, "native" if native else "python", None)
        )
    return tuple(out)


def _failure(entry: dict[str, Any], device: int, stack: Once[tuple[Frame, ...]]) -> _OutOfMemory:
    return _OutOfMemory(
        _time(entry), device, int(entry["size"]), int(entry.get("device_free", 0)), stack(entry.get("frames"))
    )


def _device(number: int) -> dict[str, Any]:
    return {"device": number, "index": number, "uuid": f"cuda:{number}", "name": f"CUDA device {number}",
            "vendor": "NVIDIA", "platform": "cuda"}  # fmt: skip


def _row(writer: TraceWriter, row: _MemoryOperation, offset: int) -> dict[str, Any]:
    return {
        "time": row.time - offset,
        "operation": row.operation,
        "address": row.address,
        "bytes": row.bytes,
        "kind": "device",
        "device": row.device,
        "pool": row.pool or None,
        "pool_size": row.pool_size or None,
        "pool_used": row.pool_used if row.pool else None,
        "allocator": _ALLOCATOR,
        "tag": row.tag or None,
        "stack": writer.stack(row.frames),
        "process": 0,
    }


def _event(writer: TraceWriter, row: _OutOfMemory, offset: int) -> dict[str, Any]:
    return {
        "start": row.time - offset,
        "duration": 0,
        "name": "out of memory",
        "kind": "memory",
        "thread": 0,
        "stack": writer.stack(row.frames),
        "attributes": json.dumps({"device": row.device, "bytes": row.bytes, "free": row.free}),
        "process": 0,
    }
