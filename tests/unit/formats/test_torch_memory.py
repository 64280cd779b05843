"""PyTorch memory snapshots: every allocation is in the trace with its stack and segment, and no code of the file runs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import warpsight as ws
from warpsight.errors import TraceError

MB = 1 << 20
SEGMENT, OLD = 0x7F00_0000_0000, 0x7E00_0000_0000
FRAMES = [
    {"filename": "??", "name": "at::empty", "line": 0},
    {"filename": "model.py", "name": "forward", "line": 12},
    {"filename": "train.py", "name": "main", "line": 3},
]


def entry(action: str, address: int, size: int, time: int, **more: Any) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "frames": FRAMES,
        "time_us": time,
        **more,
    }


def snapshot() -> dict[str, Any]:
    """One segment and two blocks made in the history, one of them given back; one segment and block from before."""
    old = {"device": 0, "address": OLD, "total_size": 2 * MB, "allocated_size": MB, "active_size": MB, "stream": 0,
           "segment_type": "small", "frames": [],
           "blocks": [{"size": MB, "state": "active_allocated", "frames": FRAMES},
                      {"size": MB, "state": "inactive", "frames": []}]}  # fmt: skip
    new = {"device": 0, "address": SEGMENT, "total_size": 20 * MB, "allocated_size": 4 * MB, "active_size": 4 * MB,
           "stream": 0, "segment_type": "large", "frames": FRAMES,
           "blocks": [{"address": SEGMENT, "size": 4 * MB, "state": "active_allocated", "frames": FRAMES}]}  # fmt: skip
    history = [
        entry("segment_alloc", SEGMENT, 20 * MB, 1000),
        entry("alloc", SEGMENT, 4 * MB, 1001, user_metadata="layer 3"),
        entry("alloc", SEGMENT + 4 * MB, 6 * MB, 1002),
        entry("free_requested", SEGMENT + 4 * MB, 6 * MB, 1003),
        entry("free_completed", SEGMENT + 4 * MB, 6 * MB, 1004),
        entry("oom", 0, 900 * MB, 1005, device_free=5 * MB),
        entry("snapshot", 0, 0, 1006),
    ]
    settings = {"expandable_segments": False, "max_split_size": -1}
    return {"segments": [old, new], "device_traces": [history], "allocator_settings": settings}


def save(path: Path, content: Any) -> Path:
    path.write_bytes(pickle.dumps(content))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    found = ws.memory.read_torch_snapshot(save(tmp_path / "s.pickle", snapshot()))
    with found.write(tmp_path / "s.warp", offset_ns=1_000) as opened:
        yield opened


def test_operations_are_rows_in_time_order(trace: Any) -> None:
    rows = trace.sql("SELECT time, operation, address, bytes, tag FROM memory").fetchall()
    assert rows == [
        (999_000, "pool create", OLD, 2 * MB, "before the history"),
        (999_000, "allocate", OLD, MB, "before the history"),
        (999_000, "pool create", SEGMENT, 20 * MB, None),
        (1_000_000, "allocate", SEGMENT, 4 * MB, "layer 3"),
        (1_001_000, "allocate", SEGMENT + 4 * MB, 6 * MB, None),
        (1_003_000, "free", SEGMENT + 4 * MB, 6 * MB, None),
    ]


def test_blocks_know_their_segment_and_how_full_it_is(trace: Any) -> None:
    rows = trace.sql(
        "SELECT pool, pool_size, pool_used FROM memory WHERE operation IN ('allocate', 'free')"
    ).fetchall()
    assert rows == [(OLD, 2 * MB, MB), *((SEGMENT, 20 * MB, used * MB) for used in (4, 10, 4))]


def test_stacks_begin_at_the_outermost_frame(trace: Any) -> None:
    ((stack,),) = trace.sql("SELECT DISTINCT stack FROM memory WHERE tag IS NULL").fetchall()
    assert trace.stacks([stack])[stack] == ("main (train.py:3)", "forward (model.py:12)", "at::empty")
    assert trace.sql("SELECT DISTINCT method FROM stack").fetchall() == [("imported",)]


def test_a_failed_request_is_an_event(trace: Any) -> None:
    ((name, start, attributes),) = trace.sql("SELECT name, start, attributes FROM user_event").fetchall()
    assert (name, start) == ("out of memory", 1_004_000)
    assert '"bytes": 943718400' in attributes
    assert trace.manifest["settings"]["torch_memory"]["expandable_segments"] is False


def test_what_was_there_before_the_history_and_given_back_in_it_was_allocated(tmp_path: Path) -> None:
    content = snapshot()
    content["device_traces"][0].insert(0, entry("free_completed", OLD + MB, MB, 999))
    found = ws.memory.read_torch_snapshot(save(tmp_path / "s.pickle", content))
    used = [row.pool_used for row in found.operations if row.pool == OLD]
    assert sorted(used[:3]) == [0, MB, 2 * MB]
    assert used[-1] == MB


def test_a_snapshot_without_history_tells_what_is_in_use(tmp_path: Path) -> None:
    found = ws.memory.read_torch_snapshot(save(tmp_path / "s.pickle", {"segments": snapshot()["segments"]}))
    assert [row.bytes for row in found.operations if row.operation == "allocate"] == [MB, 4 * MB]
    assert found.devices == 1


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch executed",)


@pytest.mark.parametrize(
    "content", [Evil(), {"segments": [], "x": Evil()}, {"segments": [Evil()]}, {"segments": [Path("a")]}]
)
def test_code_in_the_file_is_refused_and_not_run(
    tmp_path: Path, content: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TraceError, match=r"plain data only; nothing was executed"):
        ws.memory.read_torch_snapshot(save(tmp_path / "s.pickle", content))
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("data", [b"", b"\x80\x04", b"hello", pickle.dumps([1]), pickle.dumps({"segments": [1]}),
                                  pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc"}]]})])  # fmt: skip
def test_what_is_no_snapshot_is_an_error_that_says_so(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(data)
    with pytest.raises(TraceError, match="is not a memory snapshot of PyTorch"):
        ws.memory.read_torch_snapshot(path)


def test_infinite_numbers_are_damage(tmp_path: Path) -> None:
    content = {"segments": [], "device_traces": [[entry("alloc", SEGMENT, 1, 1, stream=float("inf"))]]}
    with pytest.raises(TraceError, match="is not a memory snapshot of PyTorch"):
        ws.memory.read_torch_snapshot(save(tmp_path / "s.pickle", content))


def test_a_device_of_a_huge_number_does_not_take_for_ever(tmp_path: Path) -> None:
    segment = snapshot()["segments"][0] | {"device": 10**15}
    found = ws.memory.read_torch_snapshot(save(tmp_path / "s.pickle", {"segments": [segment]}))
    assert {row.device for row in found.operations} == {10**15}


def test_stacks_that_a_pickle_refers_to_often_are_made_once(tmp_path: Path) -> None:
    frames = [{"filename": "train.py", "name": f"f{i}", "line": i} for i in range(2000)]
    trace = [entry("alloc", SEGMENT + i, 1, i, frames=frames) for i in range(300)]
    found = ws.memory.read_torch_snapshot(
        save(tmp_path / "s.pickle", {"segments": [], "device_traces": [trace]})
    )
    assert len({id(row.frames) for row in found.operations}) == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.pickle cannot be read"):
        ws.memory.read_torch_snapshot(tmp_path / "none.pickle")
