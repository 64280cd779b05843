"""Who launched device work, and which tracks are a device's, in dialects that have no correlations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import warpsight as ws
from warpsight.formats.importing import import_files

Event = dict[str, Any]
US = 1_000


def opened(folder: Path, events: list[Event]) -> Any:
    file = folder / "t.json"
    file.write_text(json.dumps({"traceEvents": events}))
    return ws.open(import_files([file], folder / "t.warp").path)


def complete(pid: object, tid: object, name: str, start: int, duration: int, **more: Any) -> Event:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": start, "dur": duration, **more}


def arrow(number: int, begin: tuple[object, object, int], *ends: tuple[object, object, int]) -> list[Event]:
    """An arrow with its ends: (process, thread, time) each."""
    return [
        {"ph": phase, "cat": "api_op", "name": "api_op", "id": str(number), "pid": p, "tid": t, "ts": ts}
        for phase, (p, t, ts) in zip("s" + "f" * len(ends), (begin, *ends), strict=True)
    ]


GPU = {"ph": "M", "pid": "2", "name": "process_name", "args": {"name": "GPU2"}}


def test_an_arrow_from_a_call_to_device_work_is_a_launch(tmp_path: Path) -> None:
    events = [
        GPU,
        complete("77", "77", "hipMemcpy", 100, 50),
        complete("77", "77", "hipLaunchKernel", 200, 5),
        complete("2", "0", "CopyHostToDevice", 110, 40),
        complete("2", "0", "gemm", 150, 10),  # begins where the copy ends
        complete("2", "0", "gelu", 230, 10),
        *arrow(1, ("77", "77", 110), ("2", "0", 110)),  # inside the call, at the copy's start
        *arrow(2, ("77", "77", 200), ("2", "0", 150), ("2", "0", 230)),
        {},
    ]
    with opened(tmp_path, events) as trace:
        launch = trace.sql("SELECT correlation FROM launch WHERE function = 'hipLaunchKernel'").fetchall()
        assert [row[0] for row in trace.sql("SELECT correlation FROM kernel").fetchall()] == [
            launch[0][0]
        ] * 2
        call = trace.sql("SELECT correlation FROM api WHERE function = 'hipMemcpy'").fetchall()
        assert trace.sql("SELECT correlation FROM memcpy").fetchall() == call != launch
        assert trace.sql("SELECT count(DISTINCT process) FROM kernel").fetchall() == [(1,)]
        assert (
            trace.sql("SELECT process FROM kernel LIMIT 1").fetchall()
            == trace.sql("SELECT process FROM launch").fetchall()
        )
        assert trace.sql("SELECT * FROM loss").fetchall() == []


def test_of_nested_calls_the_innermost_has_launched(tmp_path: Path) -> None:
    events = [
        GPU,
        complete(7, 7, "hipMemcpyWithStream", 100, 60),
        complete(7, 7, "hipMemcpyAsync", 110, 20),
        complete("2", "0", "CopyHostToDevice", 140, 10),
        *arrow(1, (7, 7, 115), ("2", "0", 140)),
    ]
    with opened(tmp_path, events) as trace:
        known = trace.sql("SELECT function FROM api WHERE correlation IS NOT NULL").fetchall()
        assert known == [("hipMemcpyAsync",)]


def test_correlations_that_a_file_has_are_kept(tmp_path: Path) -> None:
    events = [
        GPU,
        complete(7, 7, "hipLaunchKernel", 100, 5, args={"correlation": 3}),
        complete("2", "0", "gemm", 140, 10, args={"correlation": 3}),
        *arrow(1, (7, 7, 100), ("2", "0", 140)),
    ]
    with opened(tmp_path, events) as trace:
        assert trace.sql("SELECT correlation FROM kernel").fetchall() == [(3,)]


def test_other_arrows_are_noted_and_nothing_is_missing_for_them(tmp_path: Path) -> None:
    events = [complete(7, 7, "a", 0, 5), complete(7, 8, "b", 9, 5), *arrow(1, (7, 7, 1), (7, 8, 9))]
    with opened(tmp_path, events) as trace:
        assert trace.sql("SELECT count, severity FROM loss").fetchall() == [(2, "note")]


def timeline(*streams: str) -> list[Event]:
    """A step of TensorFlow's timeline: an operator on the executor, its kernel and a copy on these processes."""
    names = [
        "/job:localhost/replica:0/task:0/cpu:0",
        "/job:localhost/replica:0/task:0/device:GPU:1",
        *streams,
    ]
    events: list[Event] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": f"{name} Compute"}}
        for pid, name in enumerate(names)
    ]
    events += [complete(1, 0, "MatMul", 10, 100, cat="Op", args={"name": "layer/MatMul", "op": "MatMul"})]
    for pid, name in enumerate(names[2:], 2):
        if not name.endswith(("stream:14", "memcpy")):
            events.append(
                complete(pid, 0, "MatMul", 80, 40, cat="Op", args={"name": "layer/MatMul", "op": "MatMul"})
            )
        if name.endswith(("stream:14", "memcpy")):
            events.append(
                complete(pid, 0, "MEMCPYDtoH", 130, 20, cat="Op", args={"name": "edge_2", "op": "MEMCPYDtoH"})
            )
    return events


