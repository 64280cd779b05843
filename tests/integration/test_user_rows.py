"""What a program says about itself is in every table, summary and export."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, Recorded, environment, record
from warpsight.formats.importing import import_files
from warpsight.formats.registry import EXPORTERS
from warpsight.formats.selection import Selection
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

PROGRAM = """
import time, threading
import warpsight as ws
begin = time.monotonic_ns()
def speak():
    for number in range(5):
        ws.emit("load batch", start=begin, duration=2_000_000, kind="io", number=number)
        ws.counter("queue length", number, "items")
other = threading.Thread(target=speak)
other.start(); other.join()
ws.mark("converged", loss=0.5)
ws.memory.allocate(0x1000, 4096, allocator="arena", tag="weights", category="parameter")
ws.memory.free(0x1000, allocator="arena")
"""


@pytest.fixture(scope="module")
def said(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    path = tmp_path_factory.mktemp("said") / "a.warp"
    found = record(library, path, [sys.executable, "-c", PROGRAM], "--sample", "off", "--counters", "off")
    assert found.code == 0, found.err
    return found


def verb(said: Recorded, name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "warpsight.ui.cli", name, str(said.path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env=environment(Path("unused")))  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_events_marks_and_counters_are_rows_with_their_attributes(said: Recorded) -> None:
    rows = said.sql("SELECT name, kind, duration, count(*) FROM user_event GROUP BY ALL ORDER BY name")
    assert rows == [("converged", "mark", 0, 1), ("load batch", "io", 2_000_000, 5)]
    assert said.sql("SELECT attributes FROM user_event WHERE kind = 'mark'") == [('{"loss": 0.5}',)]
    assert said.sql("SELECT value, unit, source FROM counter ORDER BY value") == [
        (float(n), "items", "user") for n in range(5)
    ]


def test_reported_allocations_keep_allocator_tag_and_category(said: Recorded) -> None:
    rows = said.sql("SELECT operation, bytes, kind, allocator, tag, category FROM memory ORDER BY time")
    assert rows[0] == ("allocate", 4096, "reported", "arena", "weights", "parameter")
    assert rows[1][0] == "free"


def test_summaries_have_them(said: Recorded) -> None:
    events = json.loads(verb(said, "stats", "events", "--json"))
    group = events["tables"]["events"]["rows"]
    assert {(row["name"], row["kind"], row["count"], row["total"]) for row in group} == {
        ("load batch", "io", 5, 10_000_000),
        ("converged", "mark", 1, 0),
    }
    assert "queue length" in verb(said, "stats", "counters")
    assert "arena" in verb(said, "stats", "memory")


def test_the_chrome_export_has_them(said: Recorded, tmp_path: Path) -> None:
    verb(said, "export", "--to", "chrome", "-o", str(tmp_path / "a.json"))
    data = (tmp_path / "a.json").read_bytes()
    events = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)["traceEvents"]
    named = [event for event in events if event["name"] == "load batch"]
    assert [event["dur"] for event in named] == [2000] * 5
    assert len([event for event in events if event["name"] == "converged"]) == 1
    assert sum("queue length" in event["name"] for event in events if event["ph"] == "C") == 5


def test_the_perfetto_export_has_them(said: Recorded, tmp_path: Path) -> None:
    verb(said, "export", "--to", "perfetto", "-o", str(tmp_path / "a.pftrace"))
    data = (tmp_path / "a.pftrace").read_bytes()
    for text in (b"load batch", b"converged", b"queue length", b"items"):
        assert text in data


def write_all_kinds(path: Path) -> None:
    """A trace whose program told something of a range, an operator and events, also what is not a JSON object."""
    with TraceWriter(path) as made:
        made.add(
            "process", [{"process": 0, "pid": 9, "host": "h", "command": "p", "executable": "p", "start": 0}]
        )
        place = {"thread": 9, "process": 0}
        told = {"range": '{"layer": 3}', "moment": None, "op": '{"Input type":["float"]}'}
        named = {name: made.name(name) for name in told}
        made.add("marker", [
            {**place, "start": 100, "duration": 900, "kind": "push/pop", "open": False, "name_id": named["range"],
             "source": "annotate", "attributes": told["range"]},
            {**place, "start": 150, "duration": None, "kind": "instant", "open": False, "name_id": named["moment"],
             "source": "annotate", "attributes": None},
        ])  # fmt: skip
        made.add(
            "op", [{**place, "start": 200, "duration": 10, "name_id": named["op"], "attributes": told["op"]}]
        )
        made.add("user_event", [
            {**place, "start": 300, "duration": 5, "name": "load", "kind": "io", "attributes": EVENT},
            {**place, "start": 400, "duration": 0, "name": "plain", "kind": 'q"\\', "attributes": None},
            {**place, "start": 500, "duration": 0, "name": "empty", "kind": "mark", "attributes": " {}\n"},
            {**place, "start": 600, "duration": 0, "name": "text", "kind": "mark", "attributes": 'no "JSON"'},
            {**place, "start": 700, "duration": 0, "name": "list", "kind": "mark", "attributes": "[1]"},
        ])  # fmt: skip
        made.add("counter", [
            {"time": 350, "name": "queue", "value": 4.5, "unit": "items", "source": "user", "process": 0}
        ])  # fmt: skip


EVENT = '{"bytes": 77123, "file": "a \\"b\\".bin", "nested": {"x": [1, 2]}}'
LOADED = json.loads(EVENT)
TOLD = {
    "load": {"kind": "io", **LOADED}, "plain": {"kind": 'q"\\'}, "empty": {"kind": "mark"},
    "text": {"kind": "mark", "attributes": 'no "JSON"'}, "list": {"kind": "mark", "attributes": "[1]"},
}  # fmt: skip


@pytest.mark.parametrize("form", ["chrome", "kineto"])
def test_what_the_program_told_is_in_the_arguments_of_json(form: str, tmp_path: Path) -> None:
    write_all_kinds(tmp_path / "t.warp")
    with open_trace(tmp_path / "t.warp") as trace, (tmp_path / "out.json").open("wb") as file:
        EXPORTERS[form].write(trace, file, Selection())
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    found = {e["name"]: e.get("args", {}) for e in events if e["ph"] in "Xi"}
    assert {name: found[name] for name in TOLD} == TOLD
    nvtx = [found[name].pop("nvtx", None) for name in ("range", "moment")]
    assert nvtx == (
        [None] * 2
        if form == "kineto"
        else [{"source": "annotate"}, {"source": "annotate", "kind": "instant"}]
    )
    assert found["range"] == {"layer": 3} and found["moment"] == {} and found["op"]["Input type"] == ["float"]
    (sample,) = [e for e in events if e["ph"] == "C"]
    assert (sample["name"], sample["args"]) == ("queue", {"items": 4.5})


@pytest.mark.parametrize("form", ["chrome", "perfetto"])
def test_what_the_program_told_reads_back(form: str, tmp_path: Path) -> None:
    write_all_kinds(tmp_path / "t.warp")
    out = tmp_path / f"out{EXPORTERS[form].suffix}"
    with open_trace(tmp_path / "t.warp") as trace, out.open("wb") as file:
        EXPORTERS[form].write(trace, file, Selection(enclosed=False))  # what other tools read
    made = import_files([out], tmp_path / "back.warp")
    assert made.files[0].format == form
    with open_trace(made.path) as trace:
        events = trace.sql(
            "SELECT name, start, duration, kind, attributes FROM user_event ORDER BY start"
        ).fetchall()
        assert [row[:2] for row in events] == [
            ("load", 300),
            ("plain", 400),
            ("empty", 500),
            ("text", 600),
            ("list", 700),
        ]
        assert {name: {"kind": kind, **json.loads(told or "{}")} for name, _, _, kind, told in events} == TOLD
        ranges = dict(
            trace.sql(
                "SELECT name, attributes FROM marker UNION ALL SELECT name, attributes FROM op"
            ).fetchall()
        )
        assert json.loads(ranges["range"]) == {"layer": 3} and ranges["moment"] is None
        assert json.loads(ranges["op"]) == {"Input type": ["float"]}


MARKER = (
    "start",
    "duration",
    "kind",
    "open",
    "name",
    "domain",
    "category",
    "color",
    "payload",
    "source",
    "attributes",
)
RANGES = [
    (100, 900, "push/pop", False, "full", 'torch "x"}', "layer", 0xFF00B4B4, 3.5, "nvtx", '{"step": 3}'),
    (200, 10, "push/pop", False, "plain", None, None, None, None, "nvtx", None),
    (220, 10, "push/pop", False, "annotated", None, None, None, None, "annotate", '{"nvtx2": {"domain": 1}}'),
    (240, 10, "start/end", False, "payload", None, None, None, -7.0, "nvtx", None),
    (260, None, "instant", False, "moment", "d", None, 0x00FFFF01, None, "nvtx", None),
    (280, 5, "push/pop", False, "odd", None, "ü\\", None, float("inf"), "framework", None),
]  # fmt: skip


def write_ranges(path: Path) -> None:
    with TraceWriter(path) as made:
        process = {"process": 0, "pid": 9, "host": "h", "command": "p", "executable": "p", "start": 0}
        made.add("process", [process])
        rows = [dict(zip(MARKER, row, strict=True)) for row in RANGES]
        made.add("marker", [{**{k: v for k, v in row.items() if k != "name"}, "name_id": made.name(row["name"]), "thread": 9,
                             "process": 0} for row in rows])  # fmt: skip


@pytest.mark.parametrize("form", ["chrome", "perfetto"])
def test_domains_categories_colours_and_payloads_of_ranges_read_back(form: str, tmp_path: Path) -> None:
    write_ranges(tmp_path / "t.warp")
    out = tmp_path / f"out{EXPORTERS[form].suffix}"
    with open_trace(tmp_path / "t.warp") as trace, out.open("wb") as file:
        EXPORTERS[form].write(trace, file, Selection())
    made = import_files([out], tmp_path / "back.warp")
    with open_trace(made.path) as trace:
        found = trace.sql(f"SELECT {', '.join(MARKER)} FROM marker ORDER BY start").fetchall()
    assert [row[:-1] for row in found] == [row[:-1] for row in RANGES]
    assert [row[-1] and json.loads(row[-1]) for row in found] == [
        row[-1] and json.loads(row[-1]) for row in RANGES
    ]


def test_chrome_is_told_the_nearest_of_its_colours(tmp_path: Path) -> None:
    write_ranges(tmp_path / "t.warp")
    with open_trace(tmp_path / "t.warp") as trace, (tmp_path / "out.json").open("wb") as file:
        EXPORTERS["chrome"].write(trace, file, Selection())
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    named = {event["name"]: event.get("cname") for event in events if event["ph"] == "X"}
    assert named == {"full": "background_memory_dump", "moment": "yellow", "plain": None, "annotated": None, "payload": None,
                     "odd": None}  # fmt: skip
    told = {event["name"]: event["args"].get("nvtx") for event in events if event["ph"] == "X"}
    assert told["full"] == {"color": "#ff00b4b4", "domain": 'torch "x"}', "category": "layer", "payload": 3.5}
    assert told["plain"] is None


def test_numbers_that_json_does_not_have_are_told_as_texts(library: Path, tmp_path: Path) -> None:
    program = "import warpsight as ws; ws.mark('loss', value=float('nan'), bounds=[1.5, float('-inf')])"
    found = record(
        library, tmp_path / "a.warp", [sys.executable, "-c", program], "--sample", "off", "--counters", "off"
    )
    ((told,),) = found.sql("SELECT attributes FROM user_event")
    assert json.loads(told, parse_constant=pytest.fail) == {"value": "NaN", "bounds": [1.5, "-Infinity"]}


@pytest.mark.parametrize("form", ["chrome", "kineto"])
def test_times_before_zero_and_lengths_below_it_are_numbers(form: str, tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.warp") as made:
        process = {"process": 0, "pid": 9, "host": "h", "command": "p", "executable": "p", "start": 0}
        made.add("process", [process])
        event = {"kind": "k", "thread": 9, "process": 0}
        made.add("user_event", [{**event, "start": start, "duration": duration, "name": str(start)}
                                for start, duration in ((-1, 0), (-2_500, 1_001), (7, -4))])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace, (tmp_path / "out.json").open("wb") as file:
        EXPORTERS[form].write(trace, file, Selection())
    events = json.loads((tmp_path / "out.json").read_text(), parse_float=str)["traceEvents"]
    found = {e["name"]: (e["ts"], e["dur"]) for e in events if e["ph"] == "X"}
    assert found == {"-1": ("-0.001", "0.000"), "-2500": ("-2.500", "1.001"), "7": ("0.007", "0.000")}


ODD = """
import contextlib, numpy as np
import warpsight as ws

