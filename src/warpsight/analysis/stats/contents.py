"""What a trace holds, how it was recorded, what recording cost, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.machine.cupti import known_problems
from warpsight.model.schema import TABLES
from warpsight.model.selection import TIMED
from warpsight.model.storage import store

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Uncertainty of a clock reading that states none (ns).
_UNKNOWN_UNCERTAINTY = 1_000

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


def contents(trace: StoredTrace) -> dict[str, Any]:
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
    devices = _rows(trace, "device", _DEVICE)
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
        "devices": devices,
        "clocks": _clocks(trace),
        "loss": _rows(trace, "loss", ("source", "cause", "count", "kind", "severity", "process")),
        "known_faults": _faults(devices),
    }


def _tables(trace: StoredTrace) -> list[dict[str, Any]]:
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


def _extent(trace: StoredTrace) -> tuple[int | None, int | None]:
    first, last = (
        [moment for moment in map(ask, TIMED, TIMED.values()) if moment is not None]
        for ask in (trace.least, trace.latest)
    )
    return min(first, default=None), max(last, default=None)


def _rows(trace: StoredTrace, table: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    quoted = ", ".join(f'"{c}"' for c in columns)
    return [
        dict(zip(columns, row, strict=True)) for row in trace.sql(f"SELECT {quoted} FROM {table}").fetchall()
    ]


def _realtime(trace: StoredTrace, moment: int | None) -> int | None:
    if moment is None:
        return None
    sql = f"SELECT realtime + ({moment} - monotonic) FROM clock ORDER BY abs({moment} - monotonic) LIMIT 1"
    rows = trace.sql(sql).fetchall()
    return int(rows[0][0]) if rows else None


def _clocks(trace: StoredTrace) -> list[dict[str, Any]]:
    """Per device (none: the host): readings, and how far its clock drifted against CLOCK_MONOTONIC, in ppm.

    No drift is given that the readings' uncertainty could explain: over 50 ms, 10 µs at both ends look like 400 ppm.
    """
    sql = """SELECT device, count(*) AS readings, max(uncertainty) AS uncertainty,
             CASE WHEN count(*) < 2 THEN NULL WHEN device IS NULL THEN regr_slope(realtime - monotonic, monotonic)
                  ELSE regr_slope(device_time - monotonic, monotonic) END * 1e6 AS drift_ppm,
             max(monotonic) - min(monotonic) AS span
             FROM clock GROUP BY device ORDER BY device"""
    out = []
    for device, readings, uncertainty, drift, span in trace.sql(sql).fetchall():
        doubt = 2e6 * (_UNKNOWN_UNCERTAINTY if uncertainty is None else uncertainty) / span if span else None
        known = drift is not None and doubt is not None and abs(drift) > doubt
        out.append({
            "device": device, "readings": readings, "uncertainty": uncertainty,
            "drift_ppm": round(drift, 2) if known else None,
        })  # fmt: skip
    return out


def _faults(devices: list[dict[str, Any]]) -> list[str]:
    """What is known to be wrong with the CUPTI that recorded: a device's `runtime` is "CUPTI 130001"."""
    versions = {
        d["runtime"].removeprefix("CUPTI ") for d in devices if str(d["runtime"]).startswith("CUPTI ")
    }
    return [
        f"CUPTI {version}: {text}"
        for version in sorted(versions)
        if version.isdigit()
        for text in known_problems(int(version))
    ]
