"""Files of AMD's recorders by their schemas: rocprofv3 JSON (cxx/serialization.hpp), rocpd 3.0.3, 4.1 (rocpd_tables.sql)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

RUN = "_0a1b2c3d_4e5f"
#: One HIP call that launched a kernel, a copy, an allocation, ROCTx, scratch memory and a counter.
DOCUMENT: dict[str, Any] = {
    "rocprofiler-sdk-tool": [
        {
            "metadata": {
                "node": {"hostname": "node1"}, "pid": 77, "init_time": 100, "fini_time": 900,
                "command": ["./vector add", "1000"],
            },
            "agents": [
                {"id": {"handle": 1}, "type": 1, "name": "EPYC"},
                {"id": {"handle": 2}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "cu_count": 304,
                 "wave_front_size": 64, "lds_size_in_kb": 64, "gpu_index": 0, "domain": 0, "location_id": 0x0508,
                 "mem_banks": [{"size_in_bytes": 1024}], "max_engine_clk_fcompute": 2100},
            ],
            "counters": [{"id": {"handle": 9}, "name": "SQ_WAVES"}],
            "strings": {
                "buffer_records": [
                    {"kind": "NONE", "operations": []},
                    {"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc", "hipLaunchKernel", "hipMemcpy"]},
                    {"kind": "KERNEL_DISPATCH", "operations": ["NONE", "ENQUEUE", "COMPLETE"]},
                    {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE"]},
                    {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxThreadRangeA", "roctxProcessRangeA"]},
                    {"kind": "MEMORY_ALLOCATION", "operations": ["NONE", "MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE"]},
                    {"kind": "SCRATCH_MEMORY", "operations": ["NONE", "SCRATCH_MEMORY_ALLOC"]},
                ],
                "callback_records": [],
                "marker_api": [{"key": 11, "value": "here"}, {"key": 12, "value": "phase \u00e9"}],
            },
            "kernel_symbols": [
                {"kernel_id": 5, "kernel_name": "_Z4axpyfPfS_.kd", "formatted_kernel_name": "axpy", "arch_vgpr_count": 24,
                 "accum_vgpr_count": 8, "group_segment_size": 256},
            ],
            "callback_records": {
                "counter_collection": [
                    {"dispatch_data": {
                        "start_timestamp": 400,
                        "dispatch_info": {"agent_id": {"handle": 2}, "queue_id": {"handle": 3}, "kernel_id": 5,
                                          "workgroup_size": {"x": 1}, "grid_size": {"x": 1}}},
                     "records": [{"counter_id": {"handle": 9}, "value": 16.0}]},
                ],
            },
            "buffer_records": {
                "kernel_dispatch": [
                    {"size": 184, "kind": 2, "operation": 2, "thread_id": 78, "correlation_id": {"internal": 21, "external": 0},
                     "start_timestamp": 400, "end_timestamp": 460,
                     "dispatch_info": {
                         "size": 72, "agent_id": {"handle": 2}, "queue_id": {"handle": 3}, "kernel_id": 5, "dispatch_id": 1,
                         "private_segment_size": 16, "group_segment_size": 1280,
                         "workgroup_size": {"x": 64, "y": 2, "z": 1}, "grid_size": {"x": 1000, "y": 4, "z": 1}}},
                ],
                "hip_api": [
                    {"size": 48, "kind": 1, "operation": 1, "correlation_id": {"internal": 21, "external": 0},
                     "start_timestamp": 380, "end_timestamp": 390, "thread_id": 78},
                    {"size": 48, "kind": 1, "operation": 0, "correlation_id": {"internal": 20, "external": 0},
                     "start_timestamp": 300, "end_timestamp": 310, "thread_id": 78},
                ],
                "memory_copy": [
                    {"size": 64, "kind": 3, "operation": 2, "thread_id": 78, "correlation_id": {"internal": 22, "external": 0},
                     "start_timestamp": 320, "end_timestamp": 350, "dst_agent_id": {"handle": 2}, "src_agent_id": {"handle": 1},
                     "bytes": 4000, "stream_id": {"handle": 1}},
                ],
                "marker_api": [
                    {"size": 48, "kind": 4, "operation": 0, "correlation_id": {"internal": 11, "external": 0},
                     "start_timestamp": 305, "end_timestamp": 305, "thread_id": 78},
                    {"size": 48, "kind": 4, "operation": 1, "correlation_id": {"internal": 12, "external": 0},
                     "start_timestamp": 306, "end_timestamp": 500, "thread_id": 78},
                ],
                "memory_allocation": [
                    {"size": 64, "kind": 5, "operation": 1, "thread_id": 78, "correlation_id": {"internal": 20, "external": 0},
                     "start_timestamp": 301, "end_timestamp": 302, "agent_id": {"handle": 2}, "address": "0x7f0000001000",
                     "allocation_size": 4096},
                ],
                "scratch_memory": [
                    {"size": 64, "kind": 6, "operation": 1, "agent_id": {"handle": 2}, "queue_id": {"handle": 3},
                     "thread_id": 78, "start_timestamp": 395, "end_timestamp": 396,
                     "correlation_id": {"internal": 0, "external": 0}, "flags": 0},
                ],
                "pc_sample_host_trap": [{"size": 1}],
            },
        }
    ]
}  # fmt: skip

_SHARED = {
    "metadata": [("id integer, tag text, value text", [(1, "schema_version", "{version}")])],
    "string": [
        ("id integer, string text",
         [(1, "hipLaunchKernel"), (2, "HIP_RUNTIME_API"), (3, "roctxThreadRangeA"), (4, "MARKER_CORE_API"),
          (5, "MEMORY_COPY_HOST_TO_DEVICE")]),
    ],
    "info_node": [("id integer, hostname text", [(1, "node1")])],
    "info_process": [
        ("id integer, nid integer, ppid integer, pid integer, init bigint, fini bigint, start bigint, end bigint, command text",
         [(1, 1, 70, 77, 100, 900, None, None, "./vector 1000")]),
    ],
    "info_thread": [("id integer, nid integer, pid integer, tid integer, name text", [(6, 1, 1, 78, "worker")])],
    "info_agent": [
        ("id integer, nid integer, pid integer, type text, type_index integer, name text, product_name text, extdata text",
         [(1, 1, 1, "CPU", 0, "EPYC", "EPYC", "{}"),
          (2, 1, 1, "GPU", 0, "gfx942", "AMD Instinct MI300X", '{"cu_count": 304, "wave_front_size": 64}')]),
    ],
    "info_kernel_symbol": [
        ("id integer, kernel_name text, display_name text, group_segment_size integer, arch_vgpr_count integer, "
         "accum_vgpr_count integer", [(5, "_Z4axpyfPfS_.kd", "axpy", 256, 24, 8)]),
    ],
    "info_pmc": [("id integer, name text", [(9, "SQ_WAVES")])],
    "event": [
        ("id integer, category_id integer, stack_id integer, parent_stack_id integer, correlation_id integer, extdata text",
         [(31, 2, 21, 0, 0, "{}"), (32, 4, 12, 0, 0, '{"message": "phase \u00e9"}'), (33, None, 21, 0, 0, "{}"),
          (34, None, 22, 0, 0, "{}")]),
    ],
    "pmc_event": [("id integer, event_id integer, pmc_id integer, value real", [(1, 33, 9, 16.0)])],
}  # fmt: skip

_SIZES = ", ".join(f"{what}_size_{axis} integer" for what in ("workgroup", "grid") for axis in "xyz")
#: Schema 3: who and where are in every row.
_INLINE = {
    "region": [
        ("id integer, nid integer, pid integer, tid integer, start bigint, end bigint, name_id integer, event_id integer",
         [(1, 1, 1, 6, 380, 390, 1, 31), (2, 1, 1, 6, 306, 500, 3, 32)]),
    ],
    "kernel_dispatch": [
        ("id integer, nid integer, pid integer, tid integer, agent_id integer, kernel_id integer, dispatch_id integer, "
         f"queue_id integer, stream_id integer, start bigint, end bigint, private_segment_size integer, "
         f"group_segment_size integer, {_SIZES}, event_id integer",
         [(1, 1, 1, 6, 2, 5, 1, 3, 0, 400, 460, 16, 1280, 64, 2, 1, 1000, 4, 1, 33)]),
    ],
    "memory_copy": [
        ("id integer, nid integer, pid integer, tid integer, start bigint, end bigint, name_id integer, dst_agent_id integer, "
         "dst_address integer, src_agent_id integer, src_address integer, size integer, queue_id integer, stream_id integer, "
         "event_id integer", [(1, 1, 1, 6, 320, 350, 5, 2, -4096, 1, 0, 4000, 3, 1, 34)]),
    ],
    "memory_allocate": [
        ("id integer, nid integer, pid integer, tid integer, agent_id integer, type text, level text, start bigint, "
         "end bigint, address integer, size integer, event_id integer",
         [(1, 1, 1, 6, 2, "ALLOC", "REAL", 301, 302, 139637976731648, 4096, None)]),
    ],
}  # fmt: skip
#: Schema 4: they are in a track.
_TRACKED = {
    "track": [
        ("id integer, nid integer, pid integer, tid integer, agent_id integer, queue_id integer, stream_id integer",
         [(1, 1, 1, 6, None, None, None), (2, 1, 1, 6, 2, 3, 0), (3, 1, 1, 6, 2, 3, 1)]),
    ],
    "region": [
        ("id integer, track_id integer, name_id integer, start bigint, end bigint, event_id integer",
         [(1, 1, 1, 380, 390, 31), (2, 1, 3, 306, 500, 32)]),
    ],
    "kernel_dispatch": [
        ("id integer, track_id integer, kernel_id integer, dispatch_id integer, start bigint, end bigint, "
         f"private_segment_size integer, group_segment_size integer, {_SIZES}, event_id integer",
         [(1, 2, 5, 1, 400, 460, 16, 1280, 64, 2, 1, 1000, 4, 1, 33)]),
    ],
    "memory_copy": [
        ("id integer, track_id integer, start bigint, end bigint, name_id integer, dst_agent_id integer, src_agent_id integer, "
         "size integer, event_id integer", [(1, 3, 320, 350, 5, 2, 1, 4000, 34)]),
    ],
    "memory_allocate": [
        ("id integer, track_id integer, type text, level text, start bigint, end bigint, name_id integer, address integer, "
         "size integer, event_id integer", [(1, 2, "ALLOC", "REAL", 301, 302, 1, 139637976731648, 4096, None)]),
    ],
}  # fmt: skip


def write_rocpd(path: Path, version: str) -> Path:
    """A database of schema 3.x (inline) or 4.x (tracks), tables with the run's id and views without it."""
    path.unlink(missing_ok=True)
    tables = {**_SHARED, **(_INLINE if version.startswith("3") else _TRACKED)}
    with sqlite3.connect(path) as file:
        file.execute("pragma page_size=512")
        for table, ((columns, rows),) in tables.items():
            spelled = ", ".join(f'"{part.split()[0]}" {part.split()[1]}' for part in columns.split(", "))
            file.execute(f'create table "rocpd_{table}{RUN}" ({spelled})')
            rows = [tuple(version if value == "{version}" else value for value in row) for row in rows]
            marks = ", ".join("?" * len(rows[0]))
            file.executemany(f'insert into "rocpd_{table}{RUN}" values ({marks})', rows)
            file.execute(f'create view "rocpd_{table}" as select * from "rocpd_{table}{RUN}"')
        # rocprofv3 makes views for people too; SQLite counts their function among those that untrusted files may not use.
        file.execute("create view code_objects as select json_extract(extdata, '$.size') from rocpd_event")
    file.close()
    return path