def used():
    ws.emit("half \\ud800", start=np.int64(5_000), duration=2.6, kind="nul \\0 in it")
    ws.emit("long " * 20_000, prompt="x" * 100_000, keys={(1, 2): 3})
    ws.counter("loss", float("nan")); ws.counter("loss", np.float32(0.5)); ws.counter("loss", True)
    ws.memory.allocate(np.uint64(4096), 8.0)

def refused():
    for call in (lambda: ws.emit("e", duration=-1), lambda: ws.counter("c", "5"), lambda: ws.emit(5),
                 lambda: ws.memory.allocate(-1, 8), lambda: ws.annotate(b"x")):
        try:
            call()
        except (TypeError, ValueError) as error:
            yield f"{type(error).__name__}: {error}"
        else:
            yield "accepted"

used()
before = list(refused())
with ws.record("a.warp", sample="off", counters="off"):
    used()
    assert list(refused()) == before and "accepted" not in before, before
"""


def test_odd_values_are_recorded_and_wrong_ones_refused_the_same_recorded_or_not(
    library: Path, tmp_path: Path
) -> None:
    done = subprocess.run([sys.executable, "-c", ODD], capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env=environment(library), cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = Recorded(0, "", "", tmp_path / "a.warp")
    odd, long = found.sql("SELECT name, start, duration, kind, attributes FROM user_event ORDER BY start")
    assert odd == ("half \\ud800", 5_000, 3, "nul \\x00 in it", None)
    assert len(long[0].encode()) <= 32_768 and long[0].endswith("…")
    told = json.loads(long[4])
    assert told["keys"] == {"(1, 2)": 3} and told["prompt"].endswith("x…")
    values = [value for (value,) in found.sql("SELECT value FROM counter ORDER BY time")]
    assert values[0] != values[0] and values[1:] == [0.5, 1.0]
    assert found.sql("SELECT address, bytes FROM memory") == [(4096, 8)]
    for form in ("chrome", "kineto", "perfetto", "jsonl", "parquet"):
        verb(found, "export", "--to", form, "-o", str(tmp_path / f"out.{form}"))
    chrome = (
        gzip.decompress(data) if (data := (tmp_path / "out.chrome").read_bytes())[:2] == b"\x1f\x8b" else data
    )
    json.loads(chrome, parse_constant=pytest.fail)


CALLERS = """
import contextlib
import warpsight as ws
def user():
    ws.emit("emit")
    ws.mark("mark")
    with ws.annotate("with"): pass
    decorated()
    with contextlib.ExitStack() as stack: stack.enter_context(ws.annotate("entered"))
    ws.memory.allocate(4096, 8)
    return 1
