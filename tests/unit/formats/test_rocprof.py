"""rocprofv3, rocprofv2 and rocprof: a real JSON against its own records, and every form against one run written by its schema."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.formats import rocprof_files
from tests.unit.formats.stored import stored
from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files

GOLDEN = Path(__file__).parents[2] / "golden/formats/rocprof"
KERNELS = (
    "select kernel.start, duration, name.name, demangled, grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, "
    "shared_static, "
    "shared_dynamic, local_per_thread, stream, correlation, d.name from kernel join name on name_id = name.id "
    "join shape on shape_id = shape.id join device d using (device)"
)
#: 1000 × 4 work-items in groups of 64 × 2: 16 × 2 groups, the last column partial.
KERNEL = (400, 60, "_Z4axpyfPfS_", "axpy(float, float*, float*)", 16, 2, 1, 64, 2, 1, 32, 256, 1024, 16)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rocprof")
    (folder / "results.json").write_text(json.dumps(rocprof_files.DOCUMENT))
    import_files([folder / "results.json"], folder / "out.warp")
    return folder / "out.warp"


def test_kernels_of_a_real_run_equal_its_own_records(tmp_path: Path) -> None:
    data = os.environ.get("WARPSIGHT_TEST_DATA")
    if not data:
        pytest.skip("WARPSIGHT_TEST_DATA names no folder with real traces")
    file = Path(data) / "rocprofv3_results.json.gz"
    assert import_files([file], tmp_path / "out.warp").files[0].format == "rocprof"
    with gzip.open(file) as stream:
        run = json.load(stream)["rocprofiler-sdk-tool"][0]
    names = {
        symbol["kernel_id"]: symbol["kernel_name"].removesuffix(".kd") for symbol in run["kernel_symbols"]
    }
    theirs: Counter[Any] = Counter()
    for record in run["buffer_records"]["kernel_dispatch"]:
        info = record["dispatch_info"]
        theirs[
            record["start_timestamp"],
            record["end_timestamp"] - record["start_timestamp"],
            names[info["kernel_id"]],
            record["correlation_id"]["internal"],
            record["stream_id"]["handle"],
            info["workgroup_size"]["x"],
            -(-info["grid_size"]["x"] // info["workgroup_size"]["x"]),
            info["agent_id"]["handle"] - 37946,
        ] += 1
    ours = Counter(
        stored(
            tmp_path / "out.warp",
            "select start, duration, n.name, correlation, stream, block_x, grid_x, d.index from kernel "
            "join name n on n.id = name_id "
            "join shape s on s.id = shape_id join device d using (device)",
        )
    )
    assert sum(theirs.values()) == 43_915
    assert ours == theirs
    assert stored(
        tmp_path / "out.warp", "select count(*) from device where name = 'AMD Instinct MI350X (gfx950)'"
    ) == [(8,)]


def test_the_excerpt_reads_like_the_file_it_was_cut_from(tmp_path: Path) -> None:
    file = GOLDEN / "excerpt_results.json"
    import_files([file], tmp_path / "out.warp")
    run = json.loads(file.read_text())["rocprofiler-sdk-tool"][0]
    records = run["buffer_records"]["kernel_dispatch"]
    total = sum(record["end_timestamp"] - record["start_timestamp"] for record in records)
    assert stored(tmp_path / "out.warp", "select count(*), sum(duration) from kernel") == [
        (len(records), total)
    ]


def test_json_grids_are_in_blocks_and_lds_is_split(document: Path) -> None:
    assert stored(document, KERNELS) == [(*KERNEL, 3, 21, "AMD Instinct MI300X (gfx942)")]


def test_json_copies_calls_and_memory(document: Path) -> None:
    text = "select start, duration, bytes, kind, source_kind, destination_kind, stream, correlation, device from memcpy"
    assert stored(document, text) == [(320, 30, 4000, "HtoD", "host", "device", 1, 22, 0)]
    assert stored(document, "select function, correlation, thread from launch") == [
        ("hipLaunchKernel", 21, 78)
    ]
    assert stored(document, "select function, correlation, thread from api") == [("hipMalloc", 20, 78)]
    assert stored(
        document, "select time, operation, address, bytes, kind, allocator, device from memory order by 1"
    ) == [
        (301, "allocate", 0x7F0000001000, 4096, "device", "ROCm", 0),
        (395, "allocate", 0, None, "scratch", "ROCm scratch", 0),
    ]


def test_json_ranges_and_counters(document: Path) -> None:
    text = "select start, duration, kind, name, domain from marker join name on id = name_id order by 1"
    assert stored(document, text) == [
        (305, None, "instant", "here", "roctx"),
        (306, 194, "push/pop", "phase é", "roctx"),
    ]
    assert stored(document, "select time, name, value, device from counter") == [(400, "SQ_WAVES", 16.0, 0)]


def test_json_devices_process_and_what_is_left_out(document: Path) -> None:
    text = "select name, pci, multiprocessors, warp_size, shared_per_multiprocessor, memory_bytes, clock_khz from device"
    assert stored(document, text) == [
        ("AMD Instinct MI300X (gfx942)", "0000:05:01.0", 304, 64, 65536, 1024, 2_100_000)
    ]
    assert stored(document, 'select pid, host, command, start, "end" from process') == [
        (77, "node1", "'./vector add' 1000", 100, 900)
    ]
    assert stored(document, "select cause from loss") == [
        ("buffers that were not imported: pc_sample_host_trap (1 records)",)
    ]


@pytest.mark.parametrize("version", ["3.0.3", "4.1.0"])
def test_rocpd_tells_the_same_run_in_both_schemas(version: str, tmp_path: Path) -> None:
    file = rocprof_files.write_rocpd(tmp_path / "77_results.db", version)
    assert import_files([file], tmp_path / "out.warp").files[0].format == "rocprof"
    out = tmp_path / "out.warp"
    assert stored(out, KERNELS) == [(*KERNEL, 0, 21, "AMD Instinct MI300X (gfx942)")]
    text = "select start, duration, bytes, kind, stream, correlation, source_device, destination_device from memcpy"
    assert stored(out, text) == [(320, 30, 4000, "HtoD", 1, 22, None, 0)]
    assert stored(out, "select function, correlation, thread from launch") == [("hipLaunchKernel", 21, 78)]
    text = "select start, duration, name from marker join name on id = name_id"
    assert stored(out, text) == [(306, 194, "phase é")]
    assert stored(out, "select time, operation, address, bytes, thread from memory") == [
        (301, "allocate", 139637976731648, 4096, 78)
    ]
    assert stored(out, "select time, name, value, device from counter") == [(400, "SQ_WAVES", 16.0, 0)]
    assert stored(out, "select pid, parent, host, command from process") == [
        (77, 70, "node1", "./vector 1000")
    ]
    assert stored(out, "select name from thread") == [("worker",)]
    assert version in (out / "manifest.json").read_text()


KERNEL_CSV = """\
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",\
"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",\
"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 4",1,2,78,1,5,"void add<float, 2>(float*, ""x"")",21,9007199254740993,9007199254741000,\
1280,16,24,8,32,64,2,1,1000,4,1
"""


def test_a_folder_of_csv_is_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "node1"
    folder.mkdir()
    (folder / "77_kernel_trace.csv").write_text(KERNEL_CSV)
    (folder / "77_hip_api_trace.csv").write_text(
        '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"HIP_RUNTIME_API","hipLaunchKernel",77,78,21,10,20\n"HIP_RUNTIME_API","hipMalloc",77,78,20,5,6\n'
    )
    (folder / "77_marker_api_trace.csv").write_text(
        '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"MARKER_CORE_API","step 1",77,78,1,3,9\n"MARKER_CORE_API","now",77,78,4,4,4\n'
    )
    (folder / "77_memory_copy_trace.csv").write_text(
        '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 4",19,7,8\n'
    )
    (folder / "77_kernel_stats.csv").write_text('"Name","Calls"\n"x",1\n')
    import_files([folder], tmp_path / "out.warp")
    out = tmp_path / "out.warp"
    text = (
        "select kernel.start, duration, n.name, grid_x, grid_y, registers, shared_dynamic, stream, correlation, pid from kernel "
        "join name n on n.id = name_id join shape s on s.id = shape_id join process using (process)"
    )
    assert stored(out, text) == [
        (9007199254740993, 7, 'void add<float, 2>(float*, "x")', 16, 2, 32, 1280, 2, 21, 77)
    ]
    assert stored(out, "select pid from process") == [(77,)]
    assert stored(out, "select function from launch union all select function from api") == [
        ("hipLaunchKernel",),
        ("hipMalloc",),
    ]
    text = "select name, kind, duration from marker join name on id = name_id order by start"
    assert stored(out, text) == [("step 1", "push/pop", 6), ("now", "instant", None)]
    kernel_device = stored(out, "select device from kernel")
    assert stored(out, "select device from memcpy") == kernel_device
    assert any("size of copies" in cause for (cause,) in stored(out, "select cause from loss"))


def test_rocprofv2_and_rocprof_csv(tmp_path: Path) -> None:
    second = tmp_path / "results_a.csv"
    second.write_text(
        "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
        "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES\n"
        '1,2,1,77,78,1000,64,512,0,24,8,32,64,"axpy(float*, float)",100,160,21,16\n'
    )
    first = tmp_path / "results_b.csv"
    first.write_text(
        '"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","arch_vgpr","accum_vgpr",'
        '"sgpr","wave_size","sig","obj","DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"\n'
        '0,"axpy(float*, float) [clone .kd]",2,0,0,77,78,1000,64,512,0,24,8,32,64,"0x0","0x7f","90","100","160","170","60"\n'
    )
    text = (
        "select kernel.start, duration, grid_x, block_x, registers, shared_dynamic, pid, queued from kernel "
        "join shape on id = shape_id join process using (process)"
    )
    for file, queued in ((second, None), (first, 90)):
        out = tmp_path / f"{file.stem}.warp"
        assert import_files([file], out).files[0].format == "rocprof"
        assert stored(out, text) == [(100, 60, 16, 64, 32, 512, 77, queued)]
    assert stored(tmp_path / "results_a.warp", "select name, value, time from counter") == [
        ("SQ_WAVES", 16.0, 100)
    ]


def test_a_document_that_ends_early_says_where(tmp_path: Path) -> None:
    text = json.dumps(rocprof_files.DOCUMENT)
    (tmp_path / "cut.json").write_text(text[: len(text) // 2])
    with pytest.raises(FormatError, match=r"cut\.json.*truncated"):
        import_files([tmp_path / "cut.json"], tmp_path / "out.warp", "rocprof")


def test_a_number_that_is_none_names_its_column(tmp_path: Path) -> None:
    (tmp_path / "1_kernel_trace.csv").write_text(KERNEL_CSV.replace("9007199254740993", "soon"))
    with pytest.raises(FormatError, match="column starttimestamp holds 'soon'"):
        import_files([tmp_path / "1_kernel_trace.csv"], tmp_path / "out.warp")


def test_addresses_of_a_copy_are_kept_where_they_are_told(tmp_path: Path) -> None:
    import_files([GOLDEN / "results.db"], tmp_path / "out.warp")
    text = "select source_address, destination_address from memcpy"
    assert stored(tmp_path / "out.warp", text) == [(None, 2**64 - 4096)]


def test_scratch_memory_of_csv_is_memory(tmp_path: Path) -> None:
    (tmp_path / "5_scratch_memory_trace.csv").write_text(
        '"Kind","Operation","Agent_Id","Queue_Id","Thread_Id","Alloc_Flags","Start_Timestamp","End_Timestamp"\n'
        '"SCRATCH_MEMORY","SCRATCH_MEMORY_ALLOC","Agent 4",1,113,0,1000,1500\n'
        '"SCRATCH_MEMORY","SCRATCH_MEMORY_FREE","Agent 4",1,113,0,2000,2500\n'
    )
    import_files([tmp_path / "5_scratch_memory_trace.csv"], tmp_path / "out.warp")
    text = "select time, operation, kind, thread from memory order by 1"
    assert stored(tmp_path / "out.warp", text) == [
        (1000, "allocate", "scratch", 113),
        (2000, "free", "scratch", 113),
    ]


def first_rocprofs() -> dict[str, Any]:
    """A launch and a copy as the first rocprof's JSON has them: numbers as texts, arrows from inside of calls."""

    def event(name: str, pid: int, tid: int, begin: int, end: int, **more: str) -> dict[str, Any]:
        told = {"BeginNs": str(begin), "EndNs": str(end), "Name": name, "pid": "894", "tid": "894", **more}
        return {
            "ph": "X",
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": str(begin // 1000),
            "dur": "1",
            "args": told,
        }

    def arrow(number: int, call: int, pid: int, tid: int, work: int) -> list[dict[str, Any]]:
        both = {"cat": "DataFlow", "id": number, "name": "dep"}
        return [{"ts": call // 1000, "ph": "s", "pid": 2, "tid": 894, **both},
                {"ts": work // 1000, "ph": "t", "pid": pid, "tid": tid, **both}]  # fmt: skip

    names = [(2, "CPU HIP API"), (1, "COPY"), (6, "GPU0"), (8, "GPU2")]
    metadata = [
        {"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name", "sort_index": place}
        for place, (pid, name) in enumerate(names)
    ]
    where = {"dev-id": "2", "queue-id": "0", "stream-id": "1"}
    events = [
        event("CopyHostToDevice", 1, 0, 20_700, 22_900, **where),
        event("hipMemcpy", 2, 894, 10_300, 24_800),
        event("hipLaunchKernel", 2, 894, 30_100, 39_900),
        event("hipFree", 2, 894, 95_000, 96_000),
        event("vector_add(float*, int)", 8, 1, 44_250, 94_250, **where),
        *arrow(0, 17_000, 1, 0, 20_700),
        *arrow(4, 38_000, 8, 1, 44_250),
    ]
    return {"traceEvents": [{}, *metadata, *events], "otherData": {"CMD": "./add"}}


def test_the_first_rocprofs_json_is_work_of_its_gpus_and_the_calls_that_issued_it(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(first_rocprofs()))
    out = tmp_path / "out.warp"
    assert import_files([tmp_path / "results.json"], out).files[0].format == "rocprof"
    kernels = (
        "select k.start, k.duration, n.name, d.index, k.stream, l.function from kernel k join name n on k.name_id = n.id "
        "join device d using (device) join launch l using (correlation)"
    )
    assert stored(out, kernels) == [(44_250, 50_000, "vector_add(float*, int)", 2, 1, "hipLaunchKernel")]
    copies = "select m.start, m.duration, kind, a.function from memcpy m join api a using (correlation)"
    assert stored(out, copies) == [(20_700, 2_200, "HtoD", "hipMemcpy")]
    assert stored(out, "select count(*) from api") == [(2,)]
