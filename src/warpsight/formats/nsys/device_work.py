"""Work on the device: kernels, copies, fills, waits, events, graph launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsight.formats.nsys.report import INT, TEXT, duration, labels, nullable
from warpsight.formats.reading.databases import ForeignRows, distinct_rows
from warpsight.model.naming.kernel_names import WHOLE_GRAPH
from warpsight.model.naming.memory_names import MEMCPY_KINDS, MEMORY_KINDS

if TYPE_CHECKING:
    from warpsight.formats.nsys.api_calls import AsynchronousCalls, WaitingCalls
    from warpsight.formats.nsys.report import Report

_PLACE = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
_NODE = ("graphNodeId", "graphId")
_SHAPE = {
    "gridX": "grid_x",
    "gridY": "grid_y",
    "gridZ": "grid_z",
    "blockX": "block_x",
    "blockY": "block_y",
    "blockZ": "block_z",
    "clusterX": "cluster_x",
    "clusterY": "cluster_y",
    "clusterZ": "cluster_z",
    "registersPerThread": "registers",
    "staticSharedMemory": "shared_static",
    "dynamicSharedMemory": "shared_dynamic",
    "localMemoryPerThread": "local_per_thread",
    "sharedMemoryExecuted": "shared_config",
}
_NAMES = ("mangledName", "demangledName", "shortName")
_LAUNCH_TYPES = {2: "cooperative", 3: "multi-device cooperative"}
#: ENUM_CUDA_MEMCPY_OPER; 11 to 13 are the driver's migrations of managed memory.
_COPIES = {**MEMCPY_KINDS, 11: "HtoD", 12: "DtoH", 13: "DtoD"}
#: ENUM_CUDA_MEM_KIND, which begins at 0 where CUPTI's begins at 1.
MEMORY_NAMES = {number - 1: name for number, name in MEMORY_KINDS.items()}
_SYNCS = {1: "event", 2: "stream wait event", 3: "stream", 4: "context"}
_MIGRATION_CAUSES = {
    1: "user prefetch",
    2: "page fault",
    3: "speculative prefetch",
    4: "eviction",
    5: "access counters",
}


def _read(
    report: Report,
    source: str,
    into: str,
    columns: Iterable[str],
    rest: Callable[[ForeignRows], dict[str, Any]],
) -> None:
    """Add the rows of a table of CUPTI records: their place and time, and the columns that `rest` computes from `columns`."""
    table = f"CUPTI_ACTIVITY_KIND_{source}"
    report.read.add(table)
    for rows in report.tables.read(table, dict.fromkeys((*_PLACE, *columns), INT)):
        times = {} if into == "event" else {"start": rows.column("start"), "duration": duration(rows)}
        where = {**report.places(rows), "correlation": rows.column("correlationId")}
        report.target.add_columns(into, **times, **where, **rest(rows))


def read_kernels(report: Report) -> None:
    """CUPTI_ACTIVITY_KIND_KERNEL."""

    def columns(rows: ForeignRows) -> dict[str, Any]:
        return {
            "name_id": _names(report, rows),
            "shape_id": _shapes(report, rows),
            "graph": _graph(rows),
            "graph_node": rows.column("graphNodeId"),
            "graph_level": np.zeros(len(rows), bool),
        }

    _read(report, "KERNEL", "kernel", (*_NODE, *_NAMES, *_SHAPE, "launchType"), columns)


def _names(report: Report, rows: ForeignRows) -> pa.Array:
    """The mangled name if the report has one (since 2022), otherwise the demangled name, otherwise the short one.

    Ids of strings that the report does not have are no names.
    """
    best = np.full(len(rows), -1, np.int64)
    for name in reversed(_NAMES):
        ids = rows.numbers(name, -1)
        best = np.where(report.has_text(ids), ids, best)
    return report.name_ids(ForeignRows(pa.table({"name": best})), "name")


def _shapes(report: Report, rows: ForeignRows) -> pa.Array:
    columns = [*_SHAPE, "launchType"]
    known, places = distinct_rows([rows.numbers(name) for name in columns])
    ids = [
        report.target.shape(
            **dict(zip(_SHAPE.values(), row[:-1], strict=True)),
            launch_type=_LAUNCH_TYPES.get(row[-1], "regular"),
        )
        for row in known.tolist()
    ]
    return pa.array(ids, pa.int32()).take(places)


def _graph(rows: ForeignRows) -> pa.Array:
    values = rows.numbers("graphId", 0)
    return nullable(values, rows.null("graphId") | (values == 0))


def read_copies(report: Report, calls: AsynchronousCalls) -> None:
    """CUPTI_ACTIVITY_KIND_MEMCPY, including the driver's migrations of managed memory."""
    more = (
        "bytes",
        "copyKind",
        "srcKind",
        "dstKind",
        "srcDeviceId",
        "dstDeviceId",
        "migrationCause",
        "virtualAddress",
    )
    first = 0

    def columns(rows: ForeignRows) -> dict[str, Any]:
        nonlocal first
        _keep_migrations(report, rows, first)
        first += len(rows)
        unified = rows.numbers("copyKind") >= 11
        return {
            "bytes": rows.numbers("bytes"),
            "kind": labels(rows, "copyKind", _COPIES),
            "source_kind": _memory_kind(rows, "srcKind", unified),
            "destination_kind": _memory_kind(rows, "dstKind", unified),
            "asynchronous": calls.issued(report, rows),
            "source_device": _peer(report, rows, "srcDeviceId"),
            "destination_device": _peer(report, rows, "dstDeviceId"),
            "graph_node": rows.column("graphNodeId"),
        }

    _read(report, "MEMCPY", "memcpy", (*_NODE, *more), columns)