@pytest.mark.parametrize(
    "streams",
    [
        ("/gpu:1/stream:all", "/gpu:1/stream:12", "/gpu:1/memcpy", "/gpu:1/stream:14"),
        ("/device:GPU:1/stream:all", "/device:GPU:1/memcpy"),
    ],
    ids=["streams", "all streams as one"],
)
def test_the_streams_of_tensorflows_timelines_are_device_work(
    tmp_path: Path, streams: tuple[str, ...]
) -> None:
    with opened(tmp_path, timeline(*streams)) as trace:
        assert trace.sql("SELECT name, start, duration FROM kernel").fetchall() == [
            ("MatMul", 80 * US, 40 * US)
        ]
        assert trace.sql("SELECT kind, start, duration FROM memcpy").fetchall() == [
            ("DtoH", 130 * US, 20 * US)
        ]
        assert trace.sql('SELECT "index" FROM device').fetchall() == [(1,)]
        assert trace.sql("SELECT name, duration FROM op").fetchall() == [("MatMul", 100 * US)]
        assert len(trace.sql("SELECT DISTINCT process FROM process").fetchall()) == 1


def test_kernels_of_pytorchs_first_profiler_are_device_work(tmp_path: Path) -> None:
    events = [
        complete("CPU functions", 1, "mm", 10, 30, args={}),
        {
            "ph": "s",
            "cat": "cpu_to_cuda",
            "name": "mm",
            "id": 3,
            "ts": 10,
            "pid": "CPU functions",
            "tid": 1,
            "args": {},
        },
        {
            "ph": "f",
            "cat": "cpu_to_cuda",
            "name": "mm",
            "id": 3,
            "ts": 60,
            "pid": "CUDA functions",
            "tid": 0,
            "args": {},
        },
        complete("CUDA functions", 0, "mm", 60, 90, args={}),
    ]
    with opened(tmp_path, events) as trace:
        assert trace.sql("SELECT name, start, duration FROM kernel").fetchall() == [("mm", 60 * US, 90 * US)]
        assert trace.sql('SELECT "index" FROM device').fetchall() == [(0,)]
        assert trace.sql("SELECT count(*) FROM loss WHERE severity <> 'note'").fetchall() == [(0,)]


