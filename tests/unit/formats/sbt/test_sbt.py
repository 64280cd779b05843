"""SBT in and out: compared with a codec written byte by byte from the description of the layout."""

from __future__ import annotations

import importlib.util
import io
import random
import struct
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from warpsight.formats import varint
from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files
from warpsight.formats.selection import Selection
from warpsight.model import StoredTrace, TraceWriter
from warpsight.model import open as open_trace
from warpsight_plugins.sbt import events, writer


def _reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "sbt_reference_codec", Path(__file__).with_name("reference_codec.py")
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


ref = _reference()
GOLDEN = Path(__file__).parents[3] / "golden" / "formats" / "sbt" / "every_type.sbt"


def imported(tmp_path: Path, data: bytes) -> StoredTrace:
    path = tmp_path / "in.sbt"
    path.write_bytes(data)
    import_files([path], tmp_path / "in.warp", form="sbt", force=True)
    return open_trace(tmp_path / "in.warp")


def exported(trace: StoredTrace) -> bytes:
    out = io.BytesIO()
    writer.write(trace, out, Selection())
    return out.getvalue()


def mixed(count: int, seed: int, *, backwards: bool = False) -> list:
    """Events of every type with every combination of fields, ids and addresses at the ends of their ranges."""
    rng = random.Random(seed)
    frames = [tuple((rng.getrandbits(47), f"f{rng.randint(0, 30)}", rng.choice(["", "a.cpp"]), rng.choice([0, 7]))
              for _ in range(rng.randint(1, 9))) for _ in range(12)]  # fmt: skip
    time, out = 10**9, []
    for i in range(count):
        time += rng.randint(0, 3000) if not backwards or rng.random() > 0.1 else -rng.randint(0, 5000)
        event = ref.Event(
            rng.choice([*range(22), 99, 255, 1, 1, 1]), time, rng.choice([0, rng.randint(1, 9999)])
        )
        event.device, event.stream = rng.randint(0, 2), rng.choice([0, 7, 2**32 - 1])
        event.correlation, event.name = (
            rng.choice([0, i, 2**63 + 5]),
            rng.choice(["k<int>", 'naïve "q"', "", "MemcpyH2D"]),
        )
        if rng.random() < 0.4:
            event.kernel = tuple(rng.choice([1, 70_000, 2**32 - 1]) for _ in range(8))
        if rng.random() < 0.3:
            event.memory = tuple(rng.getrandbits(rng.choice([10, 64])) for _ in range(3))
        if rng.random() < 0.3:
            event.stack = (rng.choice([0, rng.getrandbits(40)]), rng.choice(frames))
        event.odd_flags = 0x90 if rng.random() < 0.01 else 0
        out.append(event)
    return out


def halves(count: int) -> list:
    """What TraceSmith's CUPTI recorder writes: a launch and an end per kernel, none with a duration."""
    out = []
    for i in range(count):
        begin = 1_000 + 100 * i
        out += [
            ref.Event(1, begin, 0, 0, 7, i + 1, f"k{i % 3}"),
            ref.Event(2, begin + 40 + i % 7, 0, 0, 7, i + 1, f"k{i % 3}"),
        ]
    return out


