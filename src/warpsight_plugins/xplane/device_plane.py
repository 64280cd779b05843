"""Planes of devices: streams of GPUs, lines of TPUs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.json_pieces import PIECE

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from warpsight.formats.target import Target
    from warpsight_plugins.xplane.space import Plane

#: `Stream #7(Compute,MemcpyH2D)`
_STREAM = re.compile(r"^Stream #(?P<number>\d+)")
#: Lines that group or repeat what other lines of the plane hold; on devices without streams XLA Ops is the work itself.
_DERIVED = (
    "Steps", "XLA Modules", "XLA Ops", "Async XLA Ops", "TensorFlow Ops", "TensorFlow Name Scope", "Source code",
    "Framework Ops", "Framework Name Scope", "XLA TraceMe", "Source", "Host Offload Ops", "SparseCoreV0 Ops",
    "Launch Stats", "Sparse Core Steps", "Sparse Core Modules",
)  # fmt: skip
_WORK_LINES = ("XLA Ops", "Async XLA Ops", "SparseCoreV0 Ops", "Host Offload Ops")
#: `regs:32 static_shared:0 grid:8,1,1 block:128,1,1`, `kind_src:pageable size:4096 async:1`
_DETAIL = re.compile(r"(\w+):(\S+)")
#: No GPU gives a thread more registers: NVIDIA 255, AMD 512 (VGPRs and accumulation VGPRs together).
_REGISTERS = 1024
_KEPT = (
    "hlo_op",
    "hlo_module",
    "tf_op",
    "nvtx_range",
    "program_id",
    "group_id",
    "cuda_graph_id",
    "graph_node_id",
    "source",
)
_VENDORS = {"NVIDIA": "cuda", "Nvidia": "cuda", "AMD": "rocm"}
_MEMORY_KINDS = {
    "host": "pinned", "pageable": "pageable", "pinned": "pinned", "device": "device", "array": "array", "managed": "managed",
    "device_static": "device static", "managed_static": "managed static",
}  # fmt: skip


def read_device(plane: Plane, kind: str, index: int, process: int, host: str, target: Target) -> None:
    """Rows of one device's plane."""
    reader = _Device(plane, kind, index, process, host, target)
    lines = list(plane.lines())
    streams = any(_STREAM.match(line.name) for line in lines)
    for line in lines:
        named = _STREAM.match(line.name)
        if named or (not streams and (line.name in _WORK_LINES or not line.name.startswith(_DERIVED))):
            reader.work(line, int(named["number"]) if named else line.id)
        else:
            reader.ranges(line)
    reader.write()


