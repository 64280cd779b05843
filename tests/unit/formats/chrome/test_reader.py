"""Each phase of the format, each form of the file, and our own export read back."""

import json
import subprocess
import sys
from collections import Counter

import pytest

import warpsight as ws
from benchmarks.synthetic_trace import Plan, make
from warpsight.formats.chrome import writer
from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files
from warpsight.formats.selection import Selection
from warpsight.model import TraceWriter

EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "train"}},
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "worker"}},
    {"ph": "X", "name": "load", "cat": "io", "pid": 7, "tid": 8, "ts": 1000000000000.001, "dur": 2.5,
     "args": {"k": [1, {"a": "}, {"}]}},
    {"ph": "B", "name": "outer", "cat": "a", "pid": 7, "tid": 8, "ts": 10},
    {"ph": "B", "name": "inner", "pid": 7, "tid": 8, "ts": 11.25},
    {"ph": "E", "pid": 7, "tid": 8, "ts": 12},
    {"ph": "E", "pid": 7, "tid": 8, "ts": 20.125},
    {"ph": "b", "name": "request", "cat": "net", "id": "0x1", "pid": 7, "tid": 8, "ts": 1},
    {"ph": "b", "name": "request", "cat": "net", "id": "0x2", "pid": 7, "tid": 8, "ts": 2},
    {"ph": "e", "name": "request", "cat": "net", "id": "0x1", "pid": 7, "tid": 9, "ts": 5},
    {"ph": "e", "name": "request", "cat": "net", "id": "0x2", "pid": 7, "tid": 9, "ts": 9},
    {"ph": "i", "name": "here", "s": "t", "pid": 7, "tid": 8, "ts": "3.5"},
    {"ph": "C", "name": "memory", "pid": 7, "ts": 4, "args": {"used": 12, "free": 30.5}},
    {"ph": "s", "id": 1, "name": "x", "cat": "y", "pid": 7, "tid": 8, "ts": 4},
    {"ph": "f", "id": 1, "name": "x", "cat": "y", "pid": 7, "tid": 8, "ts": 5},
    {"ph": "B", "name": "never closed", "pid": 7, "tid": 8, "ts": 30},
]  # fmt: skip
RANGES = {
    ("load", 1_000_000_000_000_001, 2_500, "push/pop", False),
    ("outer", 10_000, 10_125, "push/pop", False),
    ("inner", 11_250, 750, "push/pop", False),
    ("request", 1_000, 4_000, "start/end", False),
    ("request", 2_000, 7_000, "start/end", False),
    ("here", 3_500, None, "instant", False),
    ("never closed", 30_000, None, "push/pop", True),
}
TEXT = json.dumps({"traceEvents": EVENTS, "displayTimeUnit": "ns"})


def imported(tmp_path, text, **more):
    path = tmp_path / "t.json"
    path.write_text(text)
    return import_files([path], tmp_path / "t.warp", **more)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        json.dumps(EVENTS),
        json.dumps(EVENTS, indent=3),
        json.dumps(EVENTS)[:-1],
        json.dumps(EVENTS)[:-1] + ",\n",
        json.dumps({"otherData": {"a": [{}, {}]}, "traceEvents": EVENTS, "x": [{"y": 1}, {"z": 2}]}),
        "\ufeff" + TEXT,
    ],
    ids=["object", "array", "indented", "unclosed array", "comma at the end", "values around", "byte-order mark"],
)  # fmt: skip
def test_ranges_instants_and_counters_in_every_form(tmp_path, text):
    made = imported(tmp_path, text)
    assert made.files[0].format == "chrome"
    with ws.open(made.path) as trace:
        assert set(trace.sql("SELECT name, start, duration, kind, open FROM marker").fetchall()) == RANGES
        counters = trace.sql("SELECT name, value, time FROM counter ORDER BY name").fetchall()
        assert counters == [("memory free", 30.5, 4_000), ("memory used", 12.0, 4_000)]
        assert trace.sql("SELECT pid, command FROM process").fetchall() == [(7, "train")]
        assert trace.sql("SELECT name FROM thread WHERE thread = 8").fetchall() == [("worker",)]
        kept = trace.sql("SELECT attributes FROM marker WHERE name = 'load'").fetchall()
        assert json.loads(kept[0][0]) == {"k": [1, {"a": "}, {"}]}


def test_what_is_not_kept_is_counted(tmp_path):
    made = imported(tmp_path, TEXT)
    assert [(row["count"], row["cause"]) for row in made.losses] == [
        (2, "arrows between events are not kept")
    ]


