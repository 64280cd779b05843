import io
import json
import re
from collections import Counter
from decimal import Decimal

import pytest

from benchmarks.synthetic_trace import Plan, make
from warpsight.formats.chrome import writer as chrome
from warpsight.formats.selection import Selection
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def export(trace):
    file = io.BytesIO()
    chrome.write(trace, file, Selection())
    return file.getvalue()


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = make(tmp_path_factory.mktemp("chrome") / "t.warp", Plan(kernels=3_000, overlap=0.05))
    with open_trace(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def events(trace):
    return json.loads(export(trace), parse_float=Decimal)["traceEvents"]


def nanoseconds(event):
    return int(event["ts"] * 1000), int((event["ts"] + event["dur"]) * 1000)


def test_times_are_exact_decimals(trace, events):
    expected = Counter(trace.sql("SELECT start, start + duration FROM kernel").fetchall())
    assert Counter(nanoseconds(e) for e in events if e.get("cat") == "kernel") == expected
    assert re.search(rb'"ts":\d+\.\d{3},"dur":\d+\.\d{3},', export(trace))


def test_each_flow_begins_at_a_launch_and_ends_at_its_work(events):
    begun, ended = ({e["id"]: e for e in events if e["ph"] == phase} for phase in "sf")
    assert begun.keys() == ended.keys()
    assert len(begun) == 3_060
    assert all(begun[i]["ts"] <= ended[i]["ts"] for i in begun if i in ended and begun[i]["tid"] != 4999)


def test_devices_and_processes_are_named(events):
    names = {e["args"]["name"] for e in events if e["name"] in ("process_name", "thread_name")}
    assert {
        "GPU 0: NVIDIA H200",
        "rank 0: python train.py --rank 0",
        "Stream 7 (default)",
        "MainThread",
    } <= names
    placed = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert placed <= named


@pytest.mark.parametrize(
    "name", ['quote " backslash \\ newline \n', "tab\tcontrol\x01", "多字节 é 🚀", "x" * 300, "</script>"]
)
def test_any_name_is_valid_json(tmp_path, name):
    with TraceWriter(tmp_path / "t.warp") as w:
        w.add(
            "process", [{"process": 0, "pid": 9, "host": "h", "command": name, "executable": "p", "start": 0}]
        )
        w.add(
            "kernel",
            [
                {
                    "name_id": w.name(name),
                    "context": 1,
                    "stream": 7,
                    "process": 0,
                    "graph_level": False,
                    "start": 1,
                    "duration": 1,
                }
            ],
        )
        w.add("counter", [{"time": 5, "name": name, "value": 1.5, "unit": name, "source": "user"}])
    with open_trace(tmp_path / "t.warp") as trace:
        events = json.loads(export(trace))["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == [name]


def test_kernels_of_one_graph_launch_are_steps_of_one_flow(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as w:
        w.add(
            "process", [{"process": 0, "pid": 9, "host": "h", "command": "p", "executable": "p", "start": 0}]
        )
        kernel = {
            "name_id": w.name("k"),
            "context": 1,
            "stream": 7,
            "process": 0,
            "graph_level": False,
            "correlation": 5,
        }
        w.add("kernel", [{**kernel, "start": 100 * i, "duration": 50} for i in range(1, 4)])
        w.add(
            "launch",
            [
                {
                    "start": 10,
                    "duration": 5,
                    "function": "cudaGraphLaunch",
                    "thread": 9,
                    "process": 0,
                    "captured": False,
                    "correlation": 5,
                }
            ],
        )
    with open_trace(tmp_path / "t.warp") as trace:
        events = json.loads(export(trace))["traceEvents"]
    assert sorted(e["ph"] for e in events if e.get("cat") == "flow") == ["s", "t", "t", "t"]
