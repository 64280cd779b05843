"""Ascend's three forms, written by Huawei's documents: the same task must come out of each with the same nanoseconds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.formats import msprof_database
from tests.unit.formats.stored import stored
from warpsight.analysis.account import account
from warpsight.analysis.account.classes import COMPUTE, COPY, OTHER_STREAM
from warpsight.formats.importing import import_files, open_any

GOLDEN = Path(__file__).parents[2] / "golden/formats/msprof"
START = 1_729_733_883_833_924_932


def read(file: Path, tmp_path: Path) -> Path:
    out = tmp_path / f"{file.name}.warp"
    assert import_files([file], out).files[0].format == "msprof"
    return out


@pytest.mark.parametrize("name", ["trace_view.json", "op_summary_0.csv", "msprof_1.db"])
def test_a_task_has_the_same_exact_time_in_every_form(name: str, tmp_path: Path) -> None:
    out = read(GOLDEN / name, tmp_path)
    text = (
        "select start, duration, n.name, stream, d.index, d.vendor from kernel join name n on n.id = name_id "
        "join device d using (device) where n.name = 'MatMulV2'"
    )
    assert stored(out, text) == [(START, 11_017, "MatMulV2", 2, 0, "Huawei")]


def test_the_timelines_layers(tmp_path: Path) -> None:
    out = read(GOLDEN / "trace_view.json", tmp_path)
    assert stored(out, "select function, correlation from launch") == [("launch", 42)]
    assert stored(out, "select function, correlation from api") == [("aclnnMatmul", 41)]
    assert stored(out, "select count(*) from kernel join launch using (process, correlation)") == [(1,)]
    text = "select start, duration, name, sequence, shapes from op join name on id = name_id"
    assert stored(out, text) == [(1_729_733_883_833_900_125, 80_500, "aten::mm", 5, "2,3;3,4")]
    text = "select bytes, kind, correlation from memcpy"
    assert stored(out, text) == [(4096, "HtoD", 43)]
    assert stored(out, "select kind, duration, stream from sync") == [("stream wait event", 1_500, 3)]
    assert stored(out, "select cause from loss") == [
        ("layers that repeat or summarize device work were not imported: Overlap Analysis (1 events)",)
    ]


def test_the_summarys_blocks_and_waits(tmp_path: Path) -> None:
    out = read(GOLDEN / "op_summary_0.csv", tmp_path)
    assert stored(out, "select grid_x from kernel join shape on id = shape_id") == [(24,)]
    assert stored(out, "select kind, duration from sync") == [("stream wait event", 1_500)]


def test_blocks_are_read_by_the_name_that_later_versions_give_them(tmp_path: Path) -> None:
    import sqlite3

    database = msprof_database.write_database(tmp_path / "later.db")
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE COMPUTE_TASK_INFO RENAME COLUMN blockDim TO blockNum")
    table = tmp_path / "op_summary_later.csv"
    table.write_text((GOLDEN / "op_summary_0.csv").read_text().replace("Block Dim", "Block Num"))
    for file in (database, table):
        assert stored(read(file, tmp_path), "select grid_x from kernel join shape on id = shape_id") == [
            (24,)
        ]


def test_the_golden_database_is_what_its_builder_writes(tmp_path: Path) -> None:
    import sqlite3

    built = msprof_database.write_database(tmp_path / "x.db")
    for table in msprof_database.TABLES:
        rows = [
            sqlite3.connect(path).execute(f"select * from {table}").fetchall()
            for path in (built, GOLDEN / "msprof_1.db")
        ]
        assert rows[0] == rows[1]


def test_the_databases_tables(tmp_path: Path) -> None:
    out = read(GOLDEN / "msprof_1.db", tmp_path)
    assert stored(out, "select function, correlation, thread from launch") == [("launch", 42, 88)]
    text = "select start, bytes, kind, correlation from memcpy"
    assert stored(out, text) == [(1_729_733_883_833_940_000, 4096, "HtoD", 43)]
    assert stored(out, "select time, event, correlation from event") == [
        (1_729_733_883_833_950_000, 13, None)
    ]
    text = "select name, sequence, shapes, attributes from op join name on id = name_id"
    assert stored(out, text) == [("aten::mm", 5, "2,3;3,4", '{"input_types": "FLOAT"}')]
    text = "select duration, kind, name, domain from marker join name on id = name_id"
    assert stored(out, text) == [(90_000, "start/end", "step", None)]
    text = 'select duration, operation, bytes, dtype, "group", correlation from collective'
    assert stored(out, text) == [(10_000, "hcom_allReduce_", 2000, "FP16", "group0", 50)]
    assert stored(out, "select name, value, unit from counter") == [("AI Core frequency", 1800, "MHz")]
    assert stored(out, "select name, host from device") == [("Ascend910B", "node3")]
    assert stored(out, "select pid, host, rank from process") == [(77, "node3", 0)]
    assert any("HBM (1 rows)" in cause for (cause,) in stored(out, "select cause from loss"))


def test_of_a_result_folder_the_fullest_form_is_read_once(tmp_path: Path) -> None:
    folder = tmp_path / "PROF_000001_x"
    (folder / "mindstudio_profiler_output").mkdir(parents=True)
    for name in ("trace_view.json", "op_summary_0.csv"):
        shutil.copy(GOLDEN / name, folder / "mindstudio_profiler_output")
    shutil.copy(GOLDEN / "msprof_1.db", folder)
    import_files([folder], tmp_path / "out.warp")
    text = "select count(*) from kernel join name n on n.id = name_id where n.name = 'MatMulV2'"
    assert stored(tmp_path / "out.warp", text) == [(1,)]
    assert stored(tmp_path / "out.warp", "select count(*) from collective") == [(1,)]


def test_a_timeline_that_begins_with_thousands_of_operators_is_still_ascends(tmp_path: Path) -> None:
    # as torch_npu wrote them in early 2024: operators first, the names of the layers after them, times as texts
    operators = [
        {"ph": "X", "name": "aten::mm", "pid": 77, "tid": 77, "ts": f"1704161511{n:06d}.491", "dur": 13.08, "cat": "cpu_op",
         "args": {"Sequence number": n, "Fwd thread id": 0}}
        for n in range(1, 1001)
    ]  # fmt: skip
    task = {
        "ph": "X", "name": "MatMulV2", "pid": 800, "tid": 3, "ts": "1704161511001001.204", "dur": 1.35,
        "args": {"Task Type": "Other", "Stream Id": 3, "Task Id": 1, "connection_id": -1},
    }  # fmt: skip
    layers = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in ((77, "Python"), (800, "Ascend Hardware"))
    ]
    text = json.dumps([*operators, task, *layers])
    assert text.index("Ascend Hardware") > 100_000
    (tmp_path / "trace_view.json").write_text(text)
    out = read(tmp_path / "trace_view.json", tmp_path)
    text = "select start, duration, stream, correlation from kernel"
    assert stored(out, text) == [(1_704_161_511_001_001_204, 1350, 3, None)]
    assert stored(out, "select count(*) from op") == [(1000,)]


def test_arrows_join_tasks_to_the_innermost_call_around_their_tail(tmp_path: Path) -> None:
    """Timelines of early 2024 number calls and tasks apart."""

    def event(phase: str, pid: int, tid: int, start: str, **more: object) -> dict[str, object]:
        return {"ph": phase, "pid": pid, "tid": tid, "ts": start, **more}

    def call(name: str, start: str, duration: float, number: int) -> dict[str, object]:
        return event("X", 2, 7, start, name=f"AscendCL@{name}", dur=duration, args={"connection_id": number})

    def task(number: int, start: str) -> list[dict[str, object]]:
        args = {"Task Type": "AI_CORE", "Stream Id": 3, "Task Id": number, "connection_id": 90 + number}
        return [event("X", 3, 3, start, name=f"task{number}", dur=5, args=args),
                event("f", 3, 3, start, name="HostToDevice", cat="HostToDevice", id=str(number), bp="e")]  # fmt: skip

    layers = {1: "Python", 2: "CANN", 3: "Ascend Hardware"}
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps([
        *({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}} for pid, name in layers.items()),
        call("aclopCompileAndExecute", "1704161511000000.000", 900.0, 11),
        call("opCompile", "1704161511000100.000", 700.0, 12),
        *(event("s", 2, 7, start, name="HostToDevice", cat="HostToDevice", id=number)
          for start, number in (("1704161511000850.000", "1"), ("1704161511000870.000", "2"), ("1704161511002000.000", "3"))),
        *task(1, "1704161511000900.000"), *task(2, "1704161511000910.000"), *task(3, "1704161511002010.000"),
    ]))  # fmt: skip
    out = read(path, tmp_path)
    text = "select n.name, k.correlation from kernel k join name n on n.id = name_id order by 1"
    assert stored(out, text) == [("task1", 11), ("task2", 11), ("task3", 93)]


@pytest.mark.parametrize("kind", ["Other", "other", "N/A"])
def test_tasks_of_no_type_are_what_their_names_say(kind: str, tmp_path: Path) -> None:
    """Early versions of CANN have the type of tasks that run on no core in their names."""
    named = (
        kind,
        "NOTIFY_WAIT",
        "EVENT_WAIT",
        "NOTIFY_RECORD",
        "MEMCPY_ASYNC",
        "MemcopyAsync",
        "REDUCE_ASYNC_V2",
        "ReduceSum65",
    )
    rows: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Ascend Hardware"}},
        {"ph": "M", "name": "process_labels", "pid": 1, "tid": 0, "args": {"labels": "NPU"}},
    ]
    for number, name in enumerate(named):
        args = {"Task Type": kind, "Physic Stream Id": 3, "Task Id": number, "connection_id": -1}
        rows.append({"ph": "X", "name": name, "pid": 1, "tid": 3, "ts": f"{1_727_592_872_437_124 + number * 10}.000",
                     "dur": 5.0, "args": args})  # fmt: skip
    (tmp_path / "trace_view.json").write_text(json.dumps(rows))
    out = read(tmp_path / "trace_view.json", tmp_path)
    assert stored(out, "select name from kernel join name on id = name_id") == [("ReduceSum65",)]
    assert [stored(out, f"select count(*) from {table}")[0][0] for table in ("memcpy", "sync", "event")] == [
        3,
        2,
        1,
    ]
    assert (f"tasks that do no work were not imported: {kind} (1)",) in stored(out, "select cause from loss")


def test_tasks_alone_say_where_streams_waited_for_other_streams_and_devices(tmp_path: Path) -> None:
    """CANN 6's task_time_*.json: no calls and no collectives, but the waits of streams as they happened."""
    rows: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "Task Scheduler"}}
    ]

    def task(name: str, kind: str, stream: int, start: float, duration: float) -> None:
        args = {"Task Type": kind, "Stream Id": stream, "Task Id": len(rows)}
        rows.append({"ph": "X", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration, "args": args})  # fmt: skip

    for turn in range(10):
        start = 1_000_000.0 + 1000 * turn
        task("MatMul", "AI_CORE", 2, start, 300)
        task("EVENT_WAIT", "EVENT_WAIT", 5, start - 40, 341)
        task("NOTIFY_WAIT", "NOTIFY_WAIT", 5, start + 301, 598)
        task("MemcopyAsync", "SDMA", 5, start + 900, 50)
        task("EVENT_WAIT", "EVENT_WAIT", 2, start + 301, 650)
    (tmp_path / "task_time_0.json").write_text(json.dumps(rows))
    with open_any(read(tmp_path / "task_time_0.json", tmp_path)) as trace:
        found = account(trace)
        assert found.share(COMPUTE) + found.share(COPY) + found.share(OTHER_STREAM) > 0.95
        assert found.share(OTHER_STREAM) == pytest.approx(10 * 599 / 9951, abs=0.01)


