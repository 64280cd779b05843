"""TraceSmith's BPF records, written field by field as its struct has them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files
from warpsight.model import open as open_trace


def record(time: int, kind: int, payload: bytes = b"", tid: int = 8) -> bytes:
    return struct.pack("<QIIII", time, 7, tid, 1, kind) + payload.ljust(128, b"\0")


RECORDS = b"".join(
    [
        record(100, 1, struct.pack("<QQ3I3II64s", 5, 0xABC, 64, 1, 1, 256, 1, 1, 1024, b"_Z3addPf")),
        record(200, 2, struct.pack("<QQQIB", 1, 2, 4096, 0, 1)),
        record(300, 42, struct.pack("<QQQ", 0, 0xDEAD, 512), tid=9),
        record(400, 10, struct.pack("<QIII", 0x7000, 4096, 1, 2)),
        record(500, 5),
    ]
)


def test_records_become_calls_allocations_and_events(tmp_path: Path) -> None:
    path = tmp_path / "events.bin"
    path.write_bytes(RECORDS + b"cut")
    made = import_files([path], tmp_path / "x.warp", form="tracesmith-bpf")
    assert "3 of 152 bytes" in made.files[0].damage
    with open_trace(tmp_path / "x.warp") as trace:
        launch = (
            "SELECT function, start, short, grid_x, block_x, shared_dynamic, correlation, thread FROM launch"
        )
        assert trace.sql(launch).fetchall() == [("cudaLaunchKernel", 100, "add", 64, 256, 1024, 5, 8)]
        calls = trace.sql("SELECT function, start, bytes FROM api ORDER BY start").fetchall()
        assert calls == [("cudaMemcpy", 200, 4096), ("cudaDeviceSynchronize", 500, None)]
        memory = "SELECT operation, address, bytes, allocator, thread FROM memory"
        assert trace.sql(memory).fetchall() == [("allocate", 0xDEAD, 512, "HIP", 9)]
        event = trace.sql("SELECT name, attributes FROM user_event").fetchall()
        assert event == [("uvm_fault", '{"address":28672,"page_size":4096,"fault_type":1,"gpu":2}')]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.bin"
    path.write_bytes(b"x" * 500)
    with pytest.raises(FormatError, match="unknown type"):
        import_files([path], tmp_path / "x.warp", form="tracesmith-bpf")