def _memory_kind(rows: ForeignRows, column: str, unified: NDArray[np.bool_]) -> pa.Array:
    known = labels(rows, column, MEMORY_NAMES).dictionary_decode()
    if not unified.any():
        return known
    named = ~rows.null(column) & np.isin(rows.numbers(column), list(MEMORY_NAMES))
    return pc.if_else(pa.array(unified & ~named), "managed", known)


def _peer(report: Report, rows: ForeignRows, column: str) -> pa.Array:
    if not rows.given(column):
        return pa.nulls(len(rows), pa.int16())
    pid = (rows.numbers("globalPid") >> 24) & 0xFFFFFF
    pairs = list(zip(rows.numbers(column, -1).tolist(), pid.tolist(), strict=True))
    known = {pair: None if pair[0] < 0 else report.device(*pair) for pair in set(pairs)}
    return pa.array([known[pair] for pair in pairs], pa.int16())


def _keep_migrations(report: Report, rows: ForeignRows, first: int) -> None:
    """The reason for each migration of managed memory, and the page."""
    if not rows.given("migrationCause"):
        return
    chosen = np.flatnonzero(~rows.null("migrationCause"))
    causes, pages = rows.numbers("migrationCause"), rows.numbers("virtualAddress")
    processes = report.processes(rows.numbers("globalPid"))
    for row in chosen.tolist():
        cause = _MIGRATION_CAUSES.get(int(causes[row]), "unknown")
        report.target.attribute("memcpy", first + row, "migration cause", f'"{cause}"', int(processes[row]))
        report.target.attribute("memcpy", first + row, "address", str(int(pages[row])), int(processes[row]))


def read_fills(report: Report, calls: AsynchronousCalls) -> None:
    """CUPTI_ACTIVITY_KIND_MEMSET."""

    def columns(rows: ForeignRows) -> dict[str, Any]:
        return {
            "bytes": rows.numbers("bytes"),
            "value": rows.numbers("value"),
            "memory_kind": labels(rows, "memKind", MEMORY_NAMES),
            "asynchronous": calls.issued(report, rows),
            "graph_node": rows.column("graphNodeId"),
        }

    _read(report, "MEMSET", "memset", (*_NODE, "value", "bytes", "memKind"), columns)


def read_waits(report: Report, calls: WaitingCalls) -> None:
    """CUPTI_ACTIVITY_KIND_SYNCHRONIZATION; the call determines what a wait is for."""

    def columns(rows: ForeignRows) -> dict[str, Any]:
        event = rows.numbers("eventId")
        none = rows.null("eventId") | (event < 0) | (event >= 0xFFFFFFFF)
        return {
            "kind": calls.kinds(rows, labels(rows, "syncType", _SYNCS)),
            "event": nullable(event, none),
            "event_sync": nullable(rows.numbers("eventSyncId"), none | rows.null("eventSyncId")),
        }

    _read(report, "SYNCHRONIZATION", "sync", ("syncType", "eventId", "eventSyncId"), columns)


def read_events(report: Report) -> None:
    """CUPTI_ACTIVITY_KIND_CUDA_EVENT; the column `timestamp` was added in 2024, and is not always filled."""

    def columns(rows: ForeignRows) -> dict[str, Any]:
        time = rows.numbers("timestamp")
        return {
            "time": nullable(time, rows.null("timestamp") | (time == 0)),
            "event": rows.numbers("eventId"),
            "event_sync": rows.column("eventSyncId"),
        }

    _read(report, "CUDA_EVENT", "event", ("timestamp", "eventId", "eventSyncId"), columns)


