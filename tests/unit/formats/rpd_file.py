"""A database of rpd_tracer in miniature: schema 2 as a recording of it has it, rows of our own."""

from __future__ import annotations

import sqlite3
from pathlib import Path

_TABLES = {
    "rocpd_metadata": "id integer, tag varchar, value varchar",
    "rocpd_string": "id integer, string varchar",
    "rocpd_api": "id integer, pid integer, tid integer, start integer, end integer, apiName_id integer, args_id integer",
    "rocpd_op": "id integer, gpuId integer, queueId integer, sequenceId integer, completionSignal varchar, start integer, "
    "end integer, description_id integer, opType_id integer",
    "rocpd_api_ops": "id integer, api_id integer, op_id integer",
    "rocpd_kernelapi": "api_ptr_id integer, stream varchar, gridX integer, gridY integer, gridZ integer, workgroupX integer, "
    "workgroupY integer, workgroupZ integer, groupSegmentSize integer, privateSegmentSize integer, kernelName_id integer",
    "rocpd_copyapi": "api_ptr_id integer, stream varchar, size integer, width integer, height integer, kind integer",
    "rocpd_monitor": "id integer, deviceType varchar, deviceId integer, monitorType varchar, start integer, "
    "end integer, value varchar",
    "ext_callstack": "id integer, parent_id integer",
}  # fmt: skip
_TEXTS = (
    "", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemcpyAsync", "hipGraphLaunch", "hipMemsetAsync", "UserMarker",
    "hcc_activity_callback", "forward", "_Z4axpyfPfS_", "gemm.kd", "in_graph", "KernelExecution", "CopyHostToDevice",
    "FillBuffer", "Task", "MEMORY_COPY_HOST_TO_DEVICE", "Marker",
)  # fmt: skip
_ID = {text: number for number, text in enumerate(_TEXTS)}
#: Session ids take the upper half of a row's id.
_S = 1 << 32


def write_rpd(path: Path, *, sdk: bool = False) -> Path:
    """A file as roctracer fills it, or (`sdk`) rocprofiler-sdk, whose grids count work-items."""
    calls = [("hipMemcpyAsync", "", 100, 110), ("hipLaunchKernel", "", 120, 130), ("hipExtModuleLaunchKernel", "", 140, 150),
             ("hipGraphLaunch", "", 160, 170), ("hipMemsetAsync", "", 180, 190), ("UserMarker", "forward", 90, 300),
             ("hcc_activity_callback", "", 310, 320)]  # fmt: skip
    copy, task = ("MEMORY_COPY_HOST_TO_DEVICE", "KernelExecution") if sdk else ("CopyHostToDevice", "Task")
    fill = "KernelExecution" if sdk else "FillBuffer"
    work = [(1, copy, "", 200, 210), (2, "KernelExecution", "_Z4axpyfPfS_", 220, 240), (3, task, "gemm.kd", 250, 280),
            (4, task, "in_graph", 290, 291), (4, task, "in_graph", 292, 294), (5, fill, "", 295, 296),
            (9, "Marker", "", 297, 298)]  # fmt: skip
    grid = (512, 2, 1) if sdk else (7, 2, 1)
    rows: dict[str, list[tuple[object, ...]]] = {
        "rocpd_metadata": [(1, "schema_version", "2")],
        "rocpd_string": list(enumerate(_TEXTS)),
        "rocpd_api": [
            (_S + number, 77, 78, start, end, _ID[name], _ID[said])
            for number, (name, said, start, end) in enumerate(calls, 1)
        ],
        "rocpd_op": [
            (_S + number, 2, 5, 0, "", start, end, _ID[what], _ID[kind])
            for number, (_, kind, what, start, end) in enumerate(work, 1)
        ],
        "rocpd_api_ops": [(number, _S + call, _S + number) for number, (call, *_) in enumerate(work, 1)],
        "rocpd_kernelapi": [
            (_S + 2, "0x10", *grid, 256, 1, 1, 64, 8, _ID["_Z4axpyfPfS_"]),
            (_S + 3, "0x0", 1024, 1, 1, 256, 1, 1, 0, 0, _ID["gemm.kd"]),
        ],
        "rocpd_copyapi": [(_S + 1, "0x10", 65536, "", "", 1)],
        "rocpd_monitor": [(1, "gpu", 2, "sclk", 95, 200, "1700"), (2, "gpu", 3, "sclk", 95, 200, "n/a")],
        "ext_callstack": [(1, 2), (3, 4)],
    }  # fmt: skip
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as file:
        file.execute("pragma page_size=512")
        for table, columns in _TABLES.items():
            spelled = ", ".join(f'"{part.split()[0]}" {part.split()[1]}' for part in columns.split(", "))
            file.execute(f'create table "{table}" ({spelled})')
            marks = ", ".join("?" * len(rows[table][0]))
            file.executemany(f'insert into "{table}" values ({marks})', rows[table])
        file.execute("create view top as select json_extract(args_id, '$.x') as x from rocpd_api")
    file.close()
    return path
