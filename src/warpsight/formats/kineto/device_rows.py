"""Work of the device: kernels, copies, fills, waits, recorded events and collectives as columns of their tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.formats.kineto.columns import constant
from warpsight.formats.kineto.group import EventGroup, integer, json_text, text, value
from warpsight.formats.kineto.placing import Placing, is_triple
from warpsight.model import arrow
from warpsight.model.naming.memory_names import MEMCPY_KINDS, MEMORY_KINDS

Columns = dict[str, Any]
_MEMCPY = re.compile(r"^Mem(?:cpy|ory copy)\s+(\S+)\s*(?:\((.+?) -> (.+?)\))?")
_MEMSET = re.compile(r"^Memset\s*\((.+?)\)")
_MEMORY = set(MEMORY_KINDS.values())
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


#: Members of `args` that have a column, that Kineto derives from others, or that are lost (see the format's page).
KNOWN = frozenset((
    ".ph", ".cat", ".name", ".pid", ".tid", ".ts", ".dur", ".id", ".bp", ".s", ".args",
    "External id", "Record function id", "Ev Idx", "Concrete Inputs", "Input type", "Input Strides", "Input Dims", "finished",
    "Sequence number", "Fwd thread id", "Call stack", "Module Hierarchy", "Backend", "Python parent id", "Python id",
    "Python module id", "Python thread", "Total Reserved", "Total Allocated", "Bytes", "Addr", "Device Id", "Device Type",
    "kernel", "cbid", "cid", "queued", "device", "context", "stream", "correlation", "kind", "bytes", "memory bandwidth (GB/s)",
    "registers per thread", "shared memory", "blocks per SM", "warps per SM", "grid", "block", "est. achieved occupancy %",
    "occupancy", "graph id", "graph node id", "Op count", "op_count", "name", "labels", "sort_index", "hsa_queue", "priority",
    "channel", "channel_type", "src", "dst", "ptr", "cuda_sync_kind", "wait_on_stream", "wait_on_cuda_event_record_corr_id",
    "wait_on_cuda_event_id", "event_id", "fromDevice", "inDevice", "toDevice", "fromContext", "inContext", "toContext",
    "Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size", "In split size", "Out split size",
    "Process Group Name", "Process Group Description", "Process Group Ranks", "Src Rank", "Dst Rank", "Seq",
    "Global rank start", "Global rank stride", "external id", "external ts",
))  # fmt: skip


def _is_integer(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


#: Required types of fields with columns; other values become attributes. Columns parsed as numbers are not listed.
TYPES: dict[str, Callable[[Any], bool]] = {
    ".name": lambda found: isinstance(found, str),
    **dict.fromkeys(
        ("device", "context", "stream", "fromDevice", "inDevice", "inContext", "toDevice", "registers per thread",
         "shared memory", "Device Type", "Device Id"), _is_integer,
    ),
    "bytes": lambda found: _is_integer(found) or number(b'"%s"' % str(found).encode()) is not None,
    **dict.fromkeys(("grid", "block"), is_triple),
}  # fmt: skip


def number(raw: bytes | None) -> int | None:
    """An integer, possibly written as a string."""
    found = value(raw)
    if isinstance(found, str):
        try:
            return int(found)
        except ValueError:
            return None
    return found if isinstance(found, int) else None


def _some(column: pa.Array) -> pa.Array:
    """A column in which 0 means null."""
    return arrow.if_else(arrow.equal(column, 0), pa.scalar(None, column.type), column)


def _graph(group: EventGroup) -> Columns:
    if "graph id" not in group and "graph node id" not in group:
        return {}
    return {
        "graph": _some(arrow.cast(group.integers("graph id"), pa.int32())),
        "graph_node": _some(group.integers("graph node id")),
    }


def kernels(group: EventGroup, placing: Placing) -> Columns:
    """Columns of table kernel except the times."""
    return {
        "name_id": placing.names(group),
        "shape_id": placing.shapes(group),
        **placing.streams(group),
        "correlation": group.integers("correlation"),
        **_graph(group),
        "graph_level": constant(False, group.rows),
        "queued": _some(group.integers("queued")),
    }


def memcpys(group: EventGroup, placing: Placing) -> Columns:
    """Columns of table memcpy except the times; peer devices by the number in the file."""
    codes, names = group.codes(".name")
    parsed = [_copy(text(raw) or "") for raw in names] + [_copy("")]
    kinds = [arrow.take(pa.array([p[i] for p in parsed]), pa.array(codes % len(parsed))) for i in range(3)]

    def peer(raw: bytes | None) -> int | None:
        found = integer(raw)
        return None if found is None else placing.device(found)

    return {
        "bytes": group.mapped(lambda raw: number(raw) or 0, pa.int64(), "bytes"),
        "kind": kinds[0],
        "source_kind": kinds[1],
        "destination_kind": kinds[2],
        "asynchronous": constant(True, group.rows),
        "source_device": group.mapped(peer, pa.int16(), "fromDevice"),
        "destination_device": group.mapped(peer, pa.int16(), "toDevice"),
        "source_address": group.mapped(_address, pa.uint64(), "source address"),
        "destination_address": group.mapped(_address, pa.uint64(), "destination address"),
        **placing.streams(group, "inDevice", "inContext"),
        "correlation": group.integers("correlation"),
        **_graph(group),
    }


def _copy(name: str) -> tuple[str, str, str]:
    found = _MEMCPY.match(name)
    if found is None:
        return "unknown", "unknown", "unknown"
    kind, source, destination = found.groups()
    kind = {"HostToDevice": "HtoD", "DeviceToHost": "DtoH", "DeviceToDevice": "DtoD"}.get(kind, kind)
    memory = [_memory(source), _memory(destination)]
    return (kind if kind in MEMCPY_KINDS.values() else "unknown", *memory)  # type: ignore[return-value]


def _memory(name: str | None) -> str:
    known = (name or "").lower()
    return known if known in _MEMORY else "unknown"


def _address(raw: bytes | None) -> int | None:
    """An address from our own export; Kineto itself has none for copies and fills."""
    found = integer(raw)
    return found if found is not None and 0 < found < 1 << 64 else None


def memsets(group: EventGroup, placing: Placing) -> Columns:
    """Columns of table memset except the times; Kineto does not record the value."""

    def memory_kind(raw: bytes | None) -> str:
        found = _MEMSET.match(text(raw) or "")
        return _memory(found[1]) if found else "unknown"

    return {
        "bytes": group.mapped(lambda raw: number(raw) or 0, pa.int64(), "bytes"),
        "value": constant(0, group.rows),
        "memory_kind": group.mapped(memory_kind, pa.string(), ".name"),
        "address": group.mapped(_address, pa.uint64(), "address"),
        "asynchronous": constant(True, group.rows),
        **placing.streams(group),
        "correlation": group.integers("correlation"),
        **_graph(group),
    }


def syncs(group: EventGroup, placing: Placing) -> Columns:
    """Columns of table sync except the times; `event_sync` is the correlation of the awaited record."""

    def kind(own: bytes | None, name: bytes | None) -> str:
        found = text(own) or text(name) or ""
        return _SYNC.get(found, found)

    return {
        "kind": group.mapped(kind, pa.string(), "cuda_sync_kind", ".name"),
        "event": group.integers("wait_on_cuda_event_id"),
        "event_sync": group.integers("wait_on_cuda_event_record_corr_id"),
        **placing.streams(group),
        "correlation": group.integers("correlation"),
    }


def recorded(group: EventGroup, placing: Placing) -> Columns:
    """Columns of table event except the time."""
    return {
        "event": arrow.fill_null(group.integers("event_id"), 0),
        "event_sync": group.integers("correlation"),
        **placing.streams(group),
        "correlation": group.integers("correlation"),
    }


def collectives(group: EventGroup) -> Columns:
    """Columns of table collective except the times, for kernels with a collective's arguments."""

    def operation(raw: bytes | None) -> str:
        name = text(raw) or ""
        return _OPERATIONS.get(name, name)

    def named(raw: bytes | None) -> str | None:
        return json_text(raw).strip('"') or None if raw else None

    return {
        "operation": group.mapped(operation, pa.string(), "Collective name"),
        "bytes": group.mapped(_bytes, pa.int64(), "dtype", "In msg nelems", "Out msg nelems"),
        "dtype": group.mapped(text, pa.string(), "dtype"),
        "ranks": group.mapped(integer, pa.int32(), "Group size"),
        "group": group.mapped(named, pa.string(), "Process Group Name"),
        "correlation": group.integers("correlation"),
        "sequence": group.integers("Seq"),
        "members": group.mapped(_members, pa.string(), "Process Group Ranks", "Group size", "Global rank start",
                                "Global rank stride"),
        "peer": group.mapped(_peer, pa.int32(), "Collective name", "Src Rank", "Dst Rank"),
    }  # fmt: skip


