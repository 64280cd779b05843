"""Writes exports of Nsight Systems by its documented schema: the tables a recording of one second does not have.

Tables and columns are those of the "SQLite Schema Reference" in NVIDIA's Nsight Systems documentation (2024.5); `OLD` is the
part that exports of 2022 had.
"""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path
from typing import Any

#: bits 24 to 47 of a global id are the pid, the low 24 the thread.
MACHINE = 1 << 48


def gpid(pid: int) -> int:
    return MACHINE | pid << 24


def gtid(pid: int, tid: int) -> int:
    return gpid(pid) | tid


STRINGS = {
    1: "_Z4axpyfPfS_", 2: "axpy(float, float *, float *)", 3: "axpy", 4: "cudaLaunchKernel_v7000",
    5: "cuMemcpyHtoDAsync_v2", 6: "cudaGraphLaunch_v10000", 7: "cudaGraphAddKernelNode_v10000", 8: "main", 9: "train",
    10: "/app/model", 11: "libcuda.so", 12: "worker", 13: "pthread_mutex_lock", 14: "registered range", 15: "MPI_Send",
    16: "cublasSgemm_v2", 17: "Buffer flush", 18: "loader", 19: "cudaStreamBeginCapture_v10000",
}  # fmt: skip


def payload(domain: int, schema: int, form: str, *values: int) -> bytes:
    """binaryData of an event: 32 bytes of header, then the fields."""
    data = struct.pack("<" + form, *values)
    return struct.pack("<IIIIQQ", domain, 0, schema, 0, len(data), 32 + len(data)) + data


