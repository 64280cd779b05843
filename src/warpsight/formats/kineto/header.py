"""Everything in a Kineto file besides events: devices, versions, the job, and user metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from warpsight.formats.enclosed.writing import MEMBER
from warpsight.formats.kineto.placing import Placing
from warpsight.formats.target import Target

_VERSIONS = (
    "cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version", "hip_driver_version",
    "roctracer_version", "rocprofiler_version", "xpu_runtime_version", "record_shapes", "with_stack", "with_flops",
    "with_modules", "profile_memory",
)  # fmt: skip
_DEVICE = {
    "index": "index",  # not Kineto's own: our exports, where it is not the id
    "totalGlobalMem": "memory_bytes",
    "numSms": "multiprocessors",
    "maxComputeUnits": "multiprocessors",
    "warpSize": "warp_size",
    "regsPerMultiprocessor": "registers_per_multiprocessor",
    "sharedMemPerMultiprocessor": "shared_per_multiprocessor",
    "maxSharedMemoryPerMultiProcessor": "shared_per_multiprocessor",
    "maxThreadsPerMultiprocessor": "threads_per_multiprocessor",
}
#: Keys under which people store environments; those hold passwords and tokens.
_SECRET = frozenset(("env", "environ", "environment", "env_vars"))
_KNOWN = frozenset((*_VERSIONS, "deviceProperties", "distributedInfo", "schemaVersion", "displayTimeUnit", "traceName",
                    "trace_id", "baseTimeNanoseconds", "recorder", MEMBER))  # fmt: skip


def apply(header: Mapping[str, Any], placing: Placing) -> None:
    """Fill in devices, the process and the manifest; values without a column become attributes of the trace."""
    target = placing.target
    _devices(header.get("deviceProperties"), placing)
    versions = {key: header[key] for key in _VERSIONS if key in header}
    columns: dict[str, Any] = {"settings": msgspec.json.encode(versions).decode() if versions else None}
    job = header.get("distributedInfo")
    if isinstance(job, dict):
        columns |= {"rank": _small(job.get("rank")), "world_size": _small(job.get("world_size"))}
    target.process("the process", **columns)
    base = header.get("baseTimeNanoseconds")
    target.source.update(
        {
            "tool": "Kineto (torch.profiler)",
            "version": header.get("schemaVersion"),
            "trace_id": header.get("trace_id"),
            "clock": "wall clock minus base_ns" if isinstance(base, int) else "wall clock",
            "base_ns": base if isinstance(base, int) else None,
            "versions": versions,
        }
    )
    if isinstance(base, int) and 0 <= base < 1 << 62:
        target.add("clock", [{"monotonic": 0, "realtime": base, "process": placing.main}])
    _others(header, target, placing.main)


def _small(value: object) -> int | None:
    return value if isinstance(value, int) and -1 <= value < 1 << 31 else None


def _devices(listed: object, placing: Placing) -> None:
    """Properties of the devices that have rows; of all devices if none has."""
    if not isinstance(listed, list):
        return
    found = {d["id"]: d for d in listed if isinstance(d, dict) and isinstance(d.get("id"), int)}
    used = [number for number in placing.devices if isinstance(number, int)]
    if len(found) == 1 and used and not set(placing.working) & set(found):
        # ROCm numbers the machine's devices in its records and the visible ones in the properties.
        ((number, properties),) = found.items()
        found = dict.fromkeys((number, *used), properties)
        placing.target.note(
            f"the file describes device {number}, but its work names {used}: treated as the same device"
        )
    for number, properties in found.items():
        if not used or number in used:
            placing.device(number)
            placing.target.device((placing.target.scope, number), **_columns(properties))


def _columns(properties: Mapping[str, Any]) -> dict[str, Any]:
    name = str(properties.get("name", ""))
    columns: dict[str, Any] = {}
    for theirs, ours in _DEVICE.items():
        value = properties.get(theirs)
        if isinstance(value, int) and 0 <= value < 1 << (62 if ours == "memory_bytes" else 31):
            columns[ours] = value
    columns["name"] = name
    columns["vendor"], columns["platform"] = _vendor(name, properties)
    major, minor = properties.get("computeMajor"), properties.get("computeMinor")
    if columns["vendor"] == "NVIDIA" and isinstance(major, int) and isinstance(minor, int):
        columns["compute_capability"] = f"{major}.{minor}"
    if isinstance(properties.get("driverVersion"), str):
        columns["driver"] = properties["driverVersion"]
    return columns


def _vendor(name: str, properties: Mapping[str, Any]) -> tuple[str, str]:
    lowered = f"{name} {properties.get('vendor', '')}".lower()
    for word, vendor, platform in (
        ("nvidia", "NVIDIA", "cuda"), ("amd", "AMD", "rocm"), ("radeon", "AMD", "rocm"), ("instinct", "AMD", "rocm"),
        ("intel", "Intel", "xpu"), ("mtia", "Meta", "mtia"), ("tesla", "NVIDIA", "cuda"), ("geforce", "NVIDIA", "cuda"),
    ):  # fmt: skip
        if word in lowered:
            return vendor, platform
    return str(properties.get("vendor", "")), ""


def _others(header: Mapping[str, Any], target: Target, process: int) -> None:
    left_out: set[str] = set()
    kept = _without_secrets(dict(header), left_out)
    assert isinstance(kept, dict)
    for key, value in kept.items():
        if key not in _KNOWN:
            target.attribute("trace", 0, key, msgspec.json.encode(value).decode(), process)
    if left_out:
        target.note(
            f"environment variables in the file's metadata ({', '.join(sorted(left_out))}) were not taken over: "
            "they may hold passwords"
        )


def _without_secrets(value: object, left_out: set[str]) -> object:
    if isinstance(value, dict):
        kept = {}
        for key, inner in value.items():
            if key.lower() in _SECRET:
                left_out.add(key)
            else:
                kept[key] = _without_secrets(inner, left_out)
        return kept
    if isinstance(value, list):
        return [_without_secrets(inner, left_out) for inner in value]
    return value