def read_graph_launches(report: Report) -> None:
    """CUPTI_ACTIVITY_KIND_GRAPH_TRACE: whole launches of graphs, recorded instead of their nodes."""

    def columns(rows: ForeignRows) -> dict[str, Any]:
        executable = rows.numbers("graphExecId")
        graph = np.where(executable > 0, executable, rows.numbers("graphId"))
        known, places = distinct_rows([graph])
        ids = report.target.names([f"{WHOLE_GRAPH} {number}" for (number,) in known.tolist()])
        return {
            "name_id": pa.array(ids, pa.int32()).take(places),
            "graph": graph,
            "graph_level": np.ones(len(rows), bool),
        }

    _read(report, "GRAPH_TRACE", "kernel", ("graphId", "graphExecId"), columns)


_GRAPH_CALL = {"start": INT, "end": INT, "globalTid": INT, "nameId": INT}
_NODE_KINDS = (
    ("MemcpyNode", "memcpy"), ("MemsetNode", "memset"), ("KernelNode", "kernel"), ("HostNode", "host"),
    ("ChildGraphNode", "graph"), ("EmptyNode", "empty"), ("EventWaitNode", "wait event"),
    ("EventRecordNode", "record event"), ("MemAllocNode", "memory allocate"), ("MemFreeNode", "memory free"),
    ("Launch", "kernel"), ("Memcpy", "memcpy"), ("Memset", "memset"), ("StreamWaitEvent", "wait event"),
    ("EventRecord", "record event"), ("LaunchHostFunc", "host"), ("AddCallback", "host"),
)  # fmt: skip


def read_graphs(report: Report) -> None:
    """CUDA_GRAPH_EVENTS and CUDA_GRAPH_NODE_EVENTS: graphs and their nodes at creation."""
    report.read.update(("CUDA_GRAPH_EVENTS", "CUDA_GRAPH_NODE_EVENTS"))
    columns = {**_GRAPH_CALL, "graphId": INT, "originalGraphId": INT, "graphExecId": INT}
    for rows in report.tables.read("CUDA_GRAPH_EVENTS", columns):
        made = rows.numbers("graphExecId") > 0
        number = np.where(made, rows.numbers("graphExecId"), rows.numbers("graphId"))
        original = np.where(made, rows.numbers("graphId"), rows.numbers("originalGraphId"))
        report.target.add_columns(
            "graph",
            graph=number,
            original=nullable(original, original <= 0),
            executable=made,
            time=rows.column("start"),
            process=report.processes(rows.numbers("globalTid")),
        )
    known = _graphs_of_nodes(report)
    columns = {**_GRAPH_CALL, "graphNodeId": INT, "originalGraphNodeId": INT, "graphId": INT}
    for rows in report.tables.read("CUDA_GRAPH_NODE_EVENTS", columns):
        process = report.processes(rows.numbers("globalTid"))
        keys = zip(process.tolist(), rows.numbers("graphNodeId").tolist(), strict=True)
        graph = np.array([known.get(key, 0) for key in keys], np.int64)
        given = rows.numbers("graphId")
        original = rows.numbers("originalGraphNodeId")
        report.target.add_columns(
            "graph_node",
            graph_node=rows.column("graphNodeId"),
            original=nullable(original, original == 0),
            graph=np.where(given > 0, given, graph),
            kind=_node_kinds(report, rows),
            time=rows.column("start"),
            process=process,
        )


def _graphs_of_nodes(report: Report) -> dict[tuple[int, int], int]:
    """Graph of each (process, node), from a kernel that ran from it; the schema of nodes does not have it."""
    known: dict[tuple[int, int], int] = {}
    if not report.tables.count("CUDA_GRAPH_NODE_EVENTS"):
        return known
    columns = {"graphNodeId": INT, "graphId": INT, "globalPid": INT}
    for rows in report.tables.read("CUPTI_ACTIVITY_KIND_KERNEL", columns):
        chosen = rows.where((rows.numbers("graphNodeId") != 0) & (rows.numbers("graphId") != 0))
        process = report.processes(chosen.numbers("globalPid"))
        keys = zip(process.tolist(), chosen.numbers("graphNodeId").tolist(), strict=True)
        known.update(zip(keys, chosen.numbers("graphId").tolist(), strict=True))
    return known


def _node_kinds(report: Report, rows: ForeignRows) -> pa.Array:
    """The kind of a node, by the function that created it: an Add…Node call, or a call turned into a node by capture."""
    functions = report.functions(rows)
    kinds = [
        next((kind for part, kind in _NODE_KINDS if part in name), "unknown")
        for name in functions.dictionary.to_pylist()
    ]
    return pa.array(kinds, TEXT).take(functions.indices)