def _members(
    listed: bytes | None, size: bytes | None, first: bytes | None, stride: bytes | None
) -> str | None:
    """The ranks of a group as JSON; PyTorch truncates long lists, and then gives the first rank and the stride."""
    count, begin, step = integer(size), integer(first), integer(stride)
    try:
        ranks = json.loads(text(listed) or "[]")
    except ValueError:
        ranks = []
    if not ranks and count and begin is not None and begin >= 0 and step and step > 0:
        ranks = list(range(begin, begin + count * step, step))
    return json.dumps(ranks) if ranks else None


def _peer(name: bytes | None, source: bytes | None, destination: bytes | None) -> int | None:
    part_of_direction = {"send": destination, "recv": source}.get(text(name) or "")
    return integer(part_of_direction) if part_of_direction is not None else None


def has_collective(group: EventGroup) -> NDArray[np.bool_]:
    """Which events have a collective's arguments."""
    codes, texts = group.codes("Collective name")
    return np.array([bool(text(raw)) for raw in texts] + [False])[codes]


def _bytes(dtype: bytes | None, inward: bytes | None, outward: bytes | None) -> int | None:
    item = _ITEM_BYTES.get(text(dtype) or "")
    elements = max(integer(inward) or 0, integer(outward) or 0)
    return None if item is None or not elements else elements * item


