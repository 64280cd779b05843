"""How busy the devices were: unions of busy time per device, stream and kind, concurrency, and the course over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result, with_units
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION, COPY, KERNEL, KINDS, SET, Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

_ALL = Rows()
#: Default number of windows in :func:`breakdown`.
WINDOWS = 50


def utilization(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Busy time and utilization (0 to 1) per device, per stream and per kind of work.

    Busy is the union of the intervals in which work ran, so what overlaps counts once and utilization never passes 1.
    The window is the requested time, else from the first start to the last end of any device work in the trace.

    Returns:
        Tables `devices`, `kinds` (per device) and `streams`, times in ns.
    """
    work = device_work.load(trace, rows)
    names = device_names(trace)
    devices: list[dict[str, Any]] = []
    kinds: list[dict[str, Any]] = []
    for device, index in work.per_device():
        busy = work.of_kind(among=index).total
        devices.append({**_device(device, names), "rows": len(index), "window": work.window, "busy": busy,
                        "idle": work.window - busy, "utilization": share(busy, work.window)})  # fmt: skip
        for kind, name in enumerate(KINDS):
            chosen = index[work.kind[index] == kind]
            busy = work.of_kind(among=chosen).total
            kinds.append({**_device(device, names), "kind": name, "rows": len(chosen), "busy": busy,
                          "utilization": share(busy, work.window)})  # fmt: skip
    tables = {
        "devices": _table(devices, (*_DEVICE, "rows", "window", "busy", "idle", "utilization")),
        "kinds": _table(kinds, (*_DEVICE, "kind", "rows", "busy", "utilization")),
        "streams": _streams(work),
    }
    return Result(tables, doubts(work) + nothing(work))


def concurrency(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """For each device, how long exactly k pieces of work ran at once, k from 0; zero-length work never runs.

    Returns:
        Table `concurrency` with `depth`, `time` (ns) and `share` of the window; the times of a device add up to the window.
        Table `devices` with the greatest depth and the mean depth while busy.
    """
    work = device_work.load(trace, rows)
    names = device_names(trace)
    steps: list[dict[str, Any]] = []
    devices: list[dict[str, Any]] = []
    for device, index in work.per_device():
        depth, time = intervals.time_at_depth(work.start[index], work.end[index])
        busy = int(time.sum())
        depths, times = [0, *depth.tolist()], [work.window - busy, *time.tolist()]
        steps += [{**_device(device, names), "depth": d, "time": t, "share": share(t, work.window)}
                  for d, t in zip(depths, times, strict=True)]  # fmt: skip
        devices.append({**_device(device, names), "deepest": int(depth.max(initial=0)), "busy": busy,
                        "mean_depth": share(int((depth * time).sum()), busy)})  # fmt: skip
    tables = {
        "concurrency": _table(steps, (*_DEVICE, "depth", "time", "share")),
        "devices": _table(devices, (*_DEVICE, "deepest", "busy", "mean_depth")),
    }
    return Result(tables, doubts(work) + nothing(work))


def breakdown(
    trace: StoredTrace, rows: Rows = _ALL, *, windows: int | None = None, width: int | None = None
) -> Result:
    """Time of each device by activity in a number of equal windows, or in windows of `width` ns.

    Columns compute, communication, copy and idle share a window out and add up to its length exactly: `compute` is time
    in which a kernel ran, `communication` time in which a communication kernel but no other kernel ran (exposed),
    `copy` time in which only copies and sets ran. Column `overlap` is time in which a kernel ran beside communication or
    a copy; it is part of `compute`.

    Returns:
        Table `breakdown`: device, begin, width and these times in ns, and `utilization`.
    """
    work = device_work.load(trace, rows)
    edges = intervals.windows(work.begin, work.finish, windows or (None if width else WINDOWS), width)
    begin, end = edges[:-1], edges[1:]
    names = device_names(trace)
    parts = []
    for device, index in work.per_device():
        compute, talk, copy = (
            work.of_kind(*kinds, among=index) for kinds in ((KERNEL,), (COMMUNICATION,), (COPY, SET))
        )
        busy = intervals.coverage(intervals.merged(compute, talk, copy), begin, end)
        computes = intervals.coverage(compute, begin, end)
        talks = intervals.coverage(intervals.merged(compute, talk), begin, end) - computes
        beside = intervals.intersection(compute, intervals.merged(talk, copy))
        parts.append(pa.table({
            "device": pa.array([device] * len(begin), pa.int16()), "name": [names.get(device, "")] * len(begin),
            "begin": begin, "width": end - begin, "compute": computes, "communication": talks,
            "copy": busy - computes - talks, "idle": end - begin - busy,
            "overlap": intervals.coverage(beside, begin, end), "utilization": busy / np.maximum(end - begin, 1),
        }))  # fmt: skip
    columns = ("begin", "width", "compute", "communication", "copy", "idle", "overlap", "utilization")
    table = pa.concat_tables(parts) if parts else _table([], _DEVICE + columns)
    return Result({"breakdown": with_units(table, **_NS)}, doubts(work) + nothing(work))


def share(part: int, whole: int) -> float:
    """Part / whole, 0 for an empty whole."""
    return part / whole if whole > 0 else 0.0


def device_names(trace: StoredTrace) -> dict[int | None, str]:
    """Names of the devices by id, without the unknown device (None)."""
    return dict(trace.sql("SELECT device, name FROM device ORDER BY device").fetchall())


def nothing(work: Work) -> tuple[Finding, ...]:
    """The finding that there is nothing to analyze, if so."""
    if len(work):
        return ()
    return (Finding("note", "the selection has no kernel, copy or set with times"),)


_DEVICE = ("device", "name")
_NS = dict.fromkeys(
    ("window", "busy", "idle", "time", "begin", "width", "compute", "communication", "copy", "overlap"), "ns"
)
_TYPES = {"device": pa.int16(), "name": pa.string(), "kind": pa.string(), "utilization": pa.float64(), "share": pa.float64(),
          "mean_depth": pa.float64(), "stream_name": pa.string()}  # fmt: skip


def _device(device: int | None, names: dict[int | None, str]) -> dict[str, Any]:
    return {"device": device, "name": names.get(device, "")}


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pa.Table:
    schema = pa.schema([pa.field(c, _TYPES.get(c, pa.int64())) for c in columns])
    return with_units(pa.Table.from_pylist(rows, schema), **_NS)


def _streams(work: Work) -> pa.Table:
    found: list[dict[str, Any]] = []
    for queue, index in work.per_queue():
        busy = work.of_kind(among=index).total
        found.append({"process": queue.process, "device": queue.device, "context": queue.context, "stream": queue.stream,
                      "stream_name": queue.name, "rows": len(index), "busy": busy,
                      "utilization": share(busy, work.window)})  # fmt: skip
    found.sort(key=lambda row: -row["busy"])
    columns = ("process", "device", "context", "stream", "stream_name", "rows", "busy", "utilization")
    return _table(found, columns)
