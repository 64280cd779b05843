"""One page about a program that hung or crashed: verdict, stuck work, its launch, and the host's state."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import warpsight.model
from warpsight.debug import hang_timeline, stuck_launches
from warpsight.errors import WarpsightError
from warpsight.model import StoredTrace
from warpsight.recorder.watch.event import Incident

#: Maximum launches, and last device work, in a report.
_LISTED = 10
#: CUDA's sticky errors: the context is gone after one of them (driver_types.h).
_STICKY = {
    214: "uncorrectable ECC error", 219: "NVLink uncorrectable error", 700: "illegal memory access", 702: "launch timeout",
    709: "context is destroyed", 710: "device-side assert", 714: "hardware stack error", 715: "illegal instruction",
    716: "misaligned address", 717: "invalid address space", 718: "invalid program counter", 719: "launch failure",
    720: "cooperative launch too large", 721: "tensor memory leak", 999: "unknown error",
}  # fmt: skip
Decode = Callable[[Path], dict[str, Any]]


def build(
    event: Incident, decode: Decode | None = None, *, program: list[str] | None = None
) -> dict[str, Any]:
    """The report as JSON values; `decode` turns a core dump into its verdict (`verdict`, `kernels` …).

    Parts that cannot be read are named in `notes`; no error is raised.
    """
    report: dict[str, Any] = {
        "kind": event.kind, "reason": event.reason, "program": program or [],
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "monotonic": event.time, "exit": event.exit or None,
        "suspects": [one.to_json() for one in event.suspects], "evidence": event.evidence,
        "processes": event.processes, "trace": str(event.trace) if event.trace else None,
        "launches": [], "launches_total": 0, "last_work": [], "open_ranges": [], "errors": [], "dumps": [],
        "timeline": None,
        "notes": list(event.notes), "gathered_s": round(event.took_s, 2),
    }  # fmt: skip
    launches: list[stuck_launches.OutstandingLaunch] = []
    if event.trace is not None:
        try:
            with closing(warpsight.model.open(event.trace)) as trace:
                launches = _from_trace(report, trace, event)
        except WarpsightError as error:
            report["notes"].append(f"the trace of the window cannot be read: {error}")
    report["dumps"] = [_dump(one.to_json(), one.path, one.pid, launches, decode) for one in event.dumps]
    report["verdict"] = verdict(report)
    return report


def device_error(trace: StoredTrace) -> dict[str, Any] | None:
    """The first sticky CUDA error returned to the program; None if there was none."""
    codes = ", ".join(map(str, _STICKY))
    rows = []
    for table in ("launch", "api"):
        rows += trace.sql(
            f"SELECT t.start, t.function, t.result, t.thread, p.pid, t.stack FROM {table} t JOIN process p USING (process) "
            f"WHERE t.result IN ({codes}) ORDER BY t.start LIMIT 1"
        ).fetchall()
    if not rows:
        return None
    start, function, result, thread, pid, stack = min(rows)
    frames = stuck_launches.frames_of(trace, [stack]).get(stack, ())
    return {"time": start, "function": function, "code": result, "meaning": _STICKY[result], "thread": thread, "pid": pid,
            "frames": list(frames)}  # fmt: skip


def _from_trace(
    report: dict[str, Any], trace: StoredTrace, event: Incident
) -> list[stuck_launches.OutstandingLaunch]:
    launches = stuck_launches.outstanding(trace)
    suspected = {one.pid for one in event.suspects}
    chosen = [one for one in launches if not suspected or one.pid in suspected]
    recorded = stuck_launches.device_recorded(trace)
    report["launches"] = [
        {**one.to_json(), "before_s": _before(event, one.start)} for one in chosen[:_LISTED]
    ]
    report["launches_total"] = len(chosen)
    report["device_recorded"] = recorded
    report["last_work"] = [
        {"kernel": name, "pid": pid, "ended_before_s": _before(event, end), "duration": duration}
        for name, pid, end, duration in trace.sql(
            "SELECT k.name, p.pid, k.start + k.duration AS stop, k.duration FROM kernel k JOIN process p USING (process) "
            f"WHERE k.start IS NOT NULL ORDER BY stop DESC LIMIT {_LISTED}"
        ).fetchall()
    ]
    report["open_ranges"] = [
        {"range": name, "pid": pid, "thread": thread, "began_before_s": _before(event, start)}
        for name, pid, thread, start in trace.sql(
            "SELECT m.name, p.pid, m.thread, m.start FROM marker m JOIN process p USING (process) WHERE m.open "
            f"ORDER BY m.start LIMIT {_LISTED}"
        ).fetchall()
    ]
    report["timeline"] = hang_timeline.timeline(trace, event.time)
    error = device_error(trace)
    report["errors"] = [error] if error else []
    if not recorded and launches:
        report["notes"].append("with core dumps armed the device's work is not recorded (the driver allows CUPTI or dumps, "
                               "not both): launches are listed from the last wait on")  # fmt: skip
    return launches


def _before(event: Incident, moment: int) -> float:
    return round((event.time - moment) / 1e9, 3)


def _dump(plain: dict[str, Any], path: Path | None, pid: int, launches: list[stuck_launches.OutstandingLaunch],
          decode: Decode | None) -> dict[str, Any]:  # fmt: skip
    out = dict(plain)
    if path is None or decode is None:
        return out
    try:
        core = decode(path)
    except (WarpsightError, OSError, ValueError) as error:
        return {**out, "unreadable": str(error)}
    out["core"] = core
    out["joins"] = [
        {"kernel": kernel.get("kernel"), "demangled": kernel.get("demangled"), "grid_id": kernel.get("grid_id"),
         **stuck_launches.join(launches, pid, str(kernel.get("kernel") or ""), kernel.get("grid"), kernel.get("block"),
                               kernel.get("host_thread")).to_json()}
        for kernel in core.get("kernels", [])
    ]  # fmt: skip
    return out


def verdict(report: dict[str, Any]) -> str:
    """The page in one sentence."""
    for dump in report["dumps"]:
        if text := dump.get("core", {}).get("verdict"):
            return f"{_reason(report)}: {text}"
    if report["errors"]:
        error = report["errors"][0]
        return f"crash: {error['function']} returned {error['code']} ({error['meaning']}) in process {error['pid']}"
    if report["kind"] == "crash":
        return str(report["reason"])
    if report["launches"]:
        first = report["launches"][0]
        what = first["demangled"] or first["kernel"] or first["call"]
        rest = f" and {report['launches_total'] - 1} more after it" if report["launches_total"] > 1 else ""
        return f"{_reason(report)}; the oldest launch that has not completed is {what}{rest}"
    return str(report["reason"])


def _reason(report: dict[str, Any]) -> str:
    names = {"hang": "hang", "crash": "crash", "kernel-timeout": "kernel timeout", "no-data-timeout": "no data",
             "interrupt": "interrupted", "asked": "as asked"}  # fmt: skip
    name = names.get(report["kind"], report["kind"])
    return name if report["kind"] in ("crash",) else f"{name}: {report['reason']}"
