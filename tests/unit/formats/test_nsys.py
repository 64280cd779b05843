"""Nsight Systems: a real export against SQL on the same file, and every table of the schema against its rows."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from tests.unit.formats import nsys_export
from tests.unit.formats.stored import stored
from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files
from warpsight.model import StoredTrace
from warpsight.model import open as open_trace

GOLDEN = Path(__file__).parents[2] / "golden/formats/nsys/every_table.sqlite"


@pytest.fixture(scope="module")
def real_file() -> Path:
    folder = os.environ.get("WARPSIGHT_TEST_DATA")
    if not folder:
        pytest.skip("WARPSIGHT_TEST_DATA names no folder with real traces")
    return Path(folder) / "nsys_h100_2gpu_1s.sqlite"


@pytest.fixture(scope="module")
def real(real_file: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredTrace:
    out = tmp_path_factory.mktemp("nsys") / "real.warp"
    assert import_files([real_file], out).files[0].format == "nsys"
    return open_trace(out)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> StoredTrace:
    out = tmp_path_factory.mktemp("nsys") / "every.warp"
    import_files([GOLDEN], out)
    return open_trace(out)


def sqlite(path: Path, text: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
        return file.execute(text).fetchall()


KERNELS = """
select k.start, k.end - k.start, s.value, k.correlationId, k.streamId, k.contextId, k.deviceId,
       (k.globalPid >> 24) & 16777215, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread,
       staticSharedMemory, dynamicSharedMemory, clusterX
from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds s on s.id = coalesce(k.mangledName, k.demangledName)
"""
OUR_KERNELS = """
select k.start, k.duration, n.name, k.correlation, k.stream, k.context, d.index, p.pid,
       s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z, s.registers, s.shared_static, s.shared_dynamic,
       s.cluster_x
from kernel k join name n on n.id = k.name_id join shape s on s.id = k.shape_id join process p using (process)
     join device d using (device)
