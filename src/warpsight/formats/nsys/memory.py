"""Allocations, pools and page faults of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.formats.nsys.device_work import MEMORY_NAMES
from warpsight.formats.nsys.report import ADDRESS, INT, INVALID, TEXT, labels, nullable

if TYPE_CHECKING:
    from warpsight.formats.nsys.report import Report
    from warpsight.formats.reading.databases import ForeignRows

_OPERATIONS = {0: "allocate", 1: "free"}
_POOL_OPERATIONS = {1: "pool create", 2: "pool destroy", 3: "pool trim"}
_WHERE = {
    "start": INT,
    "globalPid": INT,
    "deviceId": INT,
    "contextId": INT,
    "streamId": INT,
    "correlationId": INT,
}
_ACCESS = {1: "read", 2: "write", 3: "atomic", 4: "prefetch"}


def read_allocations(report: Report) -> None:
    """CUDA_GPU_MEMORY_USAGE_EVENTS and CUDA_GPU_MEMORY_POOL_EVENTS."""
    report.read.update(("CUDA_GPU_MEMORY_USAGE_EVENTS", "CUDA_GPU_MEMORY_POOL_EVENTS"))
    columns = {
        **_WHERE, "address": ADDRESS, "bytes": INT, "memKind": INT, "memoryOperationType": INT, "name": TEXT,
        "localMemoryPoolAddress": ADDRESS, "localMemoryPoolSize": INT, "localMemoryPoolUtilizedSize": INT,
    }  # fmt: skip
    for rows in report.tables.read("CUDA_GPU_MEMORY_USAGE_EVENTS", columns):
        places = report.places(rows)
        pool = rows.numbers("localMemoryPoolAddress")
        report.target.add_columns(
            "memory",
            **_memory(rows, places),
            operation=labels(rows, "memoryOperationType", _OPERATIONS),
            address=rows.column("address"),
            bytes=rows.column("bytes"),
            kind=labels(rows, "memKind", MEMORY_NAMES),
            pool=nullable(pool, pool == 0),
            tag=rows.column("name"),
            **_pool(rows, pool == 0),
        )
    columns = {
        **_WHERE, "address": ADDRESS, "operationType": INT, "localMemoryPoolSize": INT,
        "localMemoryPoolUtilizedSize": INT,
    }  # fmt: skip
    for rows in report.tables.read("CUDA_GPU_MEMORY_POOL_EVENTS", columns):
        places = report.places(rows)
        report.target.add_columns(
            "memory",
            **_memory(rows, places),
            operation=labels(rows, "operationType", _POOL_OPERATIONS),
            address=rows.column("address"),
            kind=pa.array(["device"]).take(pa.array(np.zeros(len(rows), np.int64))),
            pool=rows.column("address"),
            **_pool(rows, np.zeros(len(rows), bool)),
        )


def _memory(rows: ForeignRows, places: dict[str, Any]) -> dict[str, Any]:
    stream = places["stream"]
    return {
        "time": rows.column("start"),
        "device": places["device"],
        "context": nullable(
            places["context"], rows.null("contextId") | (rows.numbers("contextId") == INVALID)
        ),
        "stream": nullable(stream, stream < 0),
        "correlation": rows.column("correlationId"),
        "process": places["process"],
    }


def _pool(rows: ForeignRows, none: object) -> dict[str, Any]:
    return {
        "pool_size": nullable(rows.numbers("localMemoryPoolSize"), none | rows.null("localMemoryPoolSize")),
        "pool_used": nullable(
            rows.numbers("localMemoryPoolUtilizedSize"), none | rows.null("localMemoryPoolUtilizedSize")
        ),
    }


def read_page_faults(report: Report) -> None:
    """Turn page faults of managed memory into counters: faults at a moment, with page and access as attributes."""
    _faults(report, "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "unified memory GPU page faults")
    _faults(report, "CUDA_UM_CPU_PAGE_FAULT_EVENTS", "unified memory CPU page faults")


def _faults(report: Report, table: str, name: str) -> None:
    report.read.add(table)
    columns = {
        "start": INT, "globalPid": INT, "deviceId": INT, "address": ADDRESS, "numberOfPageFaults": INT,
        "faultAccessType": INT, "CpuInstruction": INT, "module": INT,
    }  # fmt: skip
    first = report.target.rows.get("counter", 0)
    for rows in report.tables.read(table, columns):
        process = report.processes(rows.numbers("globalPid"))
        pid = (rows.numbers("globalPid") >> 24) & 0xFFFFFF
        pairs = zip(rows.numbers("deviceId", -1).tolist(), pid.tolist(), strict=True)
        report.target.add_columns(
            "counter",
            time=rows.column("start"),
            name=pa.array([name]).take(pa.array(np.zeros(len(rows), np.int64))),
            value=rows.numbers("numberOfPageFaults", 1).astype(np.float64),
            unit=pa.array(["1"]).take(pa.array(np.zeros(len(rows), np.int64))),
            device=pa.array([None if d < 0 else report.device(d, p) for d, p in pairs], pa.int16()),
            source=pa.array(["cupti"]).take(pa.array(np.zeros(len(rows), np.int64))),
            process=process,
        )
        _keep_fault(report, rows, first, process)
        first += len(rows)


def _keep_fault(report: Report, rows: ForeignRows, first: int, process: NDArray[np.int32]) -> None:
    import json

    places = report.texts(rows.numbers("CpuInstruction", -1))
    modules = report.texts(rows.numbers("module", -1))
    access = rows.column("faultAccessType").to_pylist()
    for number, (page, kind, where, module, owner) in enumerate(
        zip(rows.column("address").to_pylist(), access, places, modules, process.tolist(), strict=True)
    ):
        fault = {"address": page, "access": _ACCESS.get(kind), "instruction": where, "module": module}
        text = json.dumps({key: value for key, value in fault.items() if value is not None})
        report.target.attribute("counter", first + number, "page fault", text, owner)
