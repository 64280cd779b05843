"""Record kinds whose rows map one to one: a function per kind that translates ids and enumerations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.capture import clock_checks
from warpsight.capture.columns import Nullable, enumerated, zero_is_null
from warpsight.capture.rows import nccl
from warpsight.capture.rows.device import MEMORY_KINDS
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import Batch

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.capture.arena import Arena

Array = npt.NDArray[Any]
_NO_STREAM = 0xFFFFFFFF
_SYNC_KINDS = {
    1: "event",
    2: "stream wait event",
    3: "stream",
    4: "context",
    5: "finish",
    6: "wait for events",
    7: "blocking call",
}
_OPERATIONS = {1: "allocate", 2: "free", 3: "pool create", 4: "pool trim", 5: "pool destroy"}
_CATEGORIES = ("activation", "gradient", "parameter", "temporary", "cached")
#: CUpti_ActivityOverheadKind
_OVERHEADS = {
    1: "driver compiler",
    1 << 16: "buffer flush",
    2 << 16: "instrumentation",
    3 << 16: "resource",
    4 << 16: "runtime triggered module loading",
    5 << 16: "lazy loading",
    6 << 16: "command buffer full",
    7 << 16: "activity buffer request",
    8 << 16: "unified memory initialisation",
}
_COUNTER_SOURCES = {1: "nvml", 2: "gpm", 3: "user", 4: "recorder", 5: "pm sampling"}
_RANGE_KINDS = {1: "kernel", 2: "range"}
_FLOW_KINDS = {1: "wait list", 2: "forward-backward", 3: "user"}
_STATES = {ord(c): c for c in "RSDTZ"}


def _correlation(arena: Arena, batch: Batch) -> Nullable:
    low = batch.rows["correlation"]
    return Nullable(arena.correlations.full_ids(batch.session, low), low == 0)


def _interval(rows: Array) -> dict[str, Array]:
    start = rows["start"].astype(np.int64)
    end = (
        rows["end"].astype(np.int64)
        if "end" in (rows.dtype.names or ())
        else start + rows["duration"].astype(np.int64)
    )
    return {"start": start, "duration": np.maximum(end - start, 0)}


def _sync(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    clock_checks.syncs(arena, rows)
    arena.emit(
        "sync",
        len(rows),
        {
            **_interval(rows),
            "kind": enumerated(rows["type"], _SYNC_KINDS),
            "event": zero_is_null(rows["event"]),
            "event_sync": zero_is_null(rows["event_sync"]),
            "result": rows["result"],
            "device": arena.context_devices(rows["context"]),
            "context": rows["context"],
            "stream": np.where(rows["stream"] == _NO_STREAM, 0, rows["stream"]),
            "correlation": _correlation(arena, batch),
            "process": arena.process_id(),
        },
    )


def _event(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    arena.emit(
        "event",
        len(rows),
        {
            "time": zero_is_null(rows["time"]),
            "event": rows["event"],
            "event_sync": zero_is_null(rows["event_sync"]),
            "device": arena.context_devices(rows["context"]),
            "context": rows["context"],
            "stream": rows["stream"],
            "correlation": _correlation(arena, batch),
            "process": arena.process_id(),
        },
    )


def _memory(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    correlation = _correlation(arena, batch)
    stack = np.array(arena.local.callers(rows["stack"]))
    for window, chosen in arena.correlations.split(batch.session, rows["correlation"]):
        found, _ = window.get(window.own(correlation.values[chosen]))
        stack[chosen] = np.where(
            (stack[chosen] == 0) & (rows["correlation"][chosen] != 0), np.maximum(found, 0), stack[chosen]
        )
    reported = rows["kind"] == 255
    category = rows["category"].astype(np.int32)
    arena.emit(
        "memory",
        len(rows),
        {
            "time": rows["time"],
            "operation": enumerated(rows["operation"], _OPERATIONS),
            "address": rows["address"],
            "bytes": Nullable(rows["bytes"], (rows["bytes"] == 0) & (rows["operation"] >= 2)),
            "kind": enumerated(rows["kind"], {**MEMORY_KINDS, 255: "reported"}),
            "device": arena.devices(rows["device"], none=65535),
            "context": zero_is_null(rows["context"]),
            "stream": Nullable(rows["stream"], reported | (rows["stream"] == _NO_STREAM)),
            "correlation": correlation,
            "pool": zero_is_null(rows["pool"]),
            "pool_size": zero_is_null(rows["pool_size"]),
            "pool_used": Nullable(rows["pool_used"], rows["pool_size"] == 0),
            "allocator": arena.local.texts(rows["allocator"]),
            "tag": arena.local.texts(rows["tag"]),
            "category": _categories(category),
            "stack": zero_is_null(stack),
            # a CUPTI row is written by CUPTI's own thread, which says nothing about who allocated
            "thread": Nullable(batch.thread, ~reported),
            "process": arena.process_id(),
        },
    )


def _categories(values: Array) -> pa.DictionaryArray:
    import pyarrow as pa

    known = (values >= 1) & (values <= len(_CATEGORIES))
    return pa.DictionaryArray.from_arrays(
        pa.array((values - 1).astype(np.int8), mask=~known), list(_CATEGORIES)
    )


def _overhead(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    kinds, places = np.unique(rows["kind"], return_inverse=True)
    names = {i: _OVERHEADS.get(int(kind), f"kind {int(kind)}") for i, kind in enumerate(kinds)}
    arena.emit(
        "overhead",
        len(rows),
        {
            **_interval(rows),
            "kind": enumerated(places, names),
            "thread": zero_is_null(rows["object"]),
            "process": arena.process_id(),
        },
    )


def _counter(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    host = rows["device"] < 0
    device = arena.devices(np.where(host, 0xFFFF, rows["device"]), none=0xFFFF)
    arena.emit(
        "counter",
        len(rows),
        {
            "time": rows["time"],
            "name": _filled(arena.local.texts(rows["name"]), "?"),
            "value": rows["value"],
            "unit": _filled(arena.local.texts(rows["unit"]), "1"),
            "device": device,
            "source": enumerated(rows["source"], _COUNTER_SOURCES),
            "process": arena.known_process(),
        },
        process=arena.known_process(),
    )


def _filled(texts: pa.DictionaryArray, other: str) -> pa.DictionaryArray:
    """Texts with `other` where there is none."""
    return texts.cast("string").fill_null(other).dictionary_encode() if texts.null_count else texts


def _sample(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    for pid in np.unique(rows["pid"]).tolist():
        mine = rows[rows["pid"] == pid]
        process = arena.process_of_pid(pid)
        arena.emit(
            "sample",
            len(mine),
            {
                "time": mine["time"],
                "thread": mine["thread"],
                "stack": zero_is_null(arena.local.stacks(mine["stack"])),
                "state": enumerated(mine["state"], _STATES, "?"),
                "gil": mine["gil"] == 1,
                "process": process,
            },
            process=process,
        )


def _user_event(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    arena.emit(
        "user_event",
        len(rows),
        {
            "start": rows["start"],
            "duration": rows["duration"],
            "name": _filled(arena.local.texts(rows["name"]), ""),
            "kind": _filled(arena.local.texts(rows["kind"]), ""),
            "stack": zero_is_null(arena.local.callers(rows["stack"])),
            "attributes": arena.local.texts(rows["attributes"]),
            "thread": batch.thread,
            "process": arena.process_id(),
        },
    )


def _build(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    arena.emit(
        "build",
        len(rows),
        {
            "start": rows["start"],
            "duration": rows["duration"],
            "program": _filled(arena.local.texts(rows["program"]), "?"),
            "options": arena.local.texts(rows["options"]),
            "result": rows["result"],
            "device": arena.devices(rows["device"]),
            "stack": zero_is_null(arena.local.stacks(rows["stack"])),
            "process": arena.process_id(),
        },
    )


def _flow(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    arena.emit(
        "flow",
        len(rows),
        {
            "from_correlation": rows["from_correlation"],
            "to_correlation": rows["to_correlation"],
            "kind": enumerated(rows["kind"], _FLOW_KINDS),
            "process": arena.process_id(),
        },
    )


def _pc_sample(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    arena.emit(
        "pc_sample",
        len(rows),
        {
            **_interval(rows),
            "name_id": zero_is_null(arena.local.names(rows["name"])),
            "checksum": zero_is_null(rows["checksum"]),
            "pc": rows["pc"],
            "reason": _filled(arena.local.texts(rows["reason"]), "?"),
            "samples": rows["samples"],
            "not_issued": rows["not_issued"],
            "correlation": _correlation(arena, batch),
            "context": rows["context"],
            "device": arena.context_devices(rows["context"]),
            "process": arena.process_id(),
        },
    )


def _instruction_count(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    arena.emit(
        "instruction_count",
        len(rows),
        {
            **_interval(rows),
            "name_id": zero_is_null(arena.local.names(rows["name"])),
            "checksum": zero_is_null(rows["checksum"]),
            "pc": rows["pc"],
            "metric": _filled(arena.local.texts(rows["metric"]), "?"),
            "value": rows["value"],
            "context": rows["context"],
            "device": arena.context_devices(rows["context"]),
            "process": arena.process_id(),
        },
    )


def _range_metric(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    arena.emit(
        "range_metric",
        len(rows),
        {
            **_interval(rows),
            "range": rows["range"],
            "kind": enumerated(rows["kind"], _RANGE_KINDS),
            "name": _filled(arena.local.texts(rows["name"]), "?"),
            "metric": _filled(arena.local.texts(rows["metric"]), "?"),
            "value": rows["value"],
            "passes": rows["passes"],
            "correlation": _correlation(arena, batch),
            "context": rows["context"],
            "device": arena.context_devices(rows["context"]),
            "process": arena.process_id(),
        },
    )


def _pc_window(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    arena.emit(
        "pc_window",
        len(rows),
        {
            **_interval(rows),
            "samples": rows["samples"],
            "dropped": rows["dropped"],
            "unattributed": rows["unattributed"],
            "incomplete": (rows["flags"] & 1) != 0,
            "period": zero_is_null(rows["period"]),
            "cost": rows["cost"],
            "context": rows["context"],
            "device": arena.context_devices(rows["context"]),
            "process": arena.process_id(),
        },
    )


def _loss(arena: Arena, batch: Batch) -> None:
    for row in batch.rows:
        kind = layout.BY_KIND.get(int(row["kind"]))
        told = (int(row["counter"]), int(row["ring"]), int(row["since"]))
        arena.loss.add(
            arena.local.text(int(row["source"])) or "recorder",
            arena.local.text(int(row["cause"])) or "unknown",
            int(row["count"]),
            kind=kind.name.lower() if kind else None,
            severity={1: "note", 2: "lost", 3: "ended"}.get(int(row["severity"]), "lost"),
            time=int(row["time"]) or None,
            start=int(row["start"]) or None,
            end=int(row["end"]) or None,
            told=(arena.name, *told) if told[0] else None,
        )


def _clock(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    none = rows["device"] == 0xFFFFFFFF
    device = arena.devices(np.where(none, 0xFFFF, rows["device"]), none=0xFFFF)
    arena.note_clocks(rows)
    arena.emit(
        "clock",
        len(rows),
        {
            "monotonic": rows["monotonic"],
            "realtime": rows["realtime"],
            "device_time": zero_is_null(rows["device_time"]),
            "device": device,
            "uncertainty": rows["uncertainty"],
            "process": arena.known_process(),
        },
        process=None,
    )


CONVERTERS: dict[str, Callable[[Arena, Batch], None]] = {
    "Sync": _sync,
    "Event": _event,
    "Memory": _memory,
    "Overhead": _overhead,
    "Counter": _counter,
    "Sample": _sample,
    "UserEvent": _user_event,
    "Build": _build,
    "Flow": _flow,
    "PcSample": _pc_sample,
    "PcWindow": _pc_window,
    "InstructionCount": _instruction_count,
    "RangeMetric": _range_metric,
    "Loss": _loss,
    "Clock": _clock,
    "Collective": nccl.collective,
    "CollectivePart": nccl.part,
}