"""


@pytest.fixture(scope="module")
def real_path(real: StoredTrace) -> Path:
    return Path(str(real.path))


def test_kernels_of_a_real_export_equal_its_own_rows(real_file: Path, real_path: Path) -> None:
    theirs = sqlite(real_file, KERNELS)
    assert len(theirs) == 3442
    assert sorted(stored(real_path, OUR_KERNELS)) == sorted(theirs)


def test_copies_and_fills_of_a_real_export_equal_its_own_rows(real_file: Path, real_path: Path) -> None:
    theirs = sqlite(
        real_file,
        "select start, end - start, bytes, case copyKind when 1 then 'HtoD' when 2 then 'DtoH' when 8 then 'DtoD' "
        "when 10 then 'PtoP' else '?' end, correlationId, streamId from CUPTI_ACTIVITY_KIND_MEMCPY",
    )
    ours = stored(real_path, "select start, duration, bytes, kind, correlation, stream from memcpy")
    assert sorted(ours) == sorted(theirs)
    theirs = sqlite(
        real_file, "select start, end - start, bytes, value, correlationId from CUPTI_ACTIVITY_KIND_MEMSET"
    )
    assert sorted(
        stored(real_path, "select start, duration, bytes, value, correlation from memset")
    ) == sorted(theirs)


def test_a_copy_is_asynchronous_when_its_call_was(real_file: Path, real_path: Path) -> None:
    (count,) = sqlite(
        real_file,
        "select count(*) from CUPTI_ACTIVITY_KIND_MEMCPY m where exists (select 1 from CUPTI_ACTIVITY_KIND_RUNTIME r "
        "join StringIds s on s.id = r.nameId where r.correlationId = m.correlationId and s.value like '%Async%' "
        "and r.globalTid >> 24 = m.globalPid >> 24)",
    )[0]
    assert count > 0
    assert stored(real_path, "select count(*) from memcpy where asynchronous") == [(count,)]


def test_every_call_of_a_real_export_is_there_once(real_file: Path, real_path: Path) -> None:
    theirs = Counter(
        (name.rsplit("_v", 1)[0], correlation, tid & 0xFFFFFF, start, length)
        for name, correlation, tid, start, length in sqlite(
            real_file,
            "select s.value, correlationId, globalTid, start, end - start from CUPTI_ACTIVITY_KIND_RUNTIME r "
            "join StringIds s on s.id = r.nameId",
        )
    )
    columns = "function, correlation, thread, start, duration"
    ours = Counter(stored(real_path, f"select {columns} from launch union all select {columns} from api"))
    assert ours == theirs
    launched = {name for (name,) in stored(real_path, "select distinct function from launch")}
    assert launched == {"cudaLaunchKernel", "cudaLaunchKernelExC"}


def test_kernels_join_their_launches_as_in_the_export(real_file: Path, real_path: Path) -> None:
    (theirs,) = sqlite(
        real_file,
        "select count(*), sum(k.start - r.start) from CUPTI_ACTIVITY_KIND_KERNEL k join CUPTI_ACTIVITY_KIND_RUNTIME r "
        "on r.correlationId = k.correlationId and r.globalTid >> 24 = k.globalPid >> 24",
    )
    text = "select count(*), sum(k.start - l.start) from kernel k join launch l using (process, correlation)"
    assert stored(real_path, text) == [theirs]


def test_torchs_ranges_become_operators_without_their_numbers(real_file: Path, real_path: Path) -> None:
    theirs = Counter(
        text.split(", op_id")[0].split(", seq =")[0]
        for (text,) in sqlite(real_file, "select text from NVTX_EVENTS")
    )
    ours = stored(real_path, "select name, count(*) from op join name on id = name_id group by 1")
    assert dict(ours) == dict(theirs)
    assert sum(theirs.values()) == 16_782
    (total,) = sqlite(real_file, "select sum(end - start) from NVTX_EVENTS")
    assert stored(real_path, "select sum(duration) from op") == [total]


def test_the_manifest_says_what_made_the_export(real_path: Path) -> None:
    manifest = json.loads((real_path / "manifest.json").read_text())
    text = json.dumps(manifest)
    assert "2026.2.1.210" in text
    assert "MODAL_TASK_SECRET" not in text  # of the environment only what `record` keeps
    assert stored(real_path, "select monotonic, realtime from clock") == [(0, 1779630014975716426)]


def test_the_golden_file_is_what_its_builder_writes(tmp_path: Path) -> None:
    built = nsys_export.write_sqlite(tmp_path / "x.sqlite")
    for table in nsys_export.TABLES:
        assert sqlite(built, f'select * from "{table}"') == sqlite(GOLDEN, f'select * from "{table}"')


@pytest.fixture(scope="module")
def every_path(every: StoredTrace) -> Path:
    return Path(str(every.path))


def test_a_devices_number_is_looked_up_in_its_process(every_path: Path) -> None:
    assert stored(every_path, "select uuid, pci, compute_capability, driver, host from device") == [
        ("GPU-aaaa-0001", "0000:0a:00.0", "8.0", "550.54", "node7")
    ]


def test_kernels_carry_launch_type_graph_and_mangled_name(every_path: Path) -> None:
    text = (
        "select start, duration, name, demangled, launch_type, graph, graph_node, graph_level "
        "from kernel left join name on id = name_id left join shape on shape.id = shape_id order by start"
    )
    assert stored(every_path, text) == [
        (1000, 500, "_Z4axpyfPfS_", "axpy(float, float*, float*)", "cooperative", 2, 8_589_934_593, False),
        (2000, 900, "CUDA graph 5", "CUDA graph 5", None, 5, None, True),
    ]


def test_a_kernel_has_the_best_name_that_the_file_has_a_text_of(tmp_path: Path) -> None:
    kernel = nsys_export.TABLES["CUPTI_ACTIVITY_KIND_KERNEL"][0]
    names = [(1, 2, 3), (0, 2, 3), (None, 2, 3), (0, 0, 3), (77, 78, 3), (77, 78, 79)]
    kernels = [
        kernel | {"mangledName": mangled, "demangledName": demangled, "shortName": short, "start": start}
        for start, (mangled, demangled, short) in enumerate(names)
    ]
    path = nsys_export.write_sqlite(
        tmp_path / "x.sqlite",
        {**nsys_export.TABLES, "CUPTI_ACTIVITY_KIND_KERNEL": kernels},
    )
    import_files([path], tmp_path / "x.warp")
    text = "select name from kernel left join name on id = name_id where start < 10 order by start"
    long = "axpy(float, float *, float *)"
    assert [name for (name,) in stored(tmp_path / "x.warp", text)] == [
        "_Z4axpyfPfS_", long, long, "axpy", "axpy", None,
    ]  # fmt: skip


def test_migrations_are_copies_with_their_cause(every_path: Path) -> None:
    text = "select kind, source_kind, asynchronous, stream from memcpy order by start"
    assert stored(every_path, text) == [("HtoD", "pinned", True, 7), ("HtoD", "managed", False, -1)]
    assert stored(
        every_path, "select row, key, value from attribute where \"table\" = 'memcpy' order by key"
    ) == [
        (1, "address", "4096"),
        (1, "migration cause", '"page fault"'),
    ]


def test_memory_of_migrations_is_managed_also_where_the_file_calls_it_unknown(tmp_path: Path) -> None:
    path = nsys_export.write_sqlite(tmp_path / "x.sqlite")
    with sqlite3.connect(path) as file:
        file.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET srcKind = 7, dstKind = 7")
    import_files([path], tmp_path / "x.warp")
    text = "select source_kind, destination_kind from memcpy order by start"
    assert stored(tmp_path / "x.warp", text) == [("unknown", "unknown"), ("managed", "managed")]


def test_a_launch_that_made_a_graph_node_was_captured(every_path: Path) -> None:
    assert stored(every_path, "select start, function, captured, result from launch order by start") == [
        (100, "cudaLaunchKernel", True, 0),
        (900, "cudaLaunchKernel", False, 0),
        (1900, "cudaGraphLaunch", False, 700),
    ]
    assert stored(every_path, "select graph_node, original, graph, kind from graph_node") == [
        (8_589_934_593, 4_294_967_297, 2, "kernel")
    ]
    assert stored(every_path, "select graph, original, executable from graph order by 1") == [
        (1, None, False),
        (5, 1, True),
    ]


def test_call_chains_become_stacks_outermost_first(every_path: Path) -> None:
    text = """
    with recursive up as (
      select l.start, s.parent, f.function, f.file, s.depth from launch l join stack s on s.id = l.stack
      join frame f on f.id = s.frame
      union all select up.start, s.parent, f.function, f.file, s.depth from up join stack s on s.id = up.parent
      join frame f on f.id = s.frame)
    select start, list(function order by depth), list(file order by depth) from up group by start order by start
    """
    assert stored(every_path, text) == [
        (900, ["main", "train"], ["/app/model", "/app/model"]),
        (1900, ["main", "0x1234"], ["/app/model", "libcuda.so"]),
    ]


def test_ranges_keep_domain_category_depth_and_payload(every_path: Path) -> None:
    text = (
        "select start, duration, kind, open, name, domain, category, color, payload, depth, attributes, thread "
        "from marker join name on id = name_id order by start"
    )
    assert [row for row in stored(every_path, text) if not row[4].startswith("nccl")] == [
        (100, 800, "push/pop", False, "step", None, None, 0xFF00FF00, None, 0, None, 43),
        (150, 800, "start/end", False, "copy", "my.library", "io", None, None, None, '{"n": 1}', 43),
        (200, 100, "push/pop", False, "registered range", None, "4", None, -5.0, 1, None, 43),
        (333, None, "instant", False, "mark", None, None, None, None, None, None, 44),
        (400, None, "push/pop", True, "never closed", None, None, None, None, 0, None, 44),
        (600, 50, "push/pop", False, "MPI_Send", "MPI", None, None, None, None,
         '{"remoteRank": 2, "tag": 11, "size": 64, "commHandle": 1}', 43),
    ]  # fmt: skip
    text = "select name, sequence, shapes, attributes from op join name on id = name_id"
    assert stored(every_path, text) == [("aten::mm", 7, "[[2, 3], [3, 4]]", '{"op_id": 17}')]


def test_structured_payloads_are_attributes_and_ncclallreduce_a_collective_of_its_kernel(
    every_path: Path,
) -> None:
    text = (
        "select name, attributes from marker join name on id = name_id where name like 'nccl%' order by start"
    )
    assert [(name, json.loads(found)) for name, found in stored(every_path, text)] == [
        ("ncclCommInitRank", {"NCCL communicator ID": 0xABC, "No. of ranks": 8, "Rank": 3}),
        ("ncclAllReduce", {"NCCL communicator ID": 0xABC, "Message size [bytes]": 1 << 33}),
    ]
    text = 'select start, duration, operation, bytes, ranks, "group", correlation from collective'
    assert stored(every_path, text) == [(1000, 500, "all-reduce", 1 << 33, 8, "0xabc", 1)]


def test_memory_pools_and_faults(every_path: Path) -> None:
    text = "select time, operation, address, bytes, pool, pool_size, pool_used, tag from memory order by time"
    assert stored(every_path, text) == [
        (19, "pool create", 65536, None, 65536, 4096, 0, None),
        (20, "allocate", 2**64 - 4096, 1024, 65536, 4096, 1024, "weights"),
        (30, "free", 2**64 - 4096, 1024, None, None, None, None),
    ]
    text = "select name, value from counter where name like 'unified%' order by 1"
    assert stored(every_path, text) == [
        ("unified memory CPU page faults", 1),
        ("unified memory GPU page faults", 3),
    ]


def test_metrics_have_unit_and_device(every_path: Path) -> None:
    text = (
        "select c.name, value, unit, uuid, source from counter c left join device using (device) "
        "where source != 'cupti' order by 1"
    )
    assert stored(every_path, text) == [
        ("GPC Clock Frequency", 1410, "MHz", "GPU-aaaa-0001", "gpu metrics"),
        ("SM Active", 87, "%", "GPU-aaaa-0001", "gpu metrics"),
        ("mlx5_0 port 1: Bytes sent", 12345, "B", None, "network"),
    ]


def test_samples_calls_and_process(every_path: Path) -> None:
    assert stored(every_path, "select time, thread, state, stack is null from sample order by 1") == [
        (45, 43, "R", False),
        (55, 44, "S", True),
    ]
    assert stored(every_path, "select function from api order by start") == [
        ("pthread_mutex_lock",), ("cuMemcpyHtoDAsync_v2",), ("cublasSgemm_v2",),
    ]  # fmt: skip
    assert stored(every_path, "select pid, host, rank, command from process") == [(42, "node7", 3, "python")]
    assert stored(every_path, "select name from thread where thread = 43") == [("worker",)]


def test_what_was_not_imported_and_what_nsight_warned_of_is_said(every_path: Path) -> None:
    causes = [cause for (cause,) in stored(every_path, "select cause from loss")]
    assert any("SCHED_EVENTS (1 rows)" in cause for cause in causes)
    assert "Nsight Systems: Not all NVTX events were collected." in causes
    assert not any("initialised" in cause for cause in causes)


def test_an_export_of_2022_reads_although_columns_are_missing(tmp_path: Path) -> None:
    file = nsys_export.write_sqlite(tmp_path / "old.sqlite", nsys_export.OLD)
    import_files([file], tmp_path / "old.warp")
    assert stored(tmp_path / "old.warp", "select name, graph from kernel join name on id = name_id") == [
        ("axpy(float, float *, float *)", None)
    ]
    assert stored(tmp_path / "old.warp", "select count(*) from launch") == [(3,)]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_folders_of_parquet_and_arrow_give_the_same_rows(kind: str, tmp_path: Path, every_path: Path) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    for table, rows in nsys_export.TABLES.items():
        known = nsys_export.columns(rows)
        data = pa.table({name: [row.get(name) for row in rows] for name in known})
        if kind == "parquet":
            pq.write_table(data, folder / f"{table}.parquet")
        else:
            pyarrow.feather.write_feather(data, folder / f"{table}.arrow")
    import_files([folder], tmp_path / "out.warp")
    for table in (
        "kernel",
        "memcpy",
        "launch",
        "api",
        "marker",
        "op",
        "memory",
        "counter",
        "sample",
        "graph_node",
    ):
        text = f"select * from {table} order by all"
        assert stored(tmp_path / "out.warp", text) == stored(every_path, text), table


def test_a_report_goes_through_the_installed_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_path: Path
) -> None:
    program = tmp_path / "bin/nsys"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/arguments\n"
        f'for a; do case "$a" in --output=*) cp {GOLDEN} "${{a#--output=}}";; esac; done\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    report = tmp_path / "a report.nsys-rep"
    report.write_bytes(b"whatever NVIDIA writes")
    import_files([report], tmp_path / "out.warp")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:2] == ["export", "--type=sqlite"]
    assert arguments[-1] == str(report)
    text = "select * from kernel order by start"
    assert stored(tmp_path / "out.warp", text) == stored(every_path, text)


def test_a_report_without_nsys_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = tmp_path / "x.nsys-rep"
    report.write_bytes(b"whatever NVIDIA writes")
    with pytest.raises(FormatError, match=r"nsys export --type=sqlite x\.nsys-rep"):
        import_files([report], tmp_path / "out.warp")


def test_a_column_of_the_wrong_type_is_an_error_that_names_it(tmp_path: Path) -> None:
    kernel = nsys_export.OLD["CUPTI_ACTIVITY_KIND_KERNEL"][0]
    tables = {**nsys_export.OLD, "CUPTI_ACTIVITY_KIND_KERNEL": [{**kernel, "start": "soon"}]}
    file = nsys_export.write_sqlite(tmp_path / "bad.sqlite", tables)
    with pytest.raises(FormatError, match=r"column start of table CUPTI_ACTIVITY_KIND_KERNEL"):
        import_files([file], tmp_path / "out.warp")


def test_texts_that_are_no_utf8_are_read_with_replacements(tmp_path: Path) -> None:
    file = nsys_export.write_sqlite(tmp_path / "x.sqlite")
    with sqlite3.connect(file) as open_file:
        names = [row[1] for row in open_file.execute("pragma table_info(TARGET_INFO_SYSTEM_ENV)")]
        values = [
            "cast(x'0ADF0108' as text)" if name == "value" else "'Gpu'" if name.startswith("name") else "null"
            for name in names
        ]
        open_file.execute(f"insert into TARGET_INFO_SYSTEM_ENV values ({', '.join(values)})")
    open_file.close()
    out, whole = tmp_path / "out.warp", tmp_path / "whole.warp"
    import_files([file], out)
    import_files([nsys_export.write_sqlite(tmp_path / "y.sqlite")], whole)
    assert stored(out, "select count(*) from kernel") == stored(whole, "select count(*) from kernel")


def test_an_export_before_2023_2_says_what_made_it_under_another_name(tmp_path: Path) -> None:
    made = [("EXPORT_PRODUCT_VERSION", "2022.2.1.31"), ("EXPORT_CONFIG_TIME_SHIFT", "500")]
    tables = {
        **nsys_export.OLD,
        "EXPORT_META_DATA": [{"name": name, "value": value} for name, value in made],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000}],
    }
    import_files([nsys_export.write_sqlite(tmp_path / "old.sqlite", tables)], tmp_path / "old.warp")
    assert "2022.2.1.31" in (tmp_path / "old.warp/manifest.json").read_text()
    assert stored(tmp_path / "old.warp", "select monotonic from clock") == [(500,)]
    assert not list((tmp_path / "old.warp").glob("**/*loss*"))  # no table of the export was left out


def test_what_a_wait_is_for_is_what_its_call_says(tmp_path: Path) -> None:
    """Exports of several years number the kinds differently: in some, type 1 is cudaDeviceSynchronize."""
    wait = nsys_export.TABLES["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"][0]
    call = nsys_export.OLD["CUPTI_ACTIVITY_KIND_RUNTIME"][0]
    names = [
        "cudaDeviceSynchronize_v3020",
        "cudaEventSynchronize_v3020",
        "cuStreamSynchronize",
        "something else",
        "cudaThreadSynchronize_v3020",
    ]
    tables = {
        **nsys_export.OLD,
        "StringIds": [
            *nsys_export.OLD["StringIds"],
            *({"id": 100 + i, "value": v} for i, v in enumerate(names)),
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            {**call, "start": 5000 + i, "end": 5000 + i, "correlationId": 100 + i, "nameId": 100 + i}
            for i in range(len(names))
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            {**wait, "start": 5000 + i, "end": 5000 + i, "correlationId": 100 + i, "syncType": i % 2 + 1}
            for i in range(len(names) + 1)
        ],
    }
    import_files([nsys_export.write_sqlite(tmp_path / "old.sqlite", tables)], tmp_path / "old.warp")
    found = stored(tmp_path / "old.warp", "select kind from sync order by start")
    assert [kind for (kind,) in found] == [
        "context",
        "event",
        "stream",
        "stream wait event",
        "context",
        "stream wait event",
    ]


@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "start", "memcpy"),
        ("CUDA_GPU_MEMORY_USAGE_EVENTS", "address", "memory"),
        ("GPU_METRICS", "value", "counter"),
    ],
)
def test_a_row_without_a_value_costs_that_row(table: str, column: str, kind: str, tmp_path: Path) -> None:
    first, *others = nsys_export.TABLES[table]
    nsys_export.write_sqlite(
        tmp_path / "gap.sqlite", {**nsys_export.TABLES, table: [*others, {**first, column: None}]}
    )
    whole = import_files([nsys_export.write_sqlite(tmp_path / "whole.sqlite")], tmp_path / "whole.warp")
    made = import_files([tmp_path / "gap.sqlite"], tmp_path / "gap.warp")
    with open_trace(made.path) as trace, open_trace(whole.path) as complete:
        assert trace.count(kind) == complete.count(kind) - 1
        lost = trace.sql("SELECT count, cause, kind FROM loss WHERE cause LIKE 'rows without%'").fetchall()
    assert [(count, of) for count, _, of in lost] == [(1, kind)]


def test_memory_that_was_allocated_before_there_was_a_context(tmp_path: Path) -> None:
    none = 0xFFFFFFFF  # CUPTI's id of no context, no stream, no device
    pinned, freed = nsys_export.TABLES["CUDA_GPU_MEMORY_USAGE_EVENTS"]
    changed = {
        **nsys_export.TABLES,
        "CUDA_GPU_MEMORY_USAGE_EVENTS": [
            {**pinned, "deviceId": none, "contextId": none, "streamId": none},
            freed,
        ],
    }
    nsys_export.write_sqlite(tmp_path / "early.sqlite", changed)
    made = import_files([tmp_path / "early.sqlite"], tmp_path / "early.warp")
    with open_trace(made.path) as trace:
        rows = trace.sql(
            "SELECT time, device, context, stream, bytes FROM memory WHERE bytes > 0 ORDER BY time"
        )
        assert rows.fetchall() == [(20, None, None, None, 1024), (30, 0, 1, None, 1024)]


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"])
def test_a_profile_of_nvprof_is_named_as_such(table: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "timeline.nvvp") as file:
        file.execute("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)")
        file.execute(f"CREATE TABLE {table} (_id_ INTEGER, start INTEGER, end INTEGER)")
    with pytest.raises(FormatError, match="is a profile of nvprof or the Visual Profiler"):
        import_files([tmp_path / "timeline.nvvp"], tmp_path / "out.warp")