def test_sampled_stacks_and_lengths_that_mean_nothing_are_counted(tmp_path):
    ranges = [{"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 5, "dur": dur} for dur in (-3, "long", 2)]
    made = imported(tmp_path, json.dumps({"traceEvents": ranges, "stackFrames": {"1": {"name": "f"}}}))
    assert Counter((row["count"], row["cause"]) for row in made.losses) == {
        (1, "negative durations, set to 0"): 1,
        (1, "unreadable durations, set to 0"): 1,
        (1, "sampled stacks are not kept"): 1,
    }


def test_a_file_that_ends_inside_an_event_gives_all_before_it(tmp_path):
    made = imported(tmp_path, TEXT[: TEXT.index('"never closed"') + 5])
    with ws.open(made.path) as trace:
        found = set(trace.sql("SELECT name, start, duration, kind, open FROM marker").fetchall())
    assert found == {r for r in RANGES if r[0] != "never closed"}
    assert any("is incomplete" in row["cause"] for row in made.losses)


def test_damage_in_the_middle_costs_the_events_it_hits(tmp_path):
    events = [{"ph": "X", "name": f"e{i}", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(2000)]
    text = json.dumps(events)
    place = text.index('"e1000"')
    made = imported(tmp_path, text[:place] + "\\\\\x01" + text[place:])
    with ws.open(made.path) as trace:
        names = {row[0] for row in trace.sql("SELECT name FROM marker").fetchall()}
    assert {f"e{i}" for i in range(2000)} - names == {"e1000"}
    assert any(f"damaged at byte {place:,}" in row["cause"] for row in made.losses)


def test_cuptis_dialect_gives_kernels_and_launches(tmp_path):
    events = [
        {"ph": "X", "cat": "CUDA_Runtime", "name": "Runtime: cudaLaunchKernel_v7000", "pid": 5, "tid": 6, "ts": 1, "dur": 2,
         "args": {"correlationId": 11}},
        {"ph": "X", "cat": "CUDA_Driver", "name": "Driver: cuMemAlloc_v2", "pid": 5, "tid": 6, "ts": 4, "dur": 1,
         "args": {"correlationId": 12}},
        {"ph": "X", "cat": "GPU_Kernel", "name": "Kernel: _Z3addPf", "pid": 5, "tid": "stream", "ts": 9, "dur": 3.5,
         "args": {"correlationId": 11, "grid": [4, 1, 1], "block": [128, 1, 1], "streamId": 7, "deviceId": 0, "x": "kept"}},
    ]  # fmt: skip
    made = imported(tmp_path, json.dumps({"traceEvents": events}))
    with ws.open(made.path) as trace:
        joined = trace.sql("""SELECT k.name, k.start, k.duration, k.grid_x, k.block_x, k.stream, l.function, l.start
            FROM kernel k JOIN launch l USING (process, correlation)""").fetchall()
        assert joined == [("_Z3addPf", 9_000, 3_500, 4, 128, 7, "cudaLaunchKernel", 1_000)]
        assert trace.sql("SELECT function, correlation FROM api").fetchall() == [("cuMemAlloc_v2", 12)]
        assert trace.sql('SELECT "table", key, value FROM attribute').fetchall() == [
            ("kernel", "x", '"kept"')
        ]


def test_our_own_export_reads_back(tmp_path):
    path = make(tmp_path / "t.warp", Plan(kernels=3_000, overlap=0.05))
    with ws.open(path) as trace:
        with (tmp_path / "t.json").open("wb") as file:
            writer.write(trace, file, Selection(enclosed=False))
        import_files([tmp_path / "t.json"], tmp_path / "back.warp")
        with ws.open(tmp_path / "back.warp") as back:
            for sql in QUERIES:
                first, second = (Counter(t.sql(sql).fetchall()) for t in (trace, back))
                assert second == first, sql
                assert first, sql


_PID = "(SELECT pid FROM process p WHERE p.process = t.process)"
_DEVICE = '(SELECT "index" FROM device d WHERE d.device = t.device)'
QUERIES = [
    f"""SELECT regexp_replace(demangled, '^void ', ''), start, duration, stream, correlation, {_PID}, {_DEVICE}, grid_x, block_x,
        registers, shared_static, shared_dynamic FROM kernel t WHERE start IS NOT NULL""",
    f"SELECT start, duration, bytes, kind, correlation, stream, {_PID}, {_DEVICE} FROM memcpy t",
    f"SELECT start, duration, function, thread, correlation, {_PID} FROM launch t",
    f"SELECT start, duration, demangled, thread, {_PID} FROM marker t",
    "SELECT time, value, unit FROM counter WHERE unit <> 'B'",  # bytes are summed up from memory events
]


@pytest.mark.parametrize("unit", ["items", "%", "tokens/s", 'a "unit"', "1"])
def test_a_counters_unit_reads_back_as_its_unit(tmp_path, unit):
    row = {"time": 5, "name": "queue", "value": 7.0, "unit": unit, "source": "user"}
    with TraceWriter(tmp_path / "t.warp") as made:
        made.add("counter", [row])
    with ws.open(tmp_path / "t.warp") as trace, (tmp_path / "t.json").open("wb") as file:
        writer.write(trace, file, Selection(enclosed=False))
    with ws.open(import_files([tmp_path / "t.json"], tmp_path / "again.warp").path) as trace:
        assert trace.sql("SELECT name, unit, value FROM counter").fetchall() == [("queue", unit, 7.0)]


def test_addresses_of_copies_and_fills_are_hexadecimal_text_and_read_back(tmp_path):
    where = {
        "start": 5,
        "duration": 5,
        "bytes": 8,
        "asynchronous": True,
        "device": 0,
        "context": 1,
        "stream": 7,
        "process": 0,
    }
    copy = {**where, "kind": "HtoD", "source_kind": "pinned", "destination_kind": "device"}
    fill = {**where, "value": 0, "memory_kind": "device"}
    with TraceWriter(tmp_path / "t.warp") as made:
        made.add(
            "process", [{"process": 0, "pid": 9, "host": "h", "command": "p", "executable": "p", "start": 0}]
        )
        made.add("memcpy", [{**copy, "source_address": 0x7F0000001000, "destination_address": (1 << 64) - 1},
                            {**copy, "start": 20, "destination_address": 0x500}, {**copy, "start": 30}])  # fmt: skip
        made.add("memset", [{**fill, "start": 40, "address": 0x500}, {**fill, "start": 50}])
    with ws.open(tmp_path / "t.warp") as trace, (tmp_path / "t.out").open("wb") as file:
        writer.write(trace, file, Selection(enclosed=False))
    assert all(
        text in (tmp_path / "t.out").read_bytes() for text in (b"source_address", b"0x7f0000001000", b"0x500")
    )
    with ws.open(import_files([tmp_path / "t.out"], tmp_path / "again.warp").path) as trace:
        copies = trace.sql("SELECT source_address, destination_address FROM memcpy ORDER BY start").fetchall()
        fills = trace.sql("SELECT address FROM memset ORDER BY start").fetchall()
        assert trace.sql("SELECT * FROM attribute").fetchall() == []
    assert copies == [(0x7F0000001000, (1 << 64) - 1), (None, 0x500), (None, None)]
    assert fills == [(0x500,), (None,)]


@pytest.mark.parametrize("value", ["pinned", "0x", -1, 1.5, None])
def test_an_argument_that_is_no_address_is_kept_as_it_is(tmp_path, value):
    event = {"ph": "X", "cat": "memcpy", "name": "Memcpy HtoD", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    event["args"] = {"source_address": value, "bytes": 8}
    with ws.open(imported(tmp_path, json.dumps([event])).path) as trace:
        assert trace.sql("SELECT source_address FROM memcpy").fetchall() == [(None,)]
        assert trace.sql("SELECT key, value FROM attribute").fetchall() == [
            ("source_address", json.dumps(value))
        ]


def test_what_others_name_beside_a_counter_is_its_series(tmp_path):
    text = '[{"ph":"C","name":"pets","pid":1,"tid":1,"ts":1,"args":{"cats":2,"dogs":3}}]'
    with ws.open(imported(tmp_path, text).path) as trace:
        found = trace.sql("SELECT name, unit, value FROM counter ORDER BY name").fetchall()
    assert found == [("pets cats", "1", 2.0), ("pets dogs", "1", 3.0)]


def test_what_is_no_trace_is_refused(tmp_path):
    for text, problem in (
        ("{}", "in no known format"),
        ('{"traceEvents":[]}', "holds no trace events"),
        ("[1,2]", "in no known format"),
    ):
        with pytest.raises(FormatError, match=problem):
            imported(tmp_path, text)


def test_reading_verbs_take_the_file_itself(tmp_path):
    (tmp_path / "t.json").write_text(TEXT)
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", "stats", str(tmp_path / "t.json"), "nvtx", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = json.loads(done.stdout)["tables"]["nvtx"]["rows"]
    assert {"load", "outer", "request"} <= {row["name"] for row in rows}


RPD = [
    {},
    {"name": "process_name", "ph": "M", "pid": "2", "args": {"name": "GPU2"}},
    {"name": "thread_name", "ph": "M", "pid": "70", "tid": "71", "args": {"name": "Hip 71"}},
    {"pid": "2", "tid": "0", "name": "CopyHostToDevice", "ts": "100", "dur": "50", "ph": "X",
     "args": {"desc": "CopyHostToDevice"}},
    {"pid": "2", "tid": "0", "name": "Cijk_Ailk_Bljk", "ts": "200", "dur": "30", "ph": "X", "args": {"desc": "KernelExecution"}},
    {"pid": "2", "tid": "0", "name": "FillBuffer", "ts": "240", "dur": "5", "ph": "X", "args": {"desc": "FillBuffer"}},
    {"pid": "2", "tid": "0", "name": "Barrier", "ts": "250", "dur": "5", "ph": "X", "args": {"desc": "Barrier"}},
    {"pid": "70", "tid": "71", "name": "hipLaunchKernel", "ts": "190", "dur": "4", "ph": "X", "args": {"desc": ""}},
    {"pid": "70", "tid": "71", "name": "my_step", "ts": "80", "dur": "400", "ph": "X", "args": {"desc": ""}},
]  # fmt: skip


def test_device_work_without_a_category_is_known_by_its_track(tmp_path):
    """RPD's converter calls processes `GPU2`, writes numbers as texts, and gives events no categories."""
    (tmp_path / "rpd.json").write_text(json.dumps(RPD))
    import_files([tmp_path / "rpd.json"], tmp_path / "t.warp")
    with ws.open(tmp_path / "t.warp") as trace:
        assert trace.sql("select start, duration, device from kernel").fetchall() == [(200_000, 30_000, 2)]
        assert trace.sql("select start, duration, kind from memcpy").fetchall() == [(100_000, 50_000, "HtoD")]
        assert trace.sql("select start, duration from memset").fetchall() == [(240_000, 5_000)]
        assert trace.sql("select function from launch").fetchall() == [("hipLaunchKernel",)]
        assert len(trace.sql("select * from marker").fetchall()) == 2


def _one(name, more=""):
    return f'{{"ph": "X", "name": "{name}", "ts": 1, "dur": 2, "pid": 7, "tid": 8{more}}}'


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("plain", ', "args": {"loss": NaN, "low": -Infinity, "text": "NaN, \\"inf\\",}"}', "plain"),
        (r"half \udce9", "", "half \N{REPLACEMENT CHARACTER}"),
        (r"pair \ud83d\ude00", ', "args": {"x": nan}', "pair \N{GRINNING FACE}"),
        ("two\nlines", "", "two\nlines"),
        (r"C:\Users\x", "", r"C:\Users\x"),
        ("comma", ', "args": {"a": 1,},', "comma"),
    ],
)
@pytest.mark.parametrize(
    ("kineto", "others"), [("", 0), ("", 3), ('"schemaVersion": 1, "deviceProperties": [], ', 0)]
)
def test_events_of_lenient_writers_are_all_read(tmp_path, name, more, expected, kineto, others):
    events = ",\n".join([_one("first")] * others + [_one(name, more)] + [_one("last")] * others)
    stored = imported(tmp_path, f'{{{kineto}"traceEvents": [{events}]}}')
    with ws.open(stored.path) as trace:
        assert trace.sql("SELECT name FROM marker ORDER BY ALL").fetchall() == sorted(
            [("first",)] * others + [(expected,)] + [("last",)] * others
        )
        assert trace.sql("SELECT cause FROM loss").fetchall() == []


@pytest.mark.parametrize("end", [",]", ",\n]\n", ',\n], "other": 1}'])
def test_a_comma_behind_the_last_event_is_no_loss(tmp_path, end):
    begin = '{"traceEvents": [' if end.endswith("}") else "["
    stored = imported(tmp_path, begin + _one("a") + "," + _one("b") + end)
    with ws.open(stored.path) as trace:
        assert trace.sql("SELECT count(*) FROM marker").fetchall() == [(2,)]
        assert trace.sql("SELECT cause FROM loss").fetchall() == []


@pytest.mark.parametrize("text", [TEXT, json.dumps(EVENTS)], ids=["object", "array"])
@pytest.mark.parametrize("between", ["", "\n"])
def test_a_second_document_in_the_file_is_told(tmp_path, text, between):
    made = imported(tmp_path, text + between + text)
    with ws.open(made.path) as trace:
        assert set(trace.sql("SELECT name, start, duration, kind, open FROM marker").fetchall()) == RANGES
    place = len(text) + len(between)
    assert any(f"a second JSON document begins at byte {place:,}" in row["cause"] for row in made.losses)