def test_a_collective_is_one_piece_of_communication_not_its_tasks(tmp_path: Path) -> None:
    """Most of a collective's tasks wait for other ranks, so the sum of its tasks is not its time."""

    def event(
        pid: int, tid: int, start: int, duration: float, name: str, **args: object
    ) -> dict[str, object]:
        return {"ph": "X", "pid": pid, "tid": tid, "ts": f"{1_704_161_511_000_000 + start}.000", "dur": duration, "name": name,
                "args": args}  # fmt: skip

    def task(
        kind: str, start: int, duration: float, stream: int, connection: int, name: str
    ) -> dict[str, object]:
        more = {"Task Type": kind, "Physic Stream Id": stream, "connection_id": connection}
        return event(3, stream, start, duration, name, **more)

    layers = {2: "CANN", 3: "Ascend Hardware", 4: "HCCL"}
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps([
        *({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}} for pid, name in layers.items()),
        {"ph": "M", "name": "thread_name", "pid": 4, "tid": 0, "args": {"name": "Group 0 Communication"}},
        event(2, 7, 10, 5, "Node@launch", connection_id=50),
        event(4, 0, 20, 1000, "hcom_allReduce__586_0_1", connection_id=50, data_type="FP32", count=250),
        event(4, 1, 21, 990, "Notify_Wait", **{"stream id": 4}),
        task("PLACE_HOLDER_SQE", 0, 0.02, 0, 90, "PROFILING_ENABLE"),
        task("AI_CORE", 15, 100, 2, 51, "Conv2D"),
        task("SDMA", 20, 1, 4, 50, "SDMA"), task("Notify Wait", 21, 990, 4, 50, "Notify Wait"),
        task("Write Value", 1011, 1, 4, 50, "Write Value"), task("SDMA", 1012, 8, 4, 50, "SDMA"),
        task("PCIE_DMA_SQE", 1030, 2, 2, 52, "MEMCPY_ASYNC"), task("Write Value", 1040, 1, 2, 53, "Write Value"),
    ]))  # fmt: skip
    out = read(path, tmp_path)
    text = "select n.name, duration, stream, correlation from kernel join name n on n.id = name_id order by start"
    assert stored(out, text) == [("Conv2D", 100_000, 2, 51), ("hcom_allReduce_", 1_000_000, 4, 50)]
    text = 'select duration, operation, bytes, dtype, "group", correlation from collective'
    assert stored(out, text) == [(1_000_000, "hcom_allReduce_", 1000, "FP32", "Group 0 Communication", 50)]
    assert stored(out, "select duration, correlation from memcpy") == [(2000, 52)]
    assert not (out / "table=sync").exists()
    assert stored(out, "select cause from loss order by cause") == [
        ("layers that repeat or summarize device work were not imported: HCCL (1 events)",),
        ("tasks that do no work were not imported: PLACE_HOLDER_SQE (1), Write Value (1)",),
    ]


