"""GPUs from a report's table TARGET_INFO_GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpsight.formats.nsys import report as tables

if TYPE_CHECKING:
    from warpsight.formats.nsys.report import Report

_COLUMNS = {
    "id": tables.INT,
    "name": tables.TEXT,
    "busLocation": tables.TEXT,
    "totalMemory": tables.INT,
    "memoryBandwidth": tables.INT,
    "clockRate": tables.INT,
    "smCount": tables.INT,
    "uuid": tables.TEXT,
    "maxShmemPerSm": tables.INT,
    "maxRegistersPerSm": tables.INT,
    "threadsPerWarp": tables.INT,
    "maxWarpsPerSm": tables.INT,
    "maxBlocksPerSm": tables.INT,
    "computeMajor": tables.INT,
    "computeMinor": tables.INT,
}
_KEPT = {
    "name": "name",
    "totalMemory": "memory_bytes",
    "memoryBandwidth": "memory_bandwidth",
    "smCount": "multiprocessors",
    "maxShmemPerSm": "shared_per_multiprocessor",
    "maxRegistersPerSm": "registers_per_multiprocessor",
    "threadsPerWarp": "warp_size",
    "maxBlocksPerSm": "blocks_per_multiprocessor",
}


def cards(report: Report) -> dict[int, dict[str, Any]]:
    """Columns of table device by Nsight's number of the GPU."""
    driver, runtime = _versions(report)
    found: dict[int, dict[str, Any]] = {}
    for row in report.rows("TARGET_INFO_GPU", _COLUMNS).data.to_pylist():
        card = {ours: row[theirs] for theirs, ours in _KEPT.items() if row[theirs]}
        if row["uuid"]:
            card["uuid"] = row["uuid"] if row["uuid"].startswith(("GPU-", "MIG-")) else f"GPU-{row['uuid']}"
        if row["busLocation"]:
            card["pci"] = row["busLocation"].lower()
        if row["clockRate"]:
            card["clock_khz"] = row["clockRate"] // 1000  # Hz
        if row["computeMajor"] is not None:
            card["compute_capability"] = f"{row['computeMajor']}.{row['computeMinor'] or 0}"
        if row["maxWarpsPerSm"] and row["threadsPerWarp"]:
            card["threads_per_multiprocessor"] = row["maxWarpsPerSm"] * row["threadsPerWarp"]
        found[row["id"]] = {**card, "driver": driver, "runtime": runtime}
    return found


def _versions(report: Report) -> tuple[str | None, str | None]:
    rows = report.rows("TARGET_INFO_SYSTEM_ENV", {"name": tables.TEXT, "value": tables.TEXT})
    values = {row["name"]: row["value"] for row in rows.data.to_pylist()}
    cuda = values.get("CudaDriverVersion")
    runtime = f"CUDA {int(cuda) // 1000}.{int(cuda) % 1000 // 10}" if cuda and cuda.isdigit() else None
    return values.get("NvDriverVersion"), runtime
