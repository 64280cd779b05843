"""Every event that the writer makes of one row of each table, member by member, and what a selection leaves out."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warpsight as ws
from tests.unit.analysis.account.rows import call, marker, operator, overhead, sync
from tests.unit.analysis.conftest import copy, device, kernel, launch
from warpsight.formats.importing import import_files
from warpsight.formats.kineto import writer
from warpsight.formats.selection import Selection
from warpsight.model import StoredTrace, TraceWriter
from warpsight.model import open as open_trace

Event = dict[str, Any]


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[StoredTrace]:
    event = {"kind": "device", "device": 0, "allocator": "caching allocator", "process": 0, "address": 4096}
    point = {"name": "util", "unit": "%", "process": 0, "source": "user"}
    with TraceWriter(tmp_path / "t.warp") as file:
        for name in ("gemm", "forward", "aten::mm"):
            file.name(name)
        shape = {"shape_id": file.shape(grid_x=4, grid_y=2, grid_z=1, block_x=64, block_y=2, block_z=1, shared_static=10,
                                        shared_dynamic=5, registers=33)}  # fmt: skip
        stack = file.stack(
            [("main", "a.py", 3, None, "python", None), ("f", "a.py", 9, None, "python", None)]
        )
        rows: dict[str, list[Event]] = {
            "device": [device(0)],
            "process": [{"process": 0, "pid": 77, "command": "python a.py", "executable": "p", "host": "h", "start": 1}],
            "thread": [{"thread": 100, "name": "main thread", "process": 0}],
            "context": [{"context": 1, "device": 0, "api": "cuda", "process": 0, "null_stream": 7}],
            "stream": [{"stream": 7, "context": 1, "device": 0, "process": 0, "name": "copies"},
                       {"stream": 8, "context": 1, "device": 0, "process": 0}],
            "launch": [launch(1_000, 500, 1, stack=stack, name_id=1, **shape)],
            "api": [call(2_000, 10, "cuMemAlloc_v2", correlation=2, bytes=64)],
            "kernel": [kernel(1_700, 300, 1, correlation=1, **shape), kernel(None, None, 1, correlation=8)],
            "memcpy": [copy(3_000, 100, 64, "HtoD", correlation=3)],
            "memset": [{"start": 3_200, "duration": 10, "bytes": 64, "value": 0, "memory_kind": "device", "asynchronous": True,
                        "context": 1, "device": 0, "stream": 8, "process": 0, "correlation": 4}],
            "sync": [sync(4_000, 50, "stream", correlation=5)],
            "marker": [marker(900, 2_000, 2)],
            "op": [operator(950, 700, 3, correlation=9, sequence=4, shapes="[[2,3]]"), operator(2_950, 70, 3, correlation=10)],
            "flow": [{"from_correlation": 9, "to_correlation": 10, "kind": "forward-backward", "process": 0}],
            "memory": [{**event, "time": 500, "operation": "allocate", "bytes": 64, "thread": 100, "pool_size": 100,
                        "pool_used": 70},
                       {**event, "time": 600, "operation": "free", "bytes": 64, "device": None, "allocator": "cpu"},
                       {**event, "time": 650, "operation": "pool create", "bytes": 64}],
            "counter": [{**point, "time": 700, "value": 0.5}, {**point, "time": 701, "value": float("nan")}],
            "user_event": [{"start": 800, "duration": 0, "name": "hello", "kind": "step", "thread": 100, "process": 0}],
            "overhead": [overhead(5_000, 8, "buffer flush")],
        }  # fmt: skip
        for table, more in rows.items():
            file.add(table, more)
    with open_trace(tmp_path / "t.warp") as opened:
        yield opened


HOST, TRACK, COPIES = {"pid": 77, "tid": 100}, {"pid": 0, "tid": 7}, {"pid": 0, "tid": 8}
GRID = {"grid": [4, 2, 1], "block": [64, 2, 1], "shared memory": 15}
ON = {"device": 0, "context": 1}


def slice_(category: str, name: str, place: Event, ts: float, duration: float, **arguments: Any) -> Event:
    return {"ph": "X", "cat": category, "name": name, **place, "ts": ts, "dur": duration, "args": arguments}


SLICES = {
    "launch": slice_("cuda_runtime", "cudaLaunchKernel", HOST, 1.0, 0.5, correlation=1, kernel="gemm",
                     **{"Call stack": "a.py(9): f;a.py(3): main"}, **GRID),
    "api": slice_("cuda_driver", "cuMemAlloc_v2", HOST, 2.0, 0.01, correlation=2, bytes=64),
    "op": slice_("cpu_op", "aten::mm", HOST, 0.95, 0.7, **{"External id": 9, "Sequence number": 4, "Input Dims": [[2, 3]]}),
    "later op": slice_("cpu_op", "aten::mm", HOST, 2.95, 0.07, **{"External id": 10}),
    "kernel": slice_("kernel", "gemm", TRACK, 1.7, 0.3, queued=0, stream=7, correlation=1, **ON, **GRID,
                     **{"registers per thread": 33}),
    "memcpy": slice_("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", TRACK, 3.0, 0.1, stream=7, correlation=3, bytes=64, **ON),
    "memset": slice_("gpu_memset", "Memset (Device)", COPIES, 3.2, 0.01, stream=8, correlation=4, bytes=64, **ON),
    "sync": slice_("cuda_sync", "Stream Sync", TRACK, 4.0, 0.05, cuda_sync_kind="Stream Sync", context=1, stream=7,
                   correlation=5),
    "user_event": slice_("user_event", "hello", HOST, 0.8, 0.0, kind="step"),
    "marker": slice_("user_annotation", "forward", HOST, 0.9, 2.0),
    "overhead": slice_("overhead", "buffer flush", {"pid": -1, "tid": 0}, 5.0, 0.008),
}  # fmt: skip
INSTANT = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 77}
SAMPLES = [
    {**INSTANT, "tid": 100, "ts": 0.5, "args": {"Total Reserved": 100, "Total Allocated": 70, "Bytes": 64, "Addr": 4096,
                                                "Device Id": 0, "Device Type": 1}},
    {**INSTANT, "tid": 0, "ts": 0.6, "args": {"Bytes": -64, "Addr": 4096, "Device Id": -1, "Device Type": 0}},
    {"ph": "C", "cat": "counter", "name": "util", "pid": 77, "tid": 0, "ts": 0.7, "args": {"%": 0.5}},
]  # fmt: skip
TRACKS = [
    {"ph": "M", "name": name, **place, "ts": 0.0, "args": {"labels" if "labels" in name else "name": text}}
    for name, place, text in (
        ("process_name", {"pid": 77, "tid": 0}, "python a.py"), ("process_labels", {"pid": 77, "tid": 0}, "CPU"),
        ("process_labels", {"pid": 0, "tid": 0}, "GPU 0"), ("thread_name", HOST, "main thread"),
        ("thread_name", TRACK, "copies"), ("thread_name", COPIES, "stream 8"),
    )
]  # fmt: skip


def events(trace: StoredTrace, selection: Selection) -> tuple[list[Event], dict[str, int]]:
    out = io.BytesIO()
    counts = writer.write(trace, out, selection)
    found: list[Event] = json.loads(out.getvalue())["traceEvents"]
    return found, counts


def by_text(some: list[Event]) -> list[str]:
    return sorted(json.dumps(one, sort_keys=True) for one in some)


def test_events_are_kinetos(trace: StoredTrace) -> None:
    found, counts = events(trace, Selection(enclosed=False))
    assert by_text([one for one in found if one["ph"] not in "sf"]) == by_text(
        [*SLICES.values(), *SAMPLES, *TRACKS]
    )
    assert counts == {
        "slices": len(SLICES),
        "samples": len(SAMPLES),
        "tracks": len(TRACKS),
        "unplaced": 1,
    }  # never ran


def test_arrows_lead_from_calls_to_their_work_and_from_operators_to_those_backward(
    trace: StoredTrace,
) -> None:
    found, _ = events(trace, Selection(enclosed=False))
    arrows = [one for one in found if one["ph"] in "sf"]
    assert [(one["ph"], one["cat"], one["pid"], one["tid"], one["ts"], one.get("bp")) for one in arrows] == [
        ("s", "ac2g", 77, 100, 1.0, None), ("f", "ac2g", 0, 7, 1.7, "e"),
        ("s", "fwdbwd", 77, 100, 0.95, None), ("f", "fwdbwd", 77, 100, 2.95, "e"),
    ]  # fmt: skip
    assert arrows[0]["id"] == arrows[1]["id"] == 1 and arrows[2]["id"] == arrows[3]["id"]
    without, _ = events(trace, Selection(enclosed=False, flows=False))
    assert by_text(without) == by_text([one for one in found if one["ph"] not in "sf"])


@pytest.mark.parametrize(
    ("selection", "slices", "samples"),
    [
        (Selection(enclosed=False, counters=False), set(SLICES), 0),
        (Selection(enclosed=False, begin=1_600, end=3_000), {"api", "op", "later op", "kernel", "marker"}, 0),
        (Selection(enclosed=False, begin=500, end=700), set(), 2),
        (Selection(enclosed=False, streams=(8,)), {"memset"}, 3),
    ],
)  # fmt: skip
def test_a_selection_leaves_out_what_it_does_not_choose(
    trace: StoredTrace, selection: Selection, slices: set[str], samples: int
) -> None:
    found, _ = events(trace, selection)
    of_device = {"kernel", "memcpy", "memset", "sync"}
    chosen = [name for name, one in SLICES.items() if json.dumps(one, sort_keys=True) in by_text(found)]
    if selection.streams:  # chooses device work alone
        assert set(chosen) & of_device == slices
    else:
        assert set(chosen) == slices
    assert sum(one["ph"] in "iC" for one in found) == samples


def test_memory_events_come_back(trace: StoredTrace, tmp_path: Path) -> None:
    with (tmp_path / "t.json").open("wb") as file:
        writer.write(trace, file, Selection(enclosed=False))
    made = import_files([tmp_path / "t.json"], tmp_path / "back.warp", force=True)
    with ws.open(made.path) as again:
        query = "SELECT operation, address, bytes, device, allocator, pool_size, pool_used, kind FROM memory ORDER BY time"
        assert again.sql(query).fetchall() == [
            ("allocate", 4096, 64, 0, "caching allocator", 100, 70, "reported"),
            ("free", 4096, 64, None, "cpu", None, None, "reported"),
        ]


def test_other_instants_with_the_fields_of_memory_events_are_markers(tmp_path: Path) -> None:
    place = {"ph": "i", "cat": "cpu_instant_event", "pid": 1, "tid": 2, "args": {"Bytes": 8, "Addr": 4096}}
    both = [
        {**place, "name": name, "ts": at}
        for at, name in enumerate(("[memory]", "mine", "[memory]", "mine"), 9)
    ]
    (tmp_path / "t.json").write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": both})
    )
    with ws.open(tmp_path / "t.json") as trace:
        counts = [trace.sql(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in ("memory", "marker")]
        assert counts == [2, 2]
        assert trace.sql("SELECT DISTINCT name FROM marker").fetchall() == [("mine",)]


def test_a_free_of_unknown_size_comes_back_as_a_free(tmp_path: Path) -> None:
    event = {"process": 0, "thread": 7, "address": 4096, "kind": "device", "allocator": "CUDA"}
    with TraceWriter(tmp_path / "t.warp") as writing:
        writing.add(
            "process", [{"process": 0, "pid": 77, "command": "a", "executable": "p", "host": "h", "start": 1}]
        )
        writing.add("memory", [{**event, "time": 500, "operation": "allocate", "bytes": 64},
                               {**event, "time": 600, "operation": "free"}])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace, (tmp_path / "t.json").open("wb") as file:
        writer.write(trace, file, Selection(enclosed=False))
    made = import_files([tmp_path / "t.json"], tmp_path / "back.warp")
    with ws.open(made.path) as again:
        assert again.sql("SELECT operation, bytes FROM memory ORDER BY time").fetchall() == [
            ("allocate", 64),
            ("free", 64),
        ]


@pytest.mark.parametrize(
    ("arguments", "row"),
    [
        ({"Device Type": 1, "Device Id": 1, "Bytes": 8}, ("allocate", 8, 1, "caching allocator")),
        ({"Device Type": 1, "Device Id": 1, "Bytes": -8}, ("free", 8, 1, "caching allocator")),
        ({"Device Type": 0, "Device Id": -1, "Bytes": 0}, ("allocate", 0, None, "cpu")),
        ({"Device Type": 0, "Device Id": 0, "Bytes": 8}, ("allocate", 8, None, "cpu")),
        ({"Device Type": 1, "Bytes": 8}, ("allocate", 8, None, "caching allocator")),
        ({"Device Id": 0, "Bytes": 8}, ("allocate", 8, 0, "caching allocator")),
    ],
)
def test_a_memory_event_is_of_its_device_or_the_hosts(
    tmp_path: Path, arguments: Event, row: tuple[Any, ...]
) -> None:
    """c10's device type 0 is the host, whatever number it has."""
    placed = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 2, "ts": 9}
    named = {"deviceProperties": [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}]}
    event = {**placed, "args": {"Addr": 4096, **arguments}}
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, **named, "traceEvents": [event]}))
    with ws.open(tmp_path / "t.json") as found:
        assert found.sql("SELECT operation, bytes, device, allocator FROM memory").fetchall() == [row]