def test_the_tasks_of_a_databases_collective_say_where_it_ran(tmp_path: Path) -> None:
    import sqlite3

    path = msprof_database.write_database(tmp_path / "msprof_2.db")
    with sqlite3.connect(path) as connection:
        connection.execute("insert into STRING_IDS values (12, 'Notify Wait')")
        row = (1729733883833960000, 1729733883833969000, 0, 50, 103, 77, 12, 0, 4, 14, 0, 0)
        connection.execute("insert into TASK values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    out = read(path, tmp_path)
    text = "select duration, stream, correlation from kernel join name n on n.id = name_id where n.name = 'hcom_allReduce_'"
    assert stored(out, text) == [(10_000, 4, 50)]
    assert not (out / "table=sync").exists()


def _iteration(*, hardware: bool) -> list[dict[str, object]]:
    """One iteration as early versions of CANN write it: nothing is connected, and the planes say which tasks they show."""

    def event(
        pid: int, tid: int, start: int, duration: float, name: str, **args: object
    ) -> dict[str, object]:
        return {
            "ph": "X",
            "pid": pid,
            "tid": tid,
            "ts": 56_635_864_000.5 + start,
            "dur": duration,
            "name": name,
            "args": args,
        }

    layers = {3: "Ascend Hardware", 4: "HCCL"} if hardware else {4: "HCCL"}
    threads = {(3, 2): "Stream 2", (3, 12): "Stream 12", (3, 10_036): "Step Trace(Model ID:2)", (4, 1): "Plane 1",
               (4, 70_000): "Communication Kernel"}  # fmt: skip
    rows: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in layers.items()
    ]
    rows += [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
        for (pid, tid), name in threads.items()
        if pid in layers
    ]
    step = {"notify_id": 88, "stream id": 12, "task type": "Notify_Wait"}
    rows += [
        event(4, 1, 200, 700, "Notify_Wait", **step, **{"task id": 6}),
        event(4, 1, 910, 80, "Memcpy", **step, **{"task id": 7}),
        {**event(4, 70_000, 200, 800, "Default/AllReduce-op534_0"), "args": None},
    ]
    if hardware:
        kinds = ((12, 200, 700, "NOTIFY_WAIT", 6), (12, 910, 80, "MEMCPY_ASYNC", 7), (2, 0, 190, "AI_CORE", 7),
                 (2, 1_010, 40, "MEMCPY_ASYNC", 8))  # fmt: skip
        rows += [
            event(3, tid, start, duration, kind, **{"Task Type": kind, "Stream Id": tid, "Task Id": task})
            for tid, start, duration, kind, task in kinds
        ]
        rows += [
            event(3, 10_036, 0, 1_050, "Iteration 1", **{"Iteration ID": 1}),
            event(3, 10_036, 0, 190, "FP_BP Time 1"),
        ]
    return rows