TABLES: dict[str, list[dict[str, Any]]] = {
    "StringIds": [{"id": k, "value": v} for k, v in STRINGS.items()],
    "META_DATA_EXPORT": [
        {"name": "EXPORT_PRODUCT_VERSION", "value": "2024.5.1.113"},
        {"name": "EXPORT_SCHEMA_VERSION", "value": "3.17.0"},
    ],
    "META_DATA_CAPTURE": [
        {"name": "PROCESS_0:COMMAND", "value": "python"},
        {"name": "PROCESS_0:ARGUMENT_0", "value": "train.py"},
        {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": 'CUDA_VISIBLE_DEVICES="1"'},
        {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": 'SECRET_TOKEN="hunter2"'},
    ],
    "TARGET_INFO_SYSTEM_ENV": [
        {"globalVid": MACHINE, "name": "Hostname", "value": "node7"},
        {"globalVid": MACHINE, "name": "NvDriverVersion", "value": "550.54"},
        {"globalVid": MACHINE, "name": "CudaDriverVersion", "value": "12040"},
    ],
    "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_123}],
    "TARGET_INFO_GPU": [
        {"id": 0, "name": "NVIDIA A100", "busLocation": "0000:07:00.0", "totalMemory": 85_899_345_920,
         "memoryBandwidth": 2_039_000_000_000, "clockRate": 1_410_000_000, "smCount": 108, "uuid": "aaaa-0000",
         "maxWarpsPerSm": 64, "threadsPerWarp": 32, "computeMajor": 8, "computeMinor": 0},
        {"id": 1, "name": "NVIDIA A100", "busLocation": "0000:0A:00.0", "smCount": 108, "uuid": "aaaa-0001",
         "computeMajor": 8, "computeMinor": 0},
    ],
    # Process 42 was started with CUDA_VISIBLE_DEVICES=1: its device 0 is card 1.
    "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 1, "cudaId": 0, "pid": 42}],
    "PROCESSES": [{"globalPid": gpid(42), "pid": 42, "name": "python"}],
    "ThreadNames": [{"nameId": 12, "globalTid": gtid(42, 43)}],
    "MPI_RANKS": [{"globalTid": gtid(42, 43), "rank": 3}],
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        {"start": 1000, "end": 1500, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 1,
         "globalPid": gpid(42), "demangledName": 2, "shortName": 3, "mangledName": 1, "launchType": 2,
         "registersPerThread": 32, "gridX": 8, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1,
         "staticSharedMemory": 16, "dynamicSharedMemory": 1024, "localMemoryPerThread": 0,
         "graphNodeId": 8_589_934_593, "graphId": 2},
    ],
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [
        {"start": 2000, "end": 2900, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 4,
         "globalPid": gpid(42), "graphId": 1, "graphExecId": 5},
    ],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [
        {"start": 500, "end": 700, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 2,
         "globalPid": gpid(42), "bytes": 4096, "copyKind": 1, "srcKind": 1, "dstKind": 2},
        {"start": 800, "end": 850, "deviceId": 0, "contextId": 1, "streamId": 4294967295, "correlationId": None,
         "globalPid": gpid(42), "bytes": 65536, "copyKind": 11, "migrationCause": 2, "virtualAddress": 4096},
    ],
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [
        {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 9, "globalPid": gpid(42), "eventId": 3},
    ],
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
        {"start": 3000, "end": 3100, "deviceId": 0, "contextId": 1, "streamId": 4294967295, "correlationId": 10,
         "globalPid": gpid(42), "syncType": 4, "eventId": 4294967295},
    ],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        {"start": 900, "end": 950, "eventClass": 0, "globalTid": gtid(42, 43), "correlationId": 1, "nameId": 4,
         "returnValue": 0, "callchainId": 1},
        {"start": 400, "end": 480, "eventClass": 1, "globalTid": gtid(42, 43), "correlationId": 2, "nameId": 5,
         "returnValue": 0, "callchainId": None},
        {"start": 1900, "end": 1950, "eventClass": 0, "globalTid": gtid(42, 43), "correlationId": 4, "nameId": 6,
         "returnValue": 700, "callchainId": 2},
        {"start": 100, "end": 150, "eventClass": 0, "globalTid": gtid(42, 43), "correlationId": 5, "nameId": 4,
         "returnValue": 0, "callchainId": None},
    ],
    "CUDA_CALLCHAINS": [
        {"id": 1, "symbol": 9, "module": 10, "unresolved": 0, "originalIP": 1, "stackDepth": 0},
        {"id": 1, "symbol": 8, "module": 10, "unresolved": 0, "originalIP": 2, "stackDepth": 1},
        {"id": 2, "symbol": 99, "module": 11, "unresolved": 1, "originalIP": 4660, "stackDepth": 0},
        {"id": 2, "symbol": 8, "module": 10, "unresolved": 0, "originalIP": 2, "stackDepth": 1},
    ],
    "CUDA_GRAPH_NODE_EVENTS": [
        {"start": 120, "end": 130, "eventClass": 77, "globalTid": gtid(42, 43), "nameId": 4,
         "graphNodeId": 8_589_934_593, "originalGraphNodeId": 4_294_967_297},
    ],
    "CUDA_GRAPH_EVENTS": [
        {"start": 90, "end": 91, "eventClass": 95, "globalTid": gtid(42, 43), "nameId": 19, "graphId": 1},
        {"start": 160, "end": 170, "eventClass": 94, "globalTid": gtid(42, 43), "nameId": 19, "graphId": 1,
         "graphExecId": 5},
    ],
    "CUBLAS_EVENTS": [
        {"start": 880, "end": 960, "eventClass": 29, "globalTid": gtid(42, 43), "nameId": 16},
    ],
    "OSRT_API": [
        {"start": 10, "end": 60, "eventClass": 27, "globalTid": gtid(42, 44), "nameId": 13, "returnValue": 0,
         "nestingLevel": 0, "callchainId": 0},
    ],
    "PROFILER_OVERHEAD": [{"start": 5, "end": 9, "globalTid": gtid(42, 43), "nameId": 17, "returnValue": 0}],
    "NVTX_EVENTS": [
        {"start": 1, "eventType": 75, "text": "my.library", "globalTid": gtid(42, 43), "domainId": 1},
        {"start": 2, "eventType": 33, "category": 6, "text": "io", "globalTid": gtid(42, 43), "domainId": 1},
        {"start": 100, "end": 900, "eventType": 59, "text": "step", "globalTid": gtid(42, 43), "domainId": 0,
         "color": 0xFF00FF00},
        {"start": 200, "end": 300, "eventType": 59, "textId": 14, "globalTid": gtid(42, 43), "domainId": 0,
         "category": 4, "int64Value": -5},
        {"start": 210, "end": 250, "eventType": 59, "text": "aten::mm, seq = 7, op_id = 17, sizes = [[2, 3], [3, 4]]",
         "globalTid": gtid(42, 43), "domainId": 0},
        {"start": 150, "end": 950, "eventType": 60, "rangeId": 1, "text": "copy", "globalTid": gtid(42, 43),
         "endGlobalTid": gtid(42, 44), "domainId": 1, "category": 6, "jsonText": '{"n": 1}'},
        {"start": 60, "end": 62, "eventType": 59, "text": "ncclCommInitRank", "globalTid": gtid(42, 43), "domainId": 1,
         "binaryData": payload(1, 16777218, "Qii", 0xABC, 8, 3)},
        {"start": 890, "end": 960, "eventType": 59, "text": "ncclAllReduce", "globalTid": gtid(42, 43), "domainId": 1,
         "binaryData": payload(1, 16777220, "QQ", 0xABC, 1 << 33)},
        {"start": 333, "eventType": 34, "text": "mark", "globalTid": gtid(42, 44), "domainId": 0},
        {"start": 400, "eventType": 35, "text": "never closed", "globalTid": gtid(42, 44), "domainId": 0},
    ],
    "NVTX_PAYLOAD_SCHEMAS": [
        {"domainId": 1, "schemaId": 16777220, "type": 1, "numEntries": 2, "payloadSize": 16},
        {"domainId": 1, "schemaId": 16777218, "type": 1, "numEntries": 3, "payloadSize": 16},
    ],
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": [
        {"domainId": 1, "schemaId": 16777220, "idx": 0, "type": 18, "name": "NCCL communicator ID", "offset": None},
        {"domainId": 1, "schemaId": 16777220, "idx": 1, "type": 22, "name": "Message size [bytes]", "offset": 8},
        {"domainId": 1, "schemaId": 16777218, "idx": 0, "type": 18, "name": "NCCL communicator ID", "offset": None},
        {"domainId": 1, "schemaId": 16777218, "idx": 1, "type": 5, "name": "No. of ranks", "offset": 8},
        {"domainId": 1, "schemaId": 16777218, "idx": 2, "type": 5, "name": "Rank", "offset": 12},
    ],
    "MPI_P2P_EVENTS": [
        {"start": 600, "end": 650, "globalTid": gtid(42, 43), "textId": 15, "commHandle": 1, "tag": 11, "remoteRank": 2,
         "size": 64},
    ],
    "CUDA_GPU_MEMORY_USAGE_EVENTS": [
        {"start": 20, "globalPid": gpid(42), "deviceId": 0, "contextId": 1, "address": -4096, "pc": 0, "bytes": 1024,
         "memKind": 2, "memoryOperationType": 0, "name": "weights", "correlationId": 1,
         "localMemoryPoolAddress": 65536, "localMemoryPoolSize": 4096, "localMemoryPoolUtilizedSize": 1024},
        {"start": 30, "globalPid": gpid(42), "deviceId": 0, "contextId": 1, "address": -4096, "pc": 0, "bytes": 1024,
         "memKind": 2, "memoryOperationType": 1},
    ],
    "CUDA_GPU_MEMORY_POOL_EVENTS": [
        {"start": 19, "globalPid": gpid(42), "deviceId": 0, "address": 65536, "operationType": 1, "poolType": 1,
         "localMemoryPoolSize": 4096, "localMemoryPoolUtilizedSize": 0},
    ],
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [
        {"start": 70, "end": 80, "globalPid": gpid(42), "deviceId": 0, "address": 8192, "numberOfPageFaults": 3,
         "faultAccessType": 2},
    ],
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [
        {"start": 75, "globalPid": gpid(42), "address": 12288, "CpuInstruction": 9, "module": 10},
    ],
    "TARGET_INFO_GPU_METRICS": [
        {"typeId": 0x1_0000_0001, "sourceId": 1, "typeName": "m", "metricId": 4, "metricName": "SM Active [Throughput %]"},
        {"typeId": 0x1_0000_0001, "sourceId": 1, "typeName": "m", "metricId": 1, "metricName": "GPC Clock Frequency [MHz]"},
    ],
    "GPU_METRICS": [
        {"timestamp": 1000, "typeId": 0x1_0000_0001, "metricId": 4, "value": 87},
        {"timestamp": 1000, "typeId": 0x1_0000_0001, "metricId": 1, "value": 1410},
    ],
    "TARGET_INFO_NETWORK_METRICS": [
        {"metricsListId": 1, "metricsIdx": 0, "name": "Bytes sent", "description": "", "unit": "B"},
    ],
    "NIC_ID_MAP": [{"nicId": 9, "globalId": 77}],
    "TARGET_INFO_NIC_INFO": [{"GUID": 1, "nicId": 9, "name": "mlx5_0", "deviceId": 1, "vendorId": 2}],
    "NET_NIC_METRIC": [
        {"start": 100, "end": 200, "globalId": 77, "portId": 1, "metricsListId": 1, "metricsIdx": 0, "value": 12345},
    ],
    "ENUM_SAMPLING_THREAD_STATE": [{"id": 2, "name": "BLOCKED", "label": "Blocked"}],
    "COMPOSITE_EVENTS": [
        {"id": 51, "start": 45, "cpu": 0, "threadState": None, "globalTid": gtid(42, 43), "cpuCycles": 1000},
        {"id": 52, "start": 55, "cpu": 0, "threadState": 2, "globalTid": gtid(42, 44), "cpuCycles": 0},
    ],
    "SAMPLING_CALLCHAINS": [
        {"id": 51, "symbol": 18, "module": 10, "kernelMode": 0, "unresolved": 0, "originalIP": 5, "stackDepth": 0},
        {"id": 51, "symbol": 8, "module": 10, "kernelMode": 0, "unresolved": 0, "originalIP": 6, "stackDepth": 1},
    ],
    "SCHED_EVENTS": [{"start": 41, "cpu": 0, "isSchedIn": 1, "globalTid": gtid(42, 43)}],
    "DIAGNOSTIC_EVENT": [
        {"timestamp": 1, "timestampType": 1, "source": 1, "severity": 2, "text": "Not all NVTX events were collected.",
         "globalPid": gpid(42)},
        {"timestamp": 1, "timestampType": 1, "source": 1, "severity": 1, "text": "Common injection library initialised.",
         "globalPid": gpid(42)},
    ],
}  # fmt: skip

