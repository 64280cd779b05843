"""Work of the device: kernels, copies, fills, waits, recorded events and collectives as columns of their tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from warpsight.formats.kineto.columns import constant
from warpsight.formats.kineto.events import NO_ARGS, Event, MoreArgs
from warpsight.formats.kineto.placing import Placing

Columns = dict[str, Any]
_MEMCPY = re.compile(r"^Mem(?:cpy|ory copy)\s+(\S+)\s*(?:\((.+?) -> (.+?)\))?")
_MEMSET = re.compile(r"^Memset\s*\((.+?)\)")
_KINDS = {"HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA"}
_MEMORY = {
    "pageable": "pageable",
    "pinned": "pinned",
    "device": "device",
    "array": "array",
    "managed": "managed",
    "device static": "device static",
    "managed static": "managed static",
}
_SYNC = {
    "Event Sync": "event",
    "Stream Wait Event": "stream wait event",
    "Stream Sync": "stream",
    "Context Sync": "context",
}
_OPERATIONS = {
    "allreduce": "all-reduce",
    "allreduce_coalesced": "all-reduce",
    "allgather": "all-gather",
    "_allgather_base": "all-gather",
    "allgather_into_tensor_coalesced": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "_reduce_scatter_base": "reduce-scatter",
    "reduce_scatter_tensor_coalesced": "reduce-scatter",
    "all_to_all": "all-to-all",
    "all_to_allv": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "receive",
    "barrier": "barrier",
}
_ITEM_BYTES = {
    "Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Int": 4, "Long": 8, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
    "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Float8_e4m3fnuz": 1, "Float8_e5m2fnuz": 1, "ComplexFloat": 8,
    "ComplexDouble": 16,
}  # fmt: skip


def number(value: Any) -> int | None:
    """An integer that may stand there as text."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return None if value is None else int(value)


def _graph(events: Sequence[Event]) -> Columns:
    args = [e.args or NO_ARGS for e in events]
    return {"graph": [a.graph or None for a in args], "graph_node": [a.graph_node or None for a in args]}


def _correlation(events: Sequence[Event]) -> list[int | None]:
    return [None if e.args is None else e.args.correlation for e in events]


def kernels(events: Sequence[Event], placing: Placing) -> Columns:
    """Columns of table kernel but the times."""
    args = [e.args or NO_ARGS for e in events]
    return {
        "name_id": placing.names(events),
        "shape_id": [placing.shape(a.grid, a.block, a.registers, a.shared) for a in args],
        **placing.streams(events),
        "correlation": [a.correlation for a in args],
        **_graph(events),
        "graph_level": constant(False, len(events)),
        "queued": [a.queued or None for a in args],
    }


def memcpys(events: Sequence[Event], placing: Placing) -> Columns:
    """Columns of table memcpy but the times; peer devices by the number in the file."""
    parsed = [_copy(e.name) for e in events]
    args = [e.args or NO_ARGS for e in events]
    peers = [(getattr(a, "from_device", None), getattr(a, "to_device", None)) for a in args]
    where = placing.streams(_in_device(events))
    return {
        "bytes": [number(a.bytes) or 0 for a in args],
        "kind": [p[0] for p in parsed],
        "source_kind": [p[1] for p in parsed],
        "destination_kind": [p[2] for p in parsed],
        "asynchronous": constant(True, len(events)),
        "source_device": [None if a is None else placing.device(a) for a, _ in peers],
        "destination_device": [None if b is None else placing.device(b) for _, b in peers],
        **where,
        "correlation": [a.correlation for a in args],
        **_graph(events),
    }


def _in_device(events: Sequence[Event]) -> Sequence[Event]:
    """Peer copies name their device `inDevice`."""
    for e in events:
        inner = getattr(e.args, "in_device", None)
        if e.args is not None and inner is not None and e.args.device is None:
            e.args.device, e.args.context = inner, getattr(e.args, "in_context", None)
    return events


def _copy(name: str) -> tuple[str, str, str]:
    found = _MEMCPY.match(name)
    if found is None:
        return "unknown", "unknown", "unknown"
    kind, source, destination = found.groups()
    kind = {"HostToDevice": "HtoD", "DeviceToHost": "DtoH", "DeviceToDevice": "DtoD"}.get(kind, kind)
    memory = [_MEMORY.get((m or "").lower(), "unknown") for m in (source, destination)]
    return (kind if kind in _KINDS else "unknown", *memory)  # type: ignore[return-value]


def memsets(events: Sequence[Event], placing: Placing) -> Columns:
    """Columns of table memset but the times; Kineto does not tell the value."""
    found = [_MEMSET.match(e.name) for e in events]
    return {
        "bytes": [number((e.args or NO_ARGS).bytes) or 0 for e in events],
        "value": constant(0, len(events)),
        "memory_kind": [_MEMORY.get(f[1].lower(), "unknown") if f else "unknown" for f in found],
        "asynchronous": constant(True, len(events)),
        **placing.streams(events),
        "correlation": _correlation(events),
        **_graph(events),
    }


def syncs(events: Sequence[Event], placing: Placing) -> Columns:
    """Columns of table sync but the times; `event_sync` is the correlation of the record that is waited for."""
    args = [e.args or NO_ARGS for e in events]
    kinds = [getattr(a, "sync_kind", None) or e.name for a, e in zip(args, events, strict=True)]
    return {
        "kind": [_SYNC.get(k, k) for k in kinds],
        "event": [getattr(a, "wait_event", None) for a in args],
        "event_sync": [getattr(a, "wait_correlation", None) for a in args],
        **placing.streams(events),
        "correlation": [a.correlation for a in args],
    }


def recorded(events: Sequence[Event], placing: Placing) -> Columns:
    """Columns of table event but the time."""
    args = [e.args or NO_ARGS for e in events]
    return {
        "event": [getattr(a, "event_id", None) or 0 for a in args],
        "event_sync": [a.correlation for a in args],
        **placing.streams(events),
        "correlation": [a.correlation for a in args],
    }


def collectives(events: Sequence[Event]) -> tuple[Columns, list[int]]:
    """Columns of table collective but the times, and which events they are: kernels with a collective's arguments."""
    rows = [i for i, e in enumerate(events) if isinstance(e.args, MoreArgs) and e.args.collective]
    args: list[Any] = [events[i].args for i in rows]
    return {
        "operation": [_OPERATIONS.get(a.collective, a.collective) for a in args],
        "bytes": [_bytes(a) for a in args],
        "dtype": [a.dtype for a in args],
        "ranks": [a.group_size for a in args],
        "group": [_text(a.group_name) for a in args],
        "correlation": [a.correlation for a in args],
    }, rows


def _bytes(args: Any) -> int | None:
    item = _ITEM_BYTES.get(args.dtype or "")
    elements = max(args.in_elements or 0, args.out_elements or 0)
    return None if item is None or not elements else elements * item


def _text(raw: Any) -> str | None:
    text = bytes(raw).decode()
    return text.strip('"') or None


_COLLECTIVE_EXTRAS = {
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "in_split": "In split size",
    "out_split": "Out split size",
    "group_description": "Process Group Description",
    "group_ranks": "Process Group Ranks",
    "source_rank": "Src Rank",
    "destination_rank": "Dst Rank",
    "collective_sequence": "Seq",
}


def collective_attributes(event: Event) -> dict[str, str]:
    """What a collective's arguments hold beside the columns, as JSON."""
    found = {}
    for field, key in _COLLECTIVE_EXTRAS.items():
        value = getattr(event.args, field, None)
        text = str(value) if isinstance(value, int) else bytes(value or b"").decode()
        if text:
            found[key] = text
    return found
