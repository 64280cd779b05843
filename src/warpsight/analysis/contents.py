"""What a trace holds, how it was taken, what it cost and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.analysis.selection import TIMED
from warpsight.trace import store
from warpsight.trace.schema import TABLES

if TYPE_CHECKING:
    from warpsight.trace import Trace

#: Versions of CUPTI with known faults: first and last affected (major, minor), and what a trace of them lacks.
KNOWN_FAULTS: tuple[tuple[tuple[int, int], tuple[int, int], str], ...] = (
    ((12, 4), (12, 4), "CUPTI 12.4 Update 1 delivers no kernel records on some systems"),
    (
        (12, 0),
        (12, 5),
        "CUPTI before 12.6 must not be finalised while CUDA graphs exist; recording only pauses at the end",
    ),
    ((13, 0), (13, 0), "CUPTI 13.0 can crash in its own NVTX support; warpsight does not use it"),
    ((12, 0), (13, 0), "graph ids of CUPTI before 13.1 Update 1 can be wrong after a graph was updated"),
    (
        (12, 0),
        (13, 3),
        "CUPTI before 13.4 Update 1 can report stale kernel names after a module was unloaded",
    ),
)


_DEVICE = (
    "device",
    "name",
    "uuid",
    "pci",
    "memory_bytes",
    "multiprocessors",
    "compute_capability",
    "driver",
    "runtime",
    "host",
)


def contents(trace: Trace) -> dict[str, Any]:
    """Everything `info` shows, as plain data; the JSON of `info --json`."""
    tables = _tables(trace)
    begin, end = _extent(trace)
    kernels = next((t["rows"] for t in tables if t["table"] == "kernel"), 0)
    size = sum(t["bytes"] for t in tables)
    processes = _rows(
        trace, "process", ("process", "pid", "host", "rank", "command", "start", "end", "exit", "settings")
    )
    for process in processes:
        process["settings"] = json.loads(process["settings"]) if process["settings"] else {}
    manifest = trace.manifest
    return {
        "trace": trace.path,
        "warpsight": manifest.get("warpsight"),
        "schema": manifest.get("schema"),
        "begin": begin,
        "duration": None if begin is None or end is None else end - begin,
        "realtime": _realtime(trace, begin),
        "tables": tables,
        "bytes": size,
        "bytes_per_kernel": size / kernels if kernels else None,
        "settings": manifest.get("settings") or {},
        "overhead": manifest.get("overhead") or {},
        "processes": processes,
        "devices": _rows(
            trace,
            "device",
            (
                "device",
                "name",
                "uuid",
                "pci",
                "memory_bytes",
                "multiprocessors",
                "compute_capability",
                "driver",
                "runtime",
                "host",
            ),
        ),
        "clocks": _clocks(trace),
        "loss": _rows(trace, "loss", ("source", "cause", "count", "kind", "severity", "process")),
        "known_faults": _faults(processes),
    }


def _tables(trace: Trace) -> list[dict[str, Any]]:
    out = []
    for name in TABLES:
        parts = [Path(part) for part in store.parts(trace.folder, name)]
        rows = trace.count(name)
        if rows:
            out.append(
                {
                    "table": name,
                    "rows": rows,
                    "bytes": sum(part.stat().st_size for part in parts),
                    "parts": len(parts),
                }
            )
    return out


def _extent(trace: Trace) -> tuple[int | None, int | None]:
    first, last = [], []
    for table, column in TIMED.items():
        length = " + coalesce(duration, 0)" if column == "start" else ""
        low, high = trace.sql(f"SELECT min({column}), max({column}{length}) FROM {table}").fetchall()[0]
        first += [] if low is None else [int(low)]
        last += [] if high is None else [int(high)]
    return min(first, default=None), max(last, default=None)


def _rows(trace: Trace, table: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    quoted = ", ".join(f'"{c}"' for c in columns)
    return [
        dict(zip(columns, row, strict=True)) for row in trace.sql(f"SELECT {quoted} FROM {table}").fetchall()
    ]


def _realtime(trace: Trace, moment: int | None) -> int | None:
    if moment is None:
        return None
    sql = f"SELECT realtime + ({moment} - monotonic) FROM clock ORDER BY abs({moment} - monotonic) LIMIT 1"
    rows = trace.sql(sql).fetchall()
    return int(rows[0][0]) if rows else None


def _clocks(trace: Trace) -> list[dict[str, Any]]:
    """Per device (none: the host): readings, and how far its clock drifted against CLOCK_MONOTONIC, in ppm."""
    sql = """SELECT device, count(*) AS readings, max(uncertainty) AS uncertainty,
             CASE WHEN count(*) < 2 THEN NULL WHEN device IS NULL THEN regr_slope(realtime - monotonic, monotonic)
                  ELSE regr_slope(device_time - monotonic, monotonic) END * 1e6 AS drift_ppm
             FROM clock GROUP BY device ORDER BY device"""
    names = ("device", "readings", "uncertainty", "drift_ppm")
    return [dict(zip(names, row, strict=True)) for row in trace.sql(sql).fetchall()]


def _faults(processes: list[dict[str, Any]]) -> list[str]:
    """Known faults of the CUPTI versions that the processes' recorders reported (setting `cupti`, as major.minor)."""
    found = []
    for process in processes:
        version = _version(process["settings"].get("cupti") or process["settings"].get("cupti_version"))
        if version is not None:
            found += [text for low, high, text in KNOWN_FAULTS if low <= version <= high]
    return list(dict.fromkeys(found))


def _version(value: Any) -> tuple[int, int] | None:
    """`"13.0.85"` and CUPTI's number 130000 (13.0) alike."""
    if isinstance(value, int):
        return value // 10000, value % 10000 // 100
    parts = str(value or "").split(".")
    if len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit():
        return int(parts[0]), int(parts[1])
    return None