#: Members of MTIA's copies and events that have a column, in addition to :data:`KNOWN`.
MTIA_KNOWN = KNOWN | {"direction", "size", "seq_num"}
_MTIA_TABLES = {"dma_request": "memcpy", "event_wait": "sync", "event_record": "event"}
_DIRECTIONS = {
    "HOST_TO_DEVICE": ("HtoD", "unknown", "device"),
    "DEVICE_TO_HOST": ("DtoH", "device", "unknown"),
    "DEVICE_TO_DEVICE": ("DtoD", "device", "device"),
}


def mtia_tables(group: EventGroup) -> NDArray[np.str_]:
    """The table for each action of MTIA's control processor, by name."""
    codes, names = group.codes(".name")
    return np.array([_MTIA_TABLES.get(text(raw) or "", "kernel") for raw in names] + ["kernel"])[codes]


def _mtia_copies(group: EventGroup, placing: Placing) -> Columns:
    def part_of_direction(place: int) -> pa.Array:
        return group.mapped(
            lambda raw: _DIRECTIONS.get(text(raw) or "", ("unknown",) * 3)[place], pa.string(), "direction"
        )

    return {
        "bytes": group.mapped(lambda raw: number(raw) or 0, pa.int64(), "size"),
        "kind": part_of_direction(0),
        "source_kind": part_of_direction(1),
        "destination_kind": part_of_direction(2),
        "asynchronous": constant(True, group.rows),
        **placing.streams(group),
        "correlation": group.integers("correlation"),
    }


def _mtia_waits(group: EventGroup, placing: Placing) -> Columns:
    return {
        "kind": constant("stream wait event", group.rows),
        "event": group.integers("seq_num"),
        "event_sync": pa.nulls(group.rows, pa.int64()),
        **placing.streams(group),
        "correlation": group.integers("correlation"),
    }


def _mtia_records(group: EventGroup, placing: Placing) -> Columns:
    return {
        "event": arrow.fill_null(group.integers("seq_num"), 0),
        "event_sync": pa.nulls(group.rows, pa.int64()),
        **placing.streams(group),
        "correlation": group.integers("correlation"),
    }


#: How to compute the columns of MTIA's rows, by table.
MTIA: dict[str, Callable[[EventGroup, Placing], Columns]] = {
    "kernel": kernels, "memcpy": _mtia_copies, "sync": _mtia_waits, "event": _mtia_records,
}  # fmt: skip

_COLLECTIVE_EXTRAS = (
    "In msg nelems", "Out msg nelems", "In split size", "Out split size", "Process Group Description", "Process Group Ranks",
    "Src Rank", "Dst Rank", "Seq",
)  # fmt: skip


def collective_attributes(group: EventGroup, row: int) -> dict[str, str]:
    """A collective's arguments without columns of their own, as JSON."""
    return {
        key: raw.decode("utf-8", "replace")
        for key in _COLLECTIVE_EXTRAS
        if (raw := group.raw(key, row)) not in (b"", b"null")
    }