def test_a_collective_without_connections_takes_the_tasks_that_its_planes_name(tmp_path: Path) -> None:
    (tmp_path / "msprof_0_2_1.json").write_text(json.dumps(_iteration(hardware=True)))
    out = read(tmp_path / "msprof_0_2_1.json", tmp_path)
    text = "select n.name, duration, stream, correlation from kernel join name n on n.id = name_id order by start"
    assert stored(out, text) == [
        ("AI_CORE", 190_000, 2, None),
        ("hcom_AllReduce (Default/AllReduce-op534_0)", 800_000, 12, None),
    ]
    assert stored(out, "select duration from memcpy") == [(40_000,)]
    assert not (out / "table=sync").exists()
    assert stored(out, "select duration, operation from collective") == [
        (800_000, "hcom_AllReduce (Default/AllReduce-op534_0)")
    ]


def test_what_sums_up_an_iteration_is_a_range(tmp_path: Path) -> None:
    (tmp_path / "msprof_0_2_1.json").write_text(json.dumps(_iteration(hardware=True)))
    out = read(tmp_path / "msprof_0_2_1.json", tmp_path)
    text = "select name, duration from marker join name on id = name_id order by duration"
    assert stored(out, text) == [("FP_BP Time 1", 190_000), ("Iteration 1", 1_050_000)]


def test_a_file_of_collectives_alone_is_ascends(tmp_path: Path) -> None:
    (tmp_path / "hccl_0_2_1.json").write_text(json.dumps(_iteration(hardware=False)[::-1]))
    out = read(tmp_path / "hccl_0_2_1.json", tmp_path)
    text = "select n.name, duration from kernel join name n on n.id = name_id"
    assert stored(out, text) == [("hcom_AllReduce (Default/AllReduce-op534_0)", 800_000)]
