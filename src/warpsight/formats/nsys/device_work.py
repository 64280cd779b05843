"""Work on the device: kernels, copies, fills, waits, events, graph launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsight.formats.nsys.report import INT, TEXT, duration, labels, nullable
from warpsight.formats.reading.databases import ForeignRows, distinct_rows

if TYPE_CHECKING:
    from warpsight.formats.nsys.api_calls import AsynchronousCalls, WaitingCalls
    from warpsight.formats.nsys.report import Report

_PLACE = {
    "start": INT, "end": INT, "deviceId": INT, "contextId": INT, "streamId": INT, "correlationId": INT, "globalPid": INT,
}  # fmt: skip
_NODE = {"graphNodeId": INT, "graphId": INT}
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
_NAMES = {"mangledName": INT, "demangledName": INT, "shortName": INT}
_LAUNCH_TYPES = {2: "cooperative", 3: "multi-device cooperative"}
#: ENUM_CUDA_MEMCPY_OPER; 11 to 13 are the driver's migrations of managed memory.
_COPIES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
    11: "HtoD", 12: "DtoH", 13: "DtoD",
}  # fmt: skip
#: ENUM_CUDA_MEM_KIND, which is not CUPTI's numbering.
MEMORY_KINDS = {
    0: "pageable", 1: "pinned", 2: "device", 3: "array", 4: "managed", 5: "device static", 6: "managed static",
}  # fmt: skip
_SYNCS = {1: "event", 2: "stream wait event", 3: "stream", 4: "context"}
_MIGRATION_CAUSES = {
    1: "user prefetch",
    2: "page fault",
    3: "speculative prefetch",
    4: "eviction",
    5: "access counters",
}


def read_kernels(report: Report) -> None:
    """CUPTI_ACTIVITY_KIND_KERNEL."""
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    report.read.add(table)
    columns = {**_PLACE, **_NODE, **_NAMES, **dict.fromkeys(_SHAPE, INT), "launchType": INT}
    for rows in report.tables.read(table, columns):
        report.target.add(
            "kernel",
            pa.table(
                {
                    "start": rows.column("start"),
                    "duration": duration(rows),
                    "name_id": _names(report, rows),
                    "shape_id": _shapes(report, rows),
                    **report.places(rows),
                    "correlation": rows.column("correlationId"),
                    "graph": _graph(rows),
                    "graph_node": rows.column("graphNodeId"),
                    "graph_level": np.zeros(len(rows), bool),
                }
            ),
        )


def _names(report: Report, rows: ForeignRows) -> pa.Array:
    """The mangled name where the report has one (since 2022), else the demangled, else the short one."""
    best = pc.coalesce(*(rows.column(name) for name in _NAMES))
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
    """CUPTI_ACTIVITY_KIND_MEMCPY, the driver's migrations of managed memory included."""
    table = "CUPTI_ACTIVITY_KIND_MEMCPY"
    report.read.add(table)
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
    for rows in report.tables.read(table, {**_PLACE, **_NODE, **dict.fromkeys(more, INT)}):
        unified = rows.numbers("copyKind") >= 11
        report.target.add(
            "memcpy",
            pa.table(
                {
                    "start": rows.column("start"),
                    "duration": duration(rows),
                    "bytes": rows.numbers("bytes"),
                    "kind": labels(rows, "copyKind", _COPIES),
                    "source_kind": _memory_kind(rows, "srcKind", unified),
                    "destination_kind": _memory_kind(rows, "dstKind", unified),
                    "asynchronous": calls.issued(report, rows),
                    "source_device": _peer(report, rows, "srcDeviceId"),
                    "destination_device": _peer(report, rows, "dstDeviceId"),
                    **report.places(rows),
                    "correlation": rows.column("correlationId"),
                    "graph_node": rows.column("graphNodeId"),
                }
            ),
        )
        _keep_migrations(report, rows, first)
        first += len(rows)


def _memory_kind(rows: ForeignRows, column: str, unified: NDArray[np.bool_]) -> pa.Array:
    known = labels(rows, column, MEMORY_KINDS).dictionary_decode()
    if not unified.any():
        return known
    named = ~rows.null(column) & np.isin(rows.numbers(column), list(MEMORY_KINDS))
    return pc.if_else(pa.array(unified & ~named), "managed", known)


def _peer(report: Report, rows: ForeignRows, column: str) -> pa.Array:
    if not rows.given(column):
        return pa.nulls(len(rows), pa.int16())
    pid = (rows.numbers("globalPid") >> 24) & 0xFFFFFF
    pairs = list(zip(rows.numbers(column, -1).tolist(), pid.tolist(), strict=True))
    known = {pair: None if pair[0] < 0 else report.device(*pair) for pair in set(pairs)}
    return pa.array([known[pair] for pair in pairs], pa.int16())


def _keep_migrations(report: Report, rows: ForeignRows, first: int) -> None:
    """Why managed memory moved, and which page."""
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
    table = "CUPTI_ACTIVITY_KIND_MEMSET"
    report.read.add(table)
    for rows in report.tables.read(table, {**_PLACE, **_NODE, "value": INT, "bytes": INT, "memKind": INT}):
        report.target.add(
            "memset",
            pa.table(
                {
                    "start": rows.column("start"),
                    "duration": duration(rows),
                    "bytes": rows.numbers("bytes"),
                    "value": rows.numbers("value"),
                    "memory_kind": labels(rows, "memKind", MEMORY_KINDS),
                    "asynchronous": calls.issued(report, rows),
                    **report.places(rows),
                    "correlation": rows.column("correlationId"),
                    "graph_node": rows.column("graphNodeId"),
                }
            ),
        )


