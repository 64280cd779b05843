"""What the writer writes is what Kineto writes: our own reader, Python's json and HTA's expectations agree on it."""

import json
import os
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

import warpsight as ws
from benchmarks.synthetic_trace import Plan, make
from warpsight.errors import UsageError
from warpsight.formats.importing import import_files
from warpsight.formats.kineto import writer
from warpsight.formats.selection import Selection
from warpsight.model import TraceWriter
from warpsight.ui.cli import parser

DATA = os.environ.get("WARPSIGHT_TEST_DATA")
_STACK = "(SELECT depth FROM stack s WHERE s.id = t.stack)"
SAME = [
    """SELECT name, start, duration, stream, context, correlation, grid_x, grid_y, block_x, registers,
       shared_static + shared_dynamic, graph, graph_node, (SELECT "index" FROM device d WHERE d.device = t.device)
       FROM kernel t WHERE start IS NOT NULL""",
    f"SELECT start, duration, function, thread, correlation, {_STACK} FROM launch t",
    f"SELECT start, duration, function, thread, correlation, {_STACK} FROM api t",
    "SELECT start, duration, bytes, kind, source_kind, destination_kind, correlation FROM memcpy",
    "SELECT start, duration, bytes, memory_kind, correlation FROM memset",
]
MORE = [
    f"SELECT name, start, duration, thread, sequence, correlation, shapes, attributes, {_STACK} FROM op t",
    f"SELECT name, start, duration, kind, category, greatest(thread, -1), attributes, {_STACK} FROM marker t",
    "SELECT time, operation, address, bytes, pool_size, pool_used, allocator, thread FROM memory",
    "SELECT pid, command FROM process",
    "SELECT thread, name FROM thread WHERE thread >= 0",
    "SELECT realtime - monotonic FROM clock",
]


def back(trace, tmp_path, **selection):
    with (tmp_path / "t.json").open("wb") as file:
        written = writer.write(trace, file, Selection(**{"enclosed": False, **selection}))
    made = import_files([tmp_path / "t.json"], tmp_path / "back.warp", force=True)
    assert made.files[0].format == "kineto"
    return written, made


def equal(trace, again, statements):
    for sql in statements:
        first, second = (Counter(t.sql(sql).fetchall()) for t in (trace, again))
        assert second == first, sql


@pytest.mark.skipif(not DATA, reason="WARPSIGHT_TEST_DATA does not name a folder of real traces")
@pytest.mark.parametrize("name", ["kineto_h100_qwen.json.gz", "kineto_mi300_qwen.json.gz"])
def test_a_real_trace_survives_the_round_trip(tmp_path, name):
    with ws.open(Path(DATA) / name) as trace:
        _, made = back(trace, tmp_path)
        with ws.open(made.path) as again:
            equal(trace, again, [*SAME, *MORE])


@pytest.fixture
def recorded(tmp_path):
    with ws.open(make(tmp_path / "t.warp", Plan(kernels=2_000, overlap=0.05))) as trace:
        yield trace


def test_a_recording_of_our_own_survives_with_its_stacks(tmp_path, recorded):
    written, made = back(recorded, tmp_path)
    assert written["slices"] > 4_000
    with ws.open(made.path) as again:
        equal(recorded, again, SAME[1:2] + SAME[3:])
        columns = "demangled, start, duration, stream, correlation"
        equal(recorded, again, [f"SELECT {columns} FROM kernel WHERE start IS NOT NULL"])
        first, second = (
            t.sql("SELECT correlation, stack FROM launch ORDER BY 1 LIMIT 100").fetchall()
            for t in (recorded, again)
        )
        frames = [t.stacks([s for _, s in rows if s]) for t, rows in ((recorded, first), (again, second))]
        assert [frames[0].get(s) for _, s in first] == [frames[1].get(s) for _, s in second]


def test_it_is_json_of_kinetos_form(tmp_path, recorded):
    back(recorded, tmp_path)
    text = (tmp_path / "t.json").read_text()
    content = json.loads(text, parse_float=Decimal)
    assert content["schemaVersion"] == 1 and content["baseTimeNanoseconds"] >= 0
    assert content["deviceProperties"][0]["id"] == 0
    kernels = [e for e in content["traceEvents"] if e.get("cat") == "kernel"]
    assert all({"device", "stream", "correlation", "grid", "block"} <= e["args"].keys() for e in kernels)
    arrows = Counter(e["ph"] for e in content["traceEvents"] if e.get("cat") == "ac2g")
    assert arrows["s"] > 0 and arrows["f"] >= arrows["s"]


def test_a_window_and_kinds_are_respected(tmp_path, recorded):
    begin = recorded.sql("SELECT quantile_disc(start, 0.5) FROM kernel").fetchall()[0][0]
    _, made = back(recorded, tmp_path, begin=begin, kinds=("kernel",), flows=False)
    expected = recorded.sql(f"SELECT count(*) FROM kernel WHERE start + duration > {begin}").fetchall()[0][0]
    assert made.rows["kernel"] == expected
    assert not {"launch", "memcpy", "memory", "counter"} & made.rows.keys()