class _Device:
    def __init__(self, plane: Plane, kind: str, index: int, process: int, host: str, target: Target) -> None:
        self._plane = plane
        self._target = target
        self._process = process
        self._rows: dict[str, list[dict[str, Any]]] = {
            "kernel": [], "memcpy": [], "memset": [], "memory": [], "marker": [],
        }  # fmt: skip
        self._kernels = target.rows.get("kernel", 0)
        self._shapes: dict[str, int] = {}
        self._unset = False
        self._device = self._announce(kind, index, host)

    def _announce(self, kind: str, index: int, host: str) -> int:
        stats = self._plane.stats
        vendor = str(stats.get("device_vendor") or ("Google" if kind == "TPU" else ""))
        capability = None
        if "compute_cap_major" in stats:
            capability = f"{stats['compute_cap_major']}.{stats.get('compute_cap_minor', 0)}"
        key = (self._target.scope, host, kind, index)
        device = self._target.device(
            key,
            index=index,
            name=str(stats.get("device_type_string") or f"{kind} {index}"),
            vendor=vendor,
            platform=_VENDORS.get(vendor, "xla"),
            host=host,
            compute_capability=capability,
            memory_bytes=stats.get("memory_size"),
            memory_bandwidth=stats.get("memory_bandwidth"),
            multiprocessors=stats.get("core_count"),
            clock_khz=stats.get("clock_rate"),
        )
        self._target.context(self._process, index, device=device, api="xla")
        self._index = index
        return device

    def work(self, line: Message, stream: int) -> None:
        """Events of a stream, classified by their details."""
        number = self._target.stream(
            self._process, self._index, stream, device=self._device, name=line.display_name or line.name
        )
        for event in line.events:
            if event.num_occurrences:
                self._target.lost(event.num_occurrences, "aggregated events have no time", "kernel")
                continue
            stats = self._plane.shared_stats(event.metadata_id) | self._plane.values(event.stats)
            row = {
                "start": line.timestamp_ns + event.offset_ps // 1000,
                "duration": event.duration_ps // 1000,
                "device": self._device,
                "context": self._index,
                "stream": number,
                "correlation": _whole(stats.get("correlation_id")),
                "process": self._process,
            }
            self._place(self._plane.event_name(event.metadata_id), row, stats)
            if len(self._rows["kernel"]) >= PIECE:
                self.write()

    def _place(self, name: str, row: dict[str, Any], stats: dict[str, Any]) -> None:
        if "memcpy_details" in stats:
            self._rows["memcpy"].append({**row, **_copy(name, _details(stats["memcpy_details"]))})
        elif "memset_details" in stats:
            found = _details(stats["memset_details"])
            self._rows["memset"].append(
                {
                    **row,
                    "bytes": _whole(found.get("num_bytes", found.get("size"))) or 0,
                    "value": _whole(found.get("value")) or 0,
                    "memory_kind": _memory_kind(found.get("kind")),
                    "asynchronous": found.get("async") == "1",
                }
            )
        elif "memalloc_details" in stats or "memfree_details" in stats:
            self._allocation(row, stats)
        else:
            self._kernel(name, row, stats)

    def _allocation(self, row: dict[str, Any], stats: dict[str, Any]) -> None:
        found = _details(stats.get("memalloc_details") or stats.get("memfree_details"))
        self._rows["memory"].append(
            {
                "time": row["start"],
                "operation": "allocate" if "memalloc_details" in stats else "free",
                "address": _whole(found.get("addr", found.get("address"))) or 0,
                "bytes": _whole(found.get("num_bytes")),
                "kind": _memory_kind(found.get("kind", "device")),
                **{key: row[key] for key in ("device", "context", "stream", "correlation", "process")},
            }
        )

    def _kernel(self, name: str, row: dict[str, Any], stats: dict[str, Any]) -> None:
        for key in _KEPT:
            if key in stats:
                text = json.dumps(stats[key], ensure_ascii=False)
                self._target.attribute("kernel", self._kernels, key, text, self._process)
        self._kernels += 1
        details = stats.get("kernel_details")
        graph = _whole(stats.get("cuda_graph_id"))
        self._rows["kernel"].append(
            {
                **row,
                "name_id": self._target.name(name),
                "shape_id": self._shape(details) if isinstance(details, str) else None,
                "graph": graph if graph and graph < 2**31 else None,
                "graph_level": False,
            }
        )

    def _shape(self, details: str) -> int:
        known = self._shapes.get(details)
        if known is None:
            found = _details(details)
            grid, block = _three(found.get("grid")), _three(found.get("block"))
            if (_whole(found.get("regs")) or 0) > _REGISTERS:
                if not self._unset:
                    self._target.note(
                        f"{self._plane.name}: impossible register counts of kernels, as XLA writes on ROCm for unknown ones: "
                        "registers and static shared memory of these kernels were set to 0"
                    )
                self._unset = True
                for field in ("regs", "static_shared"):
                    found.pop(field, None)
            known = self._shapes[details] = self._target.shape(
                grid_x=grid[0], grid_y=grid[1], grid_z=grid[2], block_x=block[0], block_y=block[1], block_z=block[2],
                registers=_whole(found.get("regs")) or 0, shared_static=_whole(found.get("static_shared")) or 0,
                shared_dynamic=_whole(found.get("dynamic_shared", found.get("group_mem"))) or 0,
                local_per_thread=_whole(found.get("private_mem")) or 0,
            )  # fmt: skip
        return known

    def ranges(self, line: Message) -> None:
        """Events of a derived line: steps, modules, operations."""
        thread = self._target.thread(
            self._process, f"{self._plane.name} {line.name}", f"{self._plane.name} {line.name}"
        )
        for event in line.events:
            if event.num_occurrences:
                continue
            stats = self._plane.values(event.stats)
            self._rows["marker"].append(
                {
                    "start": line.timestamp_ns + event.offset_ps // 1000,
                    "duration": event.duration_ps // 1000,
                    "kind": "start/end",
                    "open": False,
                    "name_id": self._target.name(self._plane.event_name(event.metadata_id)),
                    "domain": line.name,
                    "source": "framework",
                    "attributes": json.dumps(stats, ensure_ascii=False) if stats else None,
                    "thread": thread,
                    "process": self._process,
                }
            )

    def write(self) -> None:
        """Hand the rows over."""
        for table, rows in self._rows.items():
            if rows:
                self._target.add(table, rows)
                rows.clear()


def _details(text: object) -> dict[str, str]:
    return dict(_DETAIL.findall(text)) if isinstance(text, str) else {}


def _copy(name: str, found: dict[str, str]) -> dict[str, Any]:
    """Columns of a copy; its direction is in the name (MemcpyH2D), its memory in the details."""
    direction = re.search(r"([HDPA])(?:to|2)([HDPA])", name)
    kind = f"{direction[1]}to{direction[2]}" if direction else "unknown"
    return {
        "bytes": _whole(found.get("size")) or 0,
        "kind": kind,
        "source_kind": _memory_kind(found.get("kind_src")),
        "destination_kind": _memory_kind(found.get("kind_dst")),
        "asynchronous": found.get("async") == "1",
    }


def _memory_kind(text: str | None) -> str:
    return _MEMORY_KINDS.get(text or "", "unknown")


def _whole(value: str | float | None) -> int | None:
    """An integer, or the value of a numeric string; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return int(value, 0) if re.fullmatch(r"0x[0-9a-fA-F]+|\d{1,18}", value) else None
    return int(value)


def _three(text: str | None) -> tuple[int, int, int]:
    parts = [int(part) for part in (text or "").split(",") if part.isdigit()]
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else (0, 0, 0)