def read_waits(report: Report, calls: WaitingCalls) -> None:
    """CUPTI_ACTIVITY_KIND_SYNCHRONIZATION; what a wait is for is what its call says."""
    table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    report.read.add(table)
    for rows in report.tables.read(table, {**_PLACE, "syncType": INT, "eventId": INT, "eventSyncId": INT}):
        event = rows.numbers("eventId")
        none = rows.null("eventId") | (event < 0) | (event >= 0xFFFFFFFF)
        report.target.add(
            "sync",
            pa.table(
                {
                    "start": rows.column("start"),
                    "duration": duration(rows),
                    "kind": calls.kinds(rows, labels(rows, "syncType", _SYNCS)),
                    "event": nullable(event, none),
                    "event_sync": nullable(rows.numbers("eventSyncId"), none | rows.null("eventSyncId")),
                    **report.places(rows),
                    "correlation": rows.column("correlationId"),
                }
            ),
        )


def read_events(report: Report) -> None:
    """CUPTI_ACTIVITY_KIND_CUDA_EVENT; the column `timestamp` came in 2024, and is not always filled."""
    table = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
    report.read.add(table)
    columns = {**_PLACE, "timestamp": INT, "eventId": INT, "eventSyncId": INT}
    for rows in report.tables.read(table, columns):
        time = rows.numbers("timestamp")
        report.target.add(
            "event",
            pa.table(
                {
                    "time": nullable(time, rows.null("timestamp") | (time == 0)),
                    "event": rows.numbers("eventId"),
                    "event_sync": rows.column("eventSyncId"),
                    **report.places(rows),
                    "correlation": rows.column("correlationId"),
                }
            ),
        )


def read_graph_launches(report: Report) -> None:
    """CUPTI_ACTIVITY_KIND_GRAPH_TRACE: whole launches of graphs, recorded instead of their nodes."""
    table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    report.read.add(table)
    for rows in report.tables.read(table, {**_PLACE, "graphId": INT, "graphExecId": INT}):
        executable = rows.numbers("graphExecId")
        report.target.add(
            "kernel",
            pa.table(
                {
                    "start": rows.column("start"),
                    "duration": duration(rows),
                    **report.places(rows),
                    "correlation": rows.column("correlationId"),
                    "graph": np.where(executable > 0, executable, rows.numbers("graphId")),
                    "graph_level": np.ones(len(rows), bool),
                }
            ),
        )


_GRAPH_CALL = {"start": INT, "end": INT, "globalTid": INT, "nameId": INT}
_NODE_KINDS = (
    ("MemcpyNode", "memcpy"), ("MemsetNode", "memset"), ("KernelNode", "kernel"), ("HostNode", "host"),
    ("ChildGraphNode", "graph"), ("EmptyNode", "empty"), ("EventWaitNode", "wait event"),
    ("EventRecordNode", "record event"), ("MemAllocNode", "memory allocate"), ("MemFreeNode", "memory free"),
    ("Launch", "kernel"), ("Memcpy", "memcpy"), ("Memset", "memset"), ("StreamWaitEvent", "wait event"),
    ("EventRecord", "record event"), ("LaunchHostFunc", "host"), ("AddCallback", "host"),
)  # fmt: skip


def read_graphs(report: Report) -> None:
    """CUDA_GRAPH_EVENTS and CUDA_GRAPH_NODE_EVENTS: graphs and their nodes as they are made."""
    report.read.update(("CUDA_GRAPH_EVENTS", "CUDA_GRAPH_NODE_EVENTS"))
    columns = {**_GRAPH_CALL, "graphId": INT, "originalGraphId": INT, "graphExecId": INT}
    for rows in report.tables.read("CUDA_GRAPH_EVENTS", columns):
        made = rows.numbers("graphExecId") > 0
        number = np.where(made, rows.numbers("graphExecId"), rows.numbers("graphId"))
        original = np.where(made, rows.numbers("graphId"), rows.numbers("originalGraphId"))
        report.target.add(
            "graph",
            pa.table(
                {
                    "graph": number,
                    "original": nullable(original, original <= 0),
                    "executable": made,
                    "time": rows.column("start"),
                    "process": report.processes(rows.numbers("globalTid")),
                }
            ),
        )
    known = _graphs_of_nodes(report)
    columns = {**_GRAPH_CALL, "graphNodeId": INT, "originalGraphNodeId": INT, "graphId": INT}
    for rows in report.tables.read("CUDA_GRAPH_NODE_EVENTS", columns):
        process = report.processes(rows.numbers("globalTid"))
        keys = zip(process.tolist(), rows.numbers("graphNodeId").tolist(), strict=True)
        graph = np.array([known.get(key, 0) for key in keys], np.int64)
        given = rows.numbers("graphId")
        original = rows.numbers("originalGraphNodeId")
        report.target.add(
            "graph_node",
            pa.table(
                {
                    "graph_node": rows.column("graphNodeId"),
                    "original": nullable(original, original == 0),
                    "graph": np.where(given > 0, given, graph),
                    "kind": _node_kinds(report, rows),
                    "time": rows.column("start"),
                    "process": process,
                }
            ),
        )


def _graphs_of_nodes(report: Report) -> dict[tuple[int, int], int]:
    """Graph of (process, node), from a kernel that ran from it; the schema of nodes does not have it."""
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
    """What a node is, by the function that made it: an Add…Node call, or a call that a capture turned into a node."""
    functions = report.functions(rows)
    kinds = [
        next((kind for part, kind in _NODE_KINDS if part in name), "unknown")
        for name in functions.dictionary.to_pylist()
    ]
    return pa.array(kinds, TEXT).take(functions.indices)