def test_one_file_of_several_processes_needs_a_choice(tmp_path):
    with ws.open(make(tmp_path / "t.warp", Plan(kernels=200, processes=2))) as trace:
        with (
            (tmp_path / "x").open("wb") as file,
            pytest.raises(UsageError, match="choose one with --process"),
        ):
            writer.write(trace, file, Selection(enclosed=False))
        back(trace, tmp_path, processes=(1,))


def test_several_processes_are_several_files_that_tell_their_ranks_as_hta_looks_for_them(tmp_path):
    paths = [f"tests/golden/recorded/kineto_h200x2_rank{rank}.json.gz" for rank in (0, 1)]
    made = import_files(paths, tmp_path / "t.warp")
    out = tmp_path / "out.pt.trace.json"
    asked = ["export", str(made.path), "--to", "kineto", "-o", str(out)]
    assert parser.run(asked) == 0
    folder = tmp_path / "out.pt.trace"
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["rank0.pt.trace.json", "rank1.pt.trace.json"]
    for rank, file in enumerate(files):
        assert re.search(r'"rank":\s+(\d+)', file.read_text().splitlines()[0])[1] == str(rank)
    again = import_files(files, tmp_path / "again.warp")
    with ws.open(made.path) as trace, ws.open(again.path) as read:
        equal(trace, read, ["SELECT rank, pid FROM process", *SAME[:1], *SAME[3:]])
    assert parser.run(asked) != 0, "it exists"
    assert parser.run([*asked, "-f"]) == 0
    (folder / "mine.txt").write_text("kept")
    assert parser.run([*asked, "-f"]) != 0 and (folder / "mine.txt").exists()
    assert parser.run([*asked[:-1], "-"]) != 0


def test_a_trace_that_names_no_process_is_told_so(tmp_path):
    with ws.TraceWriter(tmp_path / "t.warp") as made:
        made.add("counter", [{"time": 1, "name": "c", "value": 1.0, "unit": "1", "source": "user"}])
    with (
        ws.open(tmp_path / "t.warp") as trace,
        (tmp_path / "x").open("wb") as file,
        pytest.raises(UsageError, match=r"t\.warp names no process .*table process has no rows"),
    ):
        writer.write(trace, file, Selection(enclosed=False))


def test_a_process_that_is_not_there_is_named_with_those_that_are(tmp_path, recorded):
    pid = recorded.sql("SELECT pid FROM process").fetchall()[0][0]
    with (
        (tmp_path / "x").open("wb") as file,
        pytest.raises(UsageError, match=rf"no process 7; it has 0 \((pid {pid}|rank 0)\)"),
    ):
        writer.write(recorded, file, Selection(processes=(7,)))


def test_a_kernel_whose_name_is_lost_is_written(tmp_path):
    """As in a damaged file."""
    with TraceWriter(tmp_path / "own.warp") as own:
        own.add(
            "process", [{"process": 0, "pid": 1, "host": "", "command": "", "executable": "", "start": 0}]
        )
        common = {"context": 1, "process": 0, "graph_level": False, "device": 0, "duration": 5}
        own.add("kernel", [{**common, "start": 1_000, "name_id": 4_000_000, "stream": 7}])
    with ws.open(tmp_path / "own.warp") as trace:
        back(trace, tmp_path)
    with ws.open(tmp_path / "back.warp") as trace:
        assert trace.sql("SELECT name, start, duration FROM kernel").fetchall() == [("", 1_000, 5)]


def test_work_without_a_device_or_its_row_is_written(tmp_path):
    """A trace of the user's own, or of a tool that tells no devices."""
    with TraceWriter(tmp_path / "own.warp") as own:
        own.add(
            "process", [{"process": 0, "pid": 1, "host": "", "command": "", "executable": "", "start": 0}]
        )
        common = {"context": 1, "process": 0, "graph_level": False, "name_id": own.name("k")}
        own.add(
            "kernel",
            [
                {**common, "start": 1_000, "duration": 5, "device": 3, "stream": 7},
                {**common, "start": 2_000, "duration": 6, "device": None, "stream": 7},
            ],
        )
    with ws.open(tmp_path / "own.warp") as trace:
        back(trace, tmp_path)
    with ws.open(tmp_path / "back.warp") as trace:
        assert trace.sql("SELECT start, duration FROM kernel ORDER BY ALL").fetchall() == [
            (1_000, 5),
            (2_000, 6),
        ]
        found = trace.sql(
            'SELECT "index" FROM kernel k JOIN device d ON d.device = k.device WHERE k.start = 1000'
        )
        assert found.fetchall() == [(3,)]