DEVICE = (0, "H200", "NVIDIA", 9, 0, 150 << 30, 3_201_000, 6144, 132, 2048, 1_980_000, 32)
FILES = {
    "nothing": ref.File(),
    "foreword only": ref.File(metadata=("app", "app --x", 1, 2, "host", 7), devices=[DEVICE]),
    "everything": ref.File(mixed(400, 1), ("app", "app --x", 1, 2**64 - 1, "höst", 77), [DEVICE]),
    "backwards": ref.File(
        mixed(400, 2, backwards=True), version=(9, 9), reserved=b"7 bytes", extra_strings=("unused",)
    ),
    "halves": ref.File(halves(300)),
    "time 0": ref.File([ref.Event(17, 0, name="m"), ref.Event(17, 2**64 - 1, name="m")]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_read_and_written_again_is_the_same_file(tmp_path: Path, name: str) -> None:
    data = ref.write(FILES[name])
    with imported(tmp_path, data) as trace:
        assert exported(trace) == data


def test_decoding_finds_what_the_reference_wrote_whatever_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    made = mixed(6_000, 3, backwards=True)
    data = ref.write(ref.File(made))
    begin = struct.unpack_from("<Q", data, 40)[0] + 1
    base, at = varint.decode_one(data, begin)
    array = np.frombuffer(data, np.uint8)
    monkeypatch.setattr(events, "_SMALL", 2_000)
    for window in (1 << 14, 1 << 16, 1 << 24):
        monkeypatch.setattr(events, "WINDOW_BYTES", window)
        parts = [part for part, _ in events.read(array, at, len(array), base, len(made))]
        for column, field in (
            ("time", "time"),
            ("correlation", "correlation"),
            ("stream", "stream"),
            ("kind", "kind"),
        ):
            found = np.concatenate([getattr(part, column) for part in parts]).tolist()
            assert found == [getattr(event, field) for event in made]


def test_kernels_copies_and_waits_become_rows(tmp_path: Path) -> None:
    stack = (42, ((0x10, "launch", "", 0), (0x20, "main", "main.cpp", 7)))
    made = [
        ref.Event(1, 100, 50, 1, 7, 5, "_Z3addPf", (64, 2, 1, 128, 1, 1, 4096, 32), None, stack),
        ref.Event(3, 200, 10, 1, 7, 6, "copy", None, (11, 22, 4096)),
        ref.Event(8, 300, 5, 1, 7, 7, "cudaDeviceSynchronize"),
        ref.Event(15, 310, 0, 1, 0, 8, "cudaMalloc", None, (0, 0xABC, 512)),
        ref.Event(255, 320, 3, 1, 2, 9, "mine"),
    ]
    with imported(tmp_path, ref.write(ref.File(made, devices=[(1, *DEVICE[1:])]))) as trace:
        shape = "grid_x, grid_y, block_x, shared_dynamic, registers"
        kernel = trace.sql(f"SELECT short, start, duration, {shape}, stream, correlation, stack FROM kernel")
        ((*values, number),) = kernel.fetchall()
        assert values == ["add", 100, 50, 64, 2, 128, 4096, 32, 7, 5]
        assert trace.stacks([number])[number] == ("main (main.cpp:7)", "launch")
        assert trace.sql("SELECT kind, bytes, duration FROM memcpy").fetchall() == [("HtoD", 4096, 10)]
        assert trace.sql("SELECT kind, duration FROM sync").fetchall() == [("context", 5)]
        assert trace.sql("SELECT operation, address, bytes FROM memory").fetchall() == [
            ("allocate", 0xABC, 512)
        ]
        assert trace.sql("SELECT name, kind, duration FROM user_event").fetchall() == [("mine", "Custom", 3)]
        device = trace.sql("SELECT index, name, multiprocessors, compute_capability FROM device").fetchall()
        assert device == [(1, "H200", 132, "9.0")]


def test_a_launch_and_its_end_are_one_kernel_with_a_duration(tmp_path: Path) -> None:
    with imported(tmp_path, ref.write(ref.File(halves(300)))) as trace:
        rows = trace.sql("SELECT start, duration FROM kernel ORDER BY start").fetchall()
    assert rows == [(1_000 + 100 * i, 40 + i % 7) for i in range(300)]


def test_a_launch_whose_end_never_came_has_no_duration_and_is_said_so(tmp_path: Path) -> None:
    with imported(tmp_path, ref.write(ref.File(halves(3)[:-1]))) as trace:
        assert trace.sql("SELECT duration FROM kernel ORDER BY start").fetchall() == [(40,), (41,), (None,)]
        assert trace.sql("SELECT count FROM loss WHERE kind = 'kernel'").fetchall() == [(1,)]


def test_tracesmith_can_read_a_trace_of_ours(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "own.warp") as made:
        process = {"process": 0, "pid": 4711, "host": "h", "command": "python x.py", "executable": "python"}
        made.add("process", [{**process, "start": 5}])
        made.add(
            "device",
            [
                {
                    "device": 0,
                    "index": 3,
                    "uuid": "GPU-1",
                    "name": "H200",
                    "vendor": "NVIDIA",
                    "platform": "cuda",
                }
            ],
        )
        shape = made.shape(
            grid_x=64,
            grid_y=1,
            grid_z=1,
            block_x=256,
            block_y=1,
            block_z=1,
            shared_static=16,
            shared_dynamic=8,
        )
        frames = [("main", "m.py", 3, None, "python", None), ("step", "m.py", 9, None, "python", None)]
        row = {
            "name_id": made.name("add"),
            "shape_id": shape,
            "stack": made.stack(frames),
            "device": 0,
            "context": 1,
        }
        row |= {"stream": 7, "correlation": 5, "process": 0, "graph_level": False}
        made.add("kernel", [{**row, "start": 2_000, "duration": 10}, {**row, "start": 1_000, "duration": 20}])
        made.add("kernel", [{**row, "start": None, "duration": None}])
    with open_trace(tmp_path / "own.warp") as trace:
        out = io.BytesIO()
        counts = writer.write(trace, out, Selection())
    assert counts == {"events": 2, "strings": 4, "unplaced": 1}
    first, second = ref.read_events(out.getvalue())
    assert (first.time, first.duration, second.time) == (1_000, 20, 2_000)
    assert (first.name, first.device, first.stream, first.correlation) == ("add", 3, 7, 5)
    assert first.kernel == (64, 1, 1, 256, 1, 1, 24, 0)
    assert first.stack == (0, ((0, "step", "m.py", 9), (0, "main", "m.py", 3)))


@pytest.mark.parametrize("count", [2**20, 2**40, 2**64 - 1])
def test_an_event_count_beyond_the_file_is_an_error_at_once(tmp_path: Path, count: int) -> None:
    data = bytearray(ref.write(FILES["halves"]))
    struct.pack_into("<Q", data, 56, count)
    with pytest.raises(FormatError, match=r"events (cannot fit|are announced)"):
        imported(tmp_path, bytes(data))


def test_a_string_count_beyond_the_file_is_an_error_at_once(tmp_path: Path) -> None:
    data = ref.write(ref.File())
    at = struct.unpack_from("<Q", data, 24)[0] + 1
    with pytest.raises(FormatError, match=rf"byte {at}: .* strings cannot fit"):
        imported(tmp_path, data[:at] + ref.varint(2**60) + b"\xff")


def test_a_file_that_was_never_finished_gives_its_events(tmp_path: Path) -> None:
    data = bytearray(ref.write(FILES["halves"]))
    strings = struct.unpack_from("<Q", data, 24)[0]
    data[16:64] = bytes(48)
    with imported(tmp_path, bytes(data[:strings])) as trace:
        assert trace.count("kernel") == 300
        assert "never finished" in str(trace.loss["cause"].to_pylist()) or "no string table" in str(
            trace.loss["cause"].to_pylist()
        )


def test_a_file_cut_in_the_middle_gives_the_events_before(tmp_path: Path) -> None:
    data = ref.write(ref.File([ref.Event(1, 100 + i, 5, name="k") for i in range(100)]))
    with imported(tmp_path, data[:400]) as trace:
        assert 20 < trace.count("kernel") < 100
        assert "string table should be at byte" in str(trace.loss["cause"].to_pylist())


def test_the_golden_file_still_reads_as_it_did(tmp_path: Path) -> None:
    data = GOLDEN.read_bytes()
    made = ref.read_events(data)
    with imported(tmp_path, data) as trace:
        kernels = [e for e in made if e.kind == 1]
        assert trace.sql("SELECT count(*), sum(correlation) FROM kernel").fetchall()[0] == (
            len(kernels), sum(e.correlation for e in kernels))  # fmt: skip
        assert exported(trace) == data
