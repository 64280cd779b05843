"""Chakra execution traces (mlcommons/chakra, schema/protobuf/et_def.proto): one file per rank, for simulators.

Nodes are the host's calls and operators (in order of each thread) and the device work they launched (after its call, and
in order of each stream); collectives are COMM_COLL nodes with type and size. Each message has its length before it, the
first is the GlobalMetadata. The schema counts microseconds; attributes `start_ns` and `duration_ns` keep the ns.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.errors import UsageError
from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection
from warpsight.formats.varint import Column, encode_one
from warpsight.formats.writing import protobuf

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=(
        "calls, operators and device work of one process in order; launches; collectives with type and size",
    ),
    lost=("tensors and shapes; other processes; ranges, own events, counters",),
    tested=("mlcommons/chakra's et_def.proto (0.0.4)",),
)
_VERSION = "0.0.4"
_COMP, _COLLECTIVE, _SEND, _RECEIVE = 4, 7, 5, 6
#: CollectiveCommType by words of an operation's or kernel's name, the more special first.
_COLLECTIVES = (("reducescatter", 7), ("allreduce", 0), ("allgather", 2), ("alltoall", 6), ("broadcast", 5),
                ("scatter", 4), ("gather", 3), ("barrier", 9), ("reduce", 1))  # fmt: skip
_CHUNK_ROWS = 1 << 16


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write one process's trace; returns counts of nodes, collectives and kernels without a time.

    Raises:
        UsageError: when several processes are selected, because a file holds one rank.
    """
    processes = selection.processes or [
        p for (p,) in trace.sql("SELECT process FROM process ORDER BY 1").fetchall()
    ]
    if len(processes) > 1:
        listed = ", ".join(str(p) for p in processes)
        raise UsageError(f"a Chakra trace holds one rank: choose a process of {listed} with --process")
    process = int(processes[0]) if processes else 0
    nodes = _nodes(trace, selection, process)
    metadata = _metadata(trace, process)
    file.write(encode_one(len(metadata)) + metadata)
    kind, coll = _kinds(nodes)
    deps = _dependencies(nodes)
    for first in range(0, len(nodes), _CHUNK_ROWS):
        rows = slice(first, min(first + _CHUNK_ROWS, len(nodes)))
        messages = _messages(
            nodes.slice(first, rows.stop - first), first, kind[rows], coll[rows], [d[rows] for d in deps]
        )
        file.write(protobuf.concatenated(protobuf.delimited(messages)))
    unplaced = trace.sql(
        f"SELECT count(*) FROM kernel_ids WHERE start IS NULL AND process = {process}"
    ).fetchall()[0][0]
    return {"nodes": len(nodes), "collectives": int((kind == _COLLECTIVE).sum()), "unplaced": int(unplaced)}


def _metadata(trace: StoredTrace, process: int) -> bytes:
    row = next((r for r in trace.arrow("process").to_pylist() if r["process"] == process), None)
    payload = protobuf.text(1, _VERSION)
    if row is not None:
        for key, value in (("rank", row["rank"]), ("world_size", row["world_size"]), ("pid", row["pid"])):
            if value is not None:
                payload += protobuf.data(2, protobuf.text(1, key) + _int64(9, value))
    return payload


def _int64(field: int, value: int) -> bytes:
    """A member of a oneof, which is written even if it is 0."""
    return encode_one(field << 3) + encode_one(value)


def _nodes(trace: StoredTrace, selection: Selection, process: int) -> pa.Table:
    """All nodes in time order; `host` separates calls and operators from device work."""
    host = {"op": ("name", "NULL"), "launch": ("function", "correlation"), "api": ("function", "correlation")}
    device = {
        "kernel": ("name", "0"),
        "memcpy": ("'Memcpy ' || kind", "bytes"),
        "memset": ("'Memset'", "bytes"),
    }
    parts = [
        f"SELECT true AS host, start, greatest(coalesce(duration, 0), 0) AS duration, {name} AS name, "
        f"thread::BIGINT AS track, 0 AS context, "
        f"{correlation}::BIGINT AS correlation, 0 AS bytes FROM {table} WHERE {selection.where(table, process)}"
        for table, (name, correlation) in host.items() if selection.wants(table)
    ]  # fmt: skip
    parts += [
        f"SELECT false, start, greatest(coalesce(duration, 0), 0), {name}, stream::BIGINT, context, "
        f"correlation, {size} FROM {table} "
        f"WHERE {selection.where(table, process)}"
        for table, (name, size) in device.items() if selection.wants(table)
    ]  # fmt: skip
    if not parts:
        raise UsageError("nothing in the selection is a node of a Chakra trace")
    sizes = f"""(SELECT correlation, any_value(operation) AS operation, max(bytes) AS bytes FROM collective
        WHERE process = {process} AND correlation IS NOT NULL GROUP BY ALL)"""
    return trace.sql(f"""
        SELECT n.host, n.start, n.duration, coalesce(n.name, '?') AS name, n.track, n.context,
          coalesce(n.correlation, 0) AS correlation,
          CASE WHEN n.host THEN 0 ELSE greatest(n.bytes, coalesce(c.bytes, 0)) END AS bytes,
          CASE WHEN n.host THEN NULL ELSE c.operation END AS operation
        FROM ({" UNION ALL ".join(parts)}) n LEFT JOIN {sizes} c ON c.correlation = n.correlation
        ORDER BY n.start, n.host DESC""").to_arrow_table()