def test_device_times_of_operators_inside_their_callers_are_counted_once(tmp_path: Path) -> None:
    """PyTorch's first profiler: a convolution of 80 µs, with a copy of 10 in it, is no work of its two callers."""
    on_device = [
        ("conv2d", 100, 100), ("cudnn_convolution", 110, 80), ("contiguous", 120, 10), ("relu", 200, 30), ("relu", 230, 0),
    ]  # fmt: skip
    events = [
        complete("CUDA functions", 0, name, start, length, args={}) for name, start, length in on_device
    ]
    events.append(complete("CUDA functions", 1, "conv2d", 100, 100, args={}))  # another device
    with opened(tmp_path, events) as trace:
        found = trace.sql("SELECT device, name, start, duration FROM kernel ORDER BY ALL").fetchall()
        devices = dict(trace.sql('SELECT device, "index" FROM device').fetchall())
        assert [(devices[d], name, start // US, length // US) for d, name, start, length in found] == [
            (0, "contiguous", 120, 10), (0, "conv2d", 100, 10), (0, "conv2d", 190, 10), (0, "cudnn_convolution", 110, 10),
            (0, "cudnn_convolution", 130, 60), (0, "relu", 200, 30), (0, "relu", 230, 0), (1, "conv2d", 100, 100),
        ]  # fmt: skip


def test_device_times_that_cross_are_not_cut(tmp_path: Path) -> None:
    events = [
        complete("CUDA functions", 0, name, start, 50, args={}) for name, start in [("a", 100), ("b", 120)]
    ]
    with opened(tmp_path, events) as trace:
        found = trace.sql("SELECT name, start, duration FROM kernel ORDER BY ALL").fetchall()
        assert found == [("a", 100 * US, 50 * US), ("b", 120 * US, 50 * US)]


def xprof(*threads: tuple[int, str]) -> list[Event]:
    """A file of XProf's trace viewer: a host that launches, and a device with these threads, each with one event of 40 µs."""
    names = [
        (701, None, "/host:CPU"),
        (1, None, "/device:GPU:3"),
        (701, 9, "python3"),
        *((1, t, name) for t, name in threads),
    ]
    events: list[Event] = [
        {
            "ph": "M",
            "pid": pid,
            "tid": tid,
            "name": "thread_name" if tid else "process_name",
            "args": {"name": name},
        }
        for pid, tid, name in names
    ]
    events.append(complete(701, 9, "cuLaunchKernel", 10, 5, args={"correlation_id": "7"}))
    for number, (tid, name) in enumerate(threads):
        copies = name.endswith("(MemcpyH2D)")
        args = {
            "correlation_id": "7",
            "context_id": "$$1",
            **({"memcpy_details": "size:4096 dest:0 async:1"} if copies else {}),
        }
        events.append(complete(1, tid, "MemcpyH2D" if copies else name, 100 * number, 40, args=args))
    return events


def test_the_streams_of_xprofs_trace_viewer_are_device_work_and_their_sums_are_not(tmp_path: Path) -> None:
    threads = (
        (19, "Stream #19(MemcpyD2D,Compute)"),
        (20, "Stream #20(MemcpyH2D)"),
        (99, "TensorFlow Ops"),
        (98, "Steps"),
    )
    with opened(tmp_path, xprof(*threads)) as trace:
        assert trace.sql("SELECT start, correlation FROM kernel").fetchall() == [(0, 7)]
        assert trace.sql("SELECT kind, bytes FROM memcpy").fetchall() == [("HtoD", 4096)]
        assert trace.sql('SELECT "index" FROM device').fetchall() == [(3,)]
        assert trace.sql(
            "SELECT count(*) FROM kernel JOIN launch USING (process, correlation)"
        ).fetchall() == [(1,)]
        assert trace.sql("SELECT * FROM loss").fetchall() == []


def test_a_device_of_xprofs_trace_viewer_without_streams_has_its_operations(tmp_path: Path) -> None:
    with opened(tmp_path, xprof((3, "XLA Modules"), (4, "XLA Ops"))) as trace:
        assert trace.sql("SELECT name, start FROM kernel").fetchall() == [("XLA Ops", 100 * US)]