@ws.annotate("decorated")
def decorated(): ws.mark("inside")
user()
"""


@pytest.mark.parametrize("stacks", ["python", "both"])
def test_the_innermost_frame_of_what_a_program_reports_is_its_own(
    library: Path, tmp_path: Path, stacks: str
) -> None:
    (tmp_path / "program.py").write_text(CALLERS)
    found = record(library, tmp_path / "a.warp", [sys.executable, str(tmp_path / "program.py")], "--stacks", stacks,
                   "--sample", "off", "--counters", "off")  # fmt: skip
    assert found.code == 0, found.err
    leaves = found.sql(
        "SELECT r.name, f.function, f.line FROM (SELECT name, stack FROM user_event UNION ALL SELECT name, stack FROM marker "
        "UNION ALL SELECT kind, stack FROM memory) r JOIN stack s ON r.stack = s.id JOIN frame f ON s.frame = f.id"
    )
    assert sorted(leaves) == [
        ("decorated", "user", 8), ("emit", "user", 5), ("entered", "user", 9), ("inside", "decorated", 13),
        ("mark", "user", 6), ("reported", "user", 10), ("with", "user", 7),
    ]  # fmt: skip


def test_steps_and_statistics_of_a_program_that_is_recorded_from_outside(
    library: Path, tmp_path: Path
) -> None:
    text = (
        "import warpsight as ws, json\n"
        "for number in range(4):\n    ws.emit('work'); ws.step()\n"
        "print(json.dumps(ws.statistics()))"
    )
    found = record(
        library, tmp_path / "a.warp", [sys.executable, "-c", text], "--sample", "off", "--counters", "off"
    )
    assert found.code == 0, found.err
    steps = found.sql("SELECT name, duration, attributes FROM user_event WHERE kind = 'step' ORDER BY start")
    assert steps == [("step", 0, f'{{"step":{number}}}') for number in range(1, 5)]
    told = json.loads(found.out)
    assert told["emitted"] == told["kept"] + told["dropped"] and told["kept"] >= 8 and told["dropped"] == 0
    assert 0 < told["duration"] < 60_000_000_000
