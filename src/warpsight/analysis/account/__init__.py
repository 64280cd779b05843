"""Why the devices were idle: every gap with one cause, and what shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from warpsight.analysis.account import causes, evidence, host
from warpsight.analysis.account.causes import CAUSES, Attribution
from warpsight.analysis.account.find import PLACES, Gaps, find
from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.stats.utilization import nothing, share
from warpsight.model import calls
from warpsight.model import work as device_work
from warpsight.model.selection import Rows
from warpsight.model.work import Work

if TYPE_CHECKING:
    from warpsight.model import Trace

_ALL = Rows()
#: Gaps whose evidence is written out.
TOP = 20


def gaps(trace: Trace, rows: Rows = _ALL, *, top: int = TOP) -> Result:
    """Every idle gap of every device with its one cause; the gaps of a device add up to its idle time exactly.

    Causes: `python` (the launching thread ran Python, as samples show), `host` (busy between two calls, no samples),
    `blocked` (it did not run), `sync` (it waited for the device), `copy` (it was in a copy call), `api` (in another call),
    `wait` (the stream waited for an event), `launch` (launch latency), `profiler` (the profiler's own work), `unknown`.
    How a gap's time is shared out among them is defined in :mod:`warpsight.analysis.account.causes`.

    Returns:
        Table `causes`: device, cause, gaps, time (ns), share of the device's idle time, the part of the time in gaps that
        began while the launching thread waited for the device, the longest gap. Table `top`: the longest gaps with their
        evidence as text. Table `frames`: where the host was, by sampled frame. Table `between`: pairs of launch stacks with
        the time of the gaps between them that no sample explains. Table `gaps`: all of them, by device and begin, with the
        shares of their time. Table `devices`: window, idle, gaps.
    """
    work = device_work.load(trace, rows)
    issued, call = calls.of_work(trace, work, api=True)
    found = find(work)
    threads = host.load(trace, issued, sorted({queue.process for queue in work.queues}))
    why = causes.attribute(trace, work, found, issued, call, threads)
    length = found.end - found.begin
    longest = _longest(length, top)
    tables = {
        "causes": _causes(found, why, length),
        "top": table(
            evidence.COLUMNS, evidence.explained(trace, work, found, why, issued, call, longest.tolist())
        ),
        "frames": table(evidence.FRAMES, evidence.frames(trace, found, why, length)),
        "between": table(evidence.BETWEEN, evidence.between(trace, found, why, issued, call, length)),
        "gaps": _all(found, why, length),
        "devices": _devices(work, found, length),
    }
    return Result(tables, doubts(work) + nothing(work) + _unexplained(length, why))


def _longest(length: Any, top: int) -> Any:
    """Indices of the longest gaps, the longest first, of equal ones the earliest first."""
    near = np.arange(len(length))
    if 0 < top < len(length):  # of a million gaps only the candidates are sorted
        near = np.flatnonzero(length >= np.partition(length, len(length) - top)[len(length) - top])
    return near[np.argsort(-length[near], kind="stable")[:top]]


def _causes(found: Gaps, why: Attribution, length: Any) -> pa.Table:
    rows: list[dict[str, Any]] = []
    code = found.device.astype(np.int64) * len(CAUSES) + why.cause
    for number, index in enumerate(device_work.split(code, len(found.devices) * len(CAUSES))):
        if not len(index):
            continue
        own, after_sync = length[index], why.after_sync[index]
        device = number // len(CAUSES)
        rows.append({"device": found.devices[device], "cause": CAUSES[number % len(CAUSES)], "gaps": len(index),
                     "time": int(own.sum()), "after_sync": int(own[after_sync].sum()), "longest": int(own.max())})  # fmt: skip
    idle: dict[int | None, int] = {}
    for row in rows:
        idle[row["device"]] = idle.get(row["device"], 0) + row["time"]
    for row in rows:
        row["share"] = share(row["time"], idle[row["device"]])
    rows.sort(key=lambda row: -row["time"])
    spec = "device:int16 cause:string gaps:int64 time:int64:ns share:float64 after_sync:int64:ns longest:int64:ns"
    return table(spec, rows)


def _devices(work: Work, found: Gaps, length: Any) -> pa.Table:
    rows = [
        {
            "device": found.devices[number],
            "window": work.window,
            "idle": int(length[index].sum()),
            "gaps": len(index),
        }
        for number, index in enumerate(device_work.split(found.device, len(found.devices)))
    ]
    return table("device:int16 window:int64:ns idle:int64:ns gaps:int64", rows)


def _all(found: Gaps, why: Attribution, length: Any) -> pa.Table:
    """Every gap as a row, without a Python object per gap: causes and places are dictionary-coded."""
    ns = {"unit": "ns"}
    columns: dict[str, Any] = {
        "device": pa.array(found.devices, pa.int16()).take(pa.array(found.device)),
        "begin": found.begin,
        "duration": length,
        "cause": pa.DictionaryArray.from_arrays(pa.array(why.cause), list(CAUSES)),
        "place": pa.DictionaryArray.from_arrays(pa.array(found.place, pa.int8()), list(PLACES)),
        "after_sync": why.after_sync,
        "process": why.process.astype(np.int32),
        "thread": why.thread.astype(np.int32),
        "samples": why.samples,
        "stack": why.frame_stack,
    }
    shares = {f"{name}_time": values for name, values in why.parts.items()}
    columns |= shares
    timed = {"begin", "duration", *shares}
    arrays = [pa.array(values) if isinstance(values, np.ndarray) else values for values in columns.values()]
    fields = [
        pa.field(n, a.type, metadata=ns if n in timed else None) for n, a in zip(columns, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _unexplained(length: Any, why: Attribution) -> tuple[Finding, ...]:
    time, idle = int(length[why.cause == causes.UNKNOWN].sum()), int(length.sum())
    if not time:
        return ()
    text = f"nothing in the trace tells the cause of {share(time, idle):.0%} of the idle time: no launch call, wait or sample"
    return (Finding("note", text, {"time": time, "idle": idle}),)


__all__ = ["CAUSES", "PLACES", "gaps"]