#: What an export of 2022.1 had of these: no mangled names, no graph ids, no version table, no NVTX domains beside 0.
OLD = {
    "StringIds": TABLES["StringIds"],
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        {k: v for k, v in row.items() if k not in ("mangledName", "graphNodeId", "graphId", "launchType")}
        for row in TABLES["CUPTI_ACTIVITY_KIND_KERNEL"]
    ],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        {k: v for k, v in row.items() if k != "callchainId"} for row in TABLES["CUPTI_ACTIVITY_KIND_RUNTIME"]
    ],
    "NVTX_EVENTS": [
        {k: v for k, v in row.items() if k in ("start", "end", "eventType", "text", "textId", "globalTid")}
        for row in TABLES["NVTX_EVENTS"]
    ],
}


def columns(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Column names with SQLite types, in order of appearance."""
    found: dict[str, str] = {}
    for row in rows:
        for name, value in row.items():
            found.setdefault(name, "TEXT" if isinstance(value, str) else "INTEGER")
    return found


def write_sqlite(path: Path, tables: dict[str, list[dict[str, Any]]] = TABLES) -> Path:
    """Write tables to a SQLite file with small pages."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as file:
        file.execute("pragma page_size=512")
        for table, rows in tables.items():
            known = columns(rows)
            spelled = ", ".join(f'"{name}" {kind}' for name, kind in known.items())
            file.execute(f'create table "{table}" ({spelled})')
            marks = ", ".join("?" * len(known))
            file.executemany(
                f'insert into "{table}" values ({marks})', [[row.get(name) for name in known] for row in rows]
            )
    file.close()
    return path
