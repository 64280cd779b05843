"""Record kinds whose rows map one to one: a function per kind that translates ids and enumerations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.capture import clock_checks
from warpsight.capture.columns import Nullable, enumerated, zero_is_null
from warpsight.capture.rows import nccl
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import Batch
from warpsight.model.naming.memory_names import MEMORY_KINDS
from warpsight.model.schema import TABLES, Column, Table

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
_EXTERNAL_KINDS = {1: "unknown", 2: "openacc", 3: "custom 0", 4: "custom 1", 5: "custom 2"}
_FLOW_KINDS = {1: "wait list", 2: "forward-backward", 3: "user"}
_STATES = {ord(c): c for c in "RSDTZ"}


def _correlation(arena: Arena, batch: Batch) -> Nullable:
    low = batch.rows["correlation"]
    return Nullable(arena.correlations.full_ids(batch.session, low), low == 0)


def _columns(arena: Arena, batch: Batch, table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    """A table's columns: the `given` ones, and record fields of the same name converted to the column's type."""
    rows = batch.rows
    fields, names = rows.dtype.names or (), {column.name for column in table.columns}
    # requesting the process's id assigns one, which the launcher's own arena never gets
    values: dict[str, Any] = {} if "process" in given else {"process": arena.process_id()}
    if "duration" in names:
        start = rows["start"].astype(np.int64)
        end = (rows["end"] if "end" in fields else start + rows["duration"].astype(np.int64)).astype(np.int64)
        values |= {"start": start, "duration": np.maximum(end - start, 0)}
    if "name_id" in names:
        values["name_id"] = zero_is_null(arena.local.names(rows["name"]))
    if "correlation" in fields:
        values["correlation"] = _correlation(arena, batch)
    if "context" in fields and "device" not in fields:
        values["device"] = arena.context_devices(rows["context"])
    values |= given
    for column in table.columns:
        if column.name in fields and column.name not in values:
            values[column.name] = _column(arena, column, rows[column.name])
    return values


def _column(arena: Arena, column: Column, values: Array) -> Array | pa.DictionaryArray:
    """Convert a field to a column: string ids become strings, and 0 becomes null in a nullable column."""
    if column.type != "string":
        return zero_is_null(values) if column.nullable else values
    return arena.local.texts(values) if column.nullable else _filled(arena.local.texts(values), "?")


def _emit(arena: Arena, batch: Batch, table: str, **given: Any) -> None:
    """Write a row of a table for each record."""
    arena.emit(table, len(batch.rows), **_columns(arena, batch, TABLES[table], given))


def _filled(texts: pa.DictionaryArray, other: str) -> pa.DictionaryArray:
    """Replace missing strings with `other`."""
    return texts.cast("string").fill_null(other).dictionary_encode() if texts.null_count else texts


def _sync(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    clock_checks.syncs(arena, rows)
    stream = np.where(rows["stream"] == _NO_STREAM, 0, rows["stream"])
    kind = enumerated(rows["type"], _SYNC_KINDS)
    _emit(arena, batch, "sync", kind=kind, result=rows["result"], stream=stream)


def _memory(arena: Arena, batch: Batch) -> None:
    rows, correlation = batch.rows, _correlation(arena, batch)
    stack = np.array(arena.local.callers(rows["stack"]))
    for window, chosen in arena.correlations.split(batch.session, rows["correlation"]):
        found, _ = window.get(window.own(correlation.values[chosen]))
        stack[chosen] = np.where(
            (stack[chosen] == 0) & (rows["correlation"][chosen] != 0), np.maximum(found, 0), stack[chosen]
        )
    reported = rows["kind"] == 255
    _emit(
        arena,
        batch,
        "memory",
        operation=enumerated(rows["operation"], _OPERATIONS),
        bytes=Nullable(rows["bytes"], (rows["bytes"] == 0) & (rows["operation"] >= 2)),
        kind=enumerated(rows["kind"], {**MEMORY_KINDS, 255: "reported"}),
        device=arena.devices(rows["device"], none=65535),
        stream=Nullable(rows["stream"], reported | (rows["stream"] == _NO_STREAM)),
        pool_used=Nullable(rows["pool_used"], rows["pool_size"] == 0),
        category=_categories(rows["category"].astype(np.int32)),
        correlation=correlation,
        stack=zero_is_null(stack),
        # CUPTI's own thread writes CUPTI rows, which does not tell who allocated
        thread=Nullable(batch.thread, ~reported),
    )


def _categories(values: Array) -> pa.DictionaryArray:
    import pyarrow as pa

    known = (values >= 1) & (values <= len(_CATEGORIES))
    return pa.DictionaryArray.from_arrays(
        pa.array((values - 1).astype(np.int8), mask=~known), list(_CATEGORIES)
    )


def _overhead(arena: Arena, batch: Batch) -> None:
    kinds, places = np.unique(batch.rows["kind"], return_inverse=True)
    names = {i: _OVERHEADS.get(int(kind), f"kind {int(kind)}") for i, kind in enumerate(kinds)}
    thread = zero_is_null(batch.rows["object"])
    _emit(arena, batch, "overhead", kind=enumerated(places, names), thread=thread)


def _counter(arena: Arena, batch: Batch) -> None:
    rows, process = batch.rows, arena.known_process()
    given = {
        "unit": _filled(arena.local.texts(rows["unit"]), "1"),
        "device": arena.devices(np.where(rows["device"] < 0, 0xFFFF, rows["device"]), none=0xFFFF),
        "source": enumerated(rows["source"], _COUNTER_SOURCES),
        "process": process,
    }
    arena.emit("counter", len(rows), process, **_columns(arena, batch, TABLES["counter"], given))


def _sample(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    for pid in np.unique(rows["pid"]).tolist():
        mine = rows[rows["pid"] == pid]
        process = arena.process_of_pid(pid)
        arena.emit(
            "sample",
            len(mine),
            process,
            time=mine["time"],
            thread=mine["thread"],
            stack=zero_is_null(arena.local.stacks(mine["stack"])),
            state=enumerated(mine["state"], _STATES, "?"),
            gil=mine["gil"] == 1,
            process=process,
        )


def _user_event(arena: Arena, batch: Batch) -> None:
    rows, texts = batch.rows, arena.local.texts
    stack = zero_is_null(arena.local.callers(rows["stack"]))
    name, kind = _filled(texts(rows["name"]), ""), _filled(texts(rows["kind"]), "")
    _emit(arena, batch, "user_event", name=name, kind=kind, stack=stack, thread=batch.thread)


def _build(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    stack = zero_is_null(arena.local.stacks(rows["stack"]))
    _emit(arena, batch, "build", result=rows["result"], device=arena.devices(rows["device"]), stack=stack)


def _flow(arena: Arena, batch: Batch) -> None:
    _emit(arena, batch, "flow", kind=enumerated(batch.rows["kind"], _FLOW_KINDS))


def _external_id(arena: Arena, batch: Batch) -> None:
    _emit(arena, batch, "external_id", kind=enumerated(batch.rows["kind"], _EXTERNAL_KINDS))


def _range_metric(arena: Arena, batch: Batch) -> None:
    _emit(arena, batch, "range_metric", kind=enumerated(batch.rows["kind"], _RANGE_KINDS))


def _pc_window(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    _emit(arena, batch, "pc_window", incomplete=(rows["flags"] & 1) != 0, cost=rows["cost"])


def _loss(arena: Arena, batch: Batch) -> None:
    for row in batch.rows:
        kind = layout.BY_KIND.get(int(row["kind"]))
        counted = (int(row["counter"]), int(row["ring"]), int(row["since"]))
        arena.loss.add(
            arena.local.text(int(row["source"])) or "recorder",
            arena.local.text(int(row["cause"])) or "unknown",
            int(row["count"]),
            kind=kind.name.lower() if kind else None,
            severity={1: "note", 2: "lost", 3: "ended"}.get(int(row["severity"]), "lost"),
            time=int(row["time"]) or None,
            start=int(row["start"]) or None,
            end=int(row["end"]) or None,
            report=(arena.name, *counted) if counted[0] else None,
        )


def _clock(arena: Arena, batch: Batch) -> None:
    rows = batch.rows
    none = np.where(rows["device"] == 0xFFFFFFFF, 0xFFFF, rows["device"])
    given = {
        "device": arena.devices(none, none=0xFFFF),
        "process": arena.known_process(),
        "uncertainty": rows["uncertainty"],
    }
    arena.note_clocks(rows)
    arena.emit("clock", len(rows), None, **_columns(arena, batch, TABLES["clock"], given))


CONVERTERS: dict[str, Callable[[Arena, Batch], None]] = {
    "Sync": _sync,
    "Event": partial(_emit, table="event"),
    "Memory": _memory,
    "Overhead": _overhead,
    "Counter": _counter,
    "Sample": _sample,
    "UserEvent": _user_event,
    "Build": _build,
    "Flow": _flow,
    "ExternalId": _external_id,
    "PcSample": partial(_emit, table="pc_sample"),
    "PcWindow": _pc_window,
    "InstructionCount": partial(_emit, table="instruction_count"),
    "RangeMetric": _range_metric,
    "Loss": _loss,
    "Clock": _clock,
    "Collective": nccl.collective,
    "CollectivePart": nccl.part,
}
