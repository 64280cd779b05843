"""Databases of msprof by the tables in Huawei's documents (Profile Data File References, msprof_{timestamp}.db)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

TID = 77 << 32 | 88
TABLES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "STRING_IDS": ("id, value", [
        (1, "AI_CORE"), (2, "MatMulV2"), (3, "MEMCPY_ASYNC"), (4, "launch"), (5, "aten::mm"), (6, "2,3;3,4"), (7, "step"),
        (8, "hcom_allReduce_"), (9, "group0"), (10, "EVENT_RECORD"), (11, "FLOAT"),
    ]),
    "TASK": ("startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, contextId, streamId, taskId, "
             "modelId, depth", [
        (1729733883833924932, 1729733883833935949, 0, 42, 100, 77, 1, 4294967295, 2, 11, 4294967295, 0),
        (1729733883833940000, 1729733883833942500, 0, 43, 101, 77, 3, 4294967295, 2, 12, 4294967295, 0),
        (1729733883833950000, 1729733883833950001, 0, 4294967295, 102, 77, 10, 4294967295, 2, 13, 4294967295, 0),
    ]),
    "COMPUTE_TASK_INFO": ("name, globalTaskId, blockDim, mixBlockDim, taskType, opType, inputShapes", [(2, 100, 24, 0, 1, 2, 6)]),
    "MEMCPY_INFO": ("globalTaskId, size, memcpyOperation", [(101, 4096, 1)]),
    "CANN_API": ("startNs, endNs, type, globalTid, connectionId, name", [
        (1729733883833910000, 1729733883833913250, 10000, TID, 42, 4),
    ]),
    "PYTORCH_API": ("startNs, endNs, globalTid, connectionId, name, sequenceNumber, fwdThreadId, inputDtypes, inputShapes", [
        (1729733883833900125, 1729733883833980625, TID, None, 5, 5, 0, 11, 6),
    ]),
    "MSTX_EVENTS": ("startNs, endNs, eventType, rangeId, category, message, globalTid, endGlobalTid, domainId, connectionId", [
        (1729733883833900000, 1729733883833990000, 2, 1, 4294967295, 7, TID, TID, 65535, 4294967295),
    ]),
    "COMMUNICATION_OP": ("opName, startNs, endNs, connectionId, groupName, opId, dataType, count, opType", [
        (8, 1729733883833960000, 1729733883833970000, 50, 9, 1, 3, 1000, 8),
    ]),
    "ENUM_HCCL_DATA_TYPE": ("id, name", [(3, "FP16")]),
    "AICORE_FREQ": ("deviceId, timestampNs, freq", [(0, 1729733883833900000, 1800)]),
    "NPU_INFO": ("id, name", [(0, "Ascend910B")]),
    "HOST_INFO": ("hostUid, hostName", [("u", "node3")]),
    "RANK_DEVICE_MAP": ("rankId, deviceId", [(0, 0)]),
    "HBM": ("deviceId, timestampNs, bandwidth", [(0, 1, 2)]),
}  # fmt: skip


def write_database(path: Path) -> Path:
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as file:
        file.execute("pragma page_size=512")
        for table, (columns, rows) in TABLES.items():
            file.execute(f"create table {table} ({columns})")
            file.executemany(f"insert into {table} values ({', '.join('?' * len(rows[0]))})", rows)
    file.close()
    return path