def _kinds(nodes: pa.Table) -> tuple[Column, Column]:
    """NodeType and CollectiveCommType (-1 none) of every node."""
    text = pc.coalesce(nodes["operation"], nodes["name"]).combine_chunks().dictionary_encode()
    device = ~nodes["host"].to_numpy()
    kinds, types = [], []
    for name in text.dictionary.to_pylist():
        payload, collective = _kind(name)
        kinds.append(payload)
        types.append(collective)
    place = text.indices.to_numpy()
    if not len(nodes):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    kind = np.where(device, np.array(kinds, np.int64)[place], _COMP)
    return kind, np.where(kind == _COLLECTIVE, np.array(types, np.int64)[place], -1)


def _kind(name: str) -> tuple[int, int]:
    plain = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    if not any(word in plain for word in ("nccl", "rccl", "all", "broadcast", "reducescatter")):
        return _COMP, -1
    if "nccl" in plain or "rccl" in plain or plain in {word for word, _ in _COLLECTIVES}:
        if "sendrecv" in plain:
            return _SEND, -1
        for word, number in _COLLECTIVES:
            if word in plain:
                return _COLLECTIVE, number
    return _COMP, -1


def _dependencies(nodes: pa.Table) -> list[Column]:
    """The previous node on the same thread or stream, and the call that launched device work; -1 for none."""
    count = len(nodes)
    host, track = nodes["host"].to_numpy(), nodes["track"].to_numpy().astype(np.int64)
    context = nodes["context"].to_numpy().astype(np.int64)
    order = np.lexsort((np.arange(count), track, context, host))
    same = np.zeros(count, bool)
    if count > 1:
        a, b = order[1:], order[:-1]
        same[1:] = (host[a] == host[b]) & (track[a] == track[b]) & (context[a] == context[b])
    before = np.full(count, -1, np.int64)
    before[order[1:]] = np.where(same[1:], order[:-1], -1) if count else before[:0]
    correlation = nodes["correlation"].to_numpy().astype(np.int64)
    calls = np.flatnonzero(host & (correlation != 0))
    work = np.flatnonzero(~host & (correlation != 0))
    launch = np.full(count, -1, np.int64)
    if len(calls) and len(work):
        ranked = calls[np.argsort(correlation[calls], kind="stable")]
        place = np.minimum(np.searchsorted(correlation[ranked], correlation[work]), len(ranked) - 1)
        found = ranked[place]
        launch[work] = np.where(correlation[found] == correlation[work], found, -1)
    return [before, launch]


def _messages(nodes: pa.Table, first: int, kind: Column, coll: Column, deps: list[Column]) -> pa.Array:
    """Node messages; ids count from 0 in time order."""
    count = len(nodes)
    start, duration = (nodes[c].to_numpy().astype(np.int64) for c in ("start", "duration"))
    micros = (start // 1000, (duration + 500) // 1000)
    names = pa.array(nodes["name"].to_pylist(), pa.large_string())
    edges = [
        pc.if_else(
            pa.array(dep >= 0), protobuf.varints(np.maximum(dep, 0)), pa.scalar(b"", pa.large_binary())
        )
        for dep in deps
    ]
    host = nodes["host"].to_numpy()
    attributes = [
        _attribute("is_cpu_op", protobuf.number_column(27, host.astype(np.int64))),
        _attribute("start_ns", protobuf.number_column(9, start)),
        _attribute("duration_ns", protobuf.number_column(9, duration)),
        _only(
            ~host, _attribute("stream", protobuf.number_column(9, nodes["track"].to_numpy().astype(np.int64)))
        ),
        _only(host, _attribute("tid", protobuf.number_column(9, nodes["track"].to_numpy().astype(np.int64)))),
        _only(coll >= 0, _attribute("comm_type", protobuf.number_column(9, np.maximum(coll, 0)))),
        _only(
            (kind != _COMP),
            _attribute("comm_size", protobuf.number_column(9, nodes["bytes"].to_numpy().astype(np.int64))),
        ),
    ]
    return protobuf.joined(
        protobuf.number_column(1, np.arange(first, first + count)), protobuf.data_column(2, names),
        protobuf.number_column(3, kind), protobuf.data_column(5, protobuf.joined(*edges), optional=True),
        protobuf.number_column(6, micros[0]), protobuf.number_column(7, micros[1]), *attributes,
    )  # fmt: skip


def _attribute(name: str, value: pa.Array) -> pa.Array:
    return protobuf.data_column(10, protobuf.joined(protobuf.text(1, name), value))


def _only(chosen: Column, values: object) -> pa.Array:
    return pc.if_else(pa.array(chosen), values, pa.scalar(b"", pa.large_binary()))
