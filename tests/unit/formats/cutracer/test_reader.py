"""CUTracer's records as tables: what an independent reading of the same lines gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.sass.traces import event, metadata, small, write
from warpsight.formats.importing import open_any
from warpsight.sass.records import filters
from warpsight.sass.records.counting import counts
from warpsight.sass.records.selection import RecordSelection, select
from warpsight.sass.records.warps import summary
from warpsight.ui.cli import app

LANES = list(range(32))
RECORDS = [
    *small(),
    event(11, 2, 0, "reg_trace", regs=[LANES, LANES[::-1]], regs_indices=[2, 7], uregs=[9], uregs_indices=[4]),
    event(12, 2, 0, "mem_value_trace", ipoint="A", mem_space=4, is_load=True, access_size=8,
          addrs=[0, *LANES[1:]], values=[[v, v + 1] for v in LANES], active_mask="0xfffffffe"),
]  # fmt: skip


@pytest.fixture(params=["t.ndjson", "t.ndjson.zst"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / request.param, RECORDS)


def test_every_record_is_a_row(path: Path) -> None:
    with open_any(path) as trace:
        rows = trace.sql(
            "SELECT kind, event, grid_launch, cta_x, warp, opcode, pc, time, name, active_mask FROM warp_event ORDER BY event"
        ).fetchall()
        expected = [
            (r["type"], r["trace_index"], 3, r["cta"][0], r["warp"], r["opcode_id"], r["opcode_id"] * 16, r["timestamp"],
             "_Z3addPf", int(r["active_mask"], 16) if "active_mask" in r else None)
            for r in RECORDS[1:]
        ]  # fmt: skip
        assert rows == expected
        assert trace.sql(
            "SELECT count(*), any_value(sass) FILTER (opcode = 4) FROM instruction"
        ).fetchall() == [(6, "EXIT ;")]


def test_accesses_and_registers_are_kept_lane_by_lane(path: Path) -> None:
    with open_any(path) as trace:
        accesses = trace.sql(
            "SELECT event, lane, address, space, is_load, bytes, value0, value1, value2 FROM access ORDER BY event, lane"
        ).fetchall()
        assert accesses[:32] == [
            (10, lane, 0x100 + 4 * lane, None, None, None, None, None, None) for lane in LANES
        ]
        assert accesses[32:] == [(12, lane, lane, 4, True, 8, lane, lane + 1, None) for lane in LANES]
        registers = trace.sql(
            "SELECT register, uniform, lane, value FROM register ORDER BY uniform, register, lane"
        ).fetchall()
        assert registers == [
            *[(2, False, lane, lane) for lane in LANES],
            *[(7, False, lane, 31 - lane) for lane in LANES],
            (4, True, None, 9),
        ]


def test_the_same_questions_have_the_same_answers(path: Path, tmp_path: Path) -> None:
    imported = tmp_path / "t.warp"
    assert app.main(["-q", "import", str(path), "-o", str(imported)]) == 0
    nothing = filters.parse([])
    for field in ("warp", "type", "sass", "cta", "opcode_id", "pc"):
        assert counts(imported, nothing, field)[0] == counts(path, nothing, field)[0], field
    some = filters.parse(["sass~EXIT", "warp=0..1"])
    assert counts(imported, some, "warp") == counts(path, some, "warp")
    assert summary(imported).to_json() == summary(path).to_json()
    chosen = RecordSelection(filters.parse(["warp=2"]), head=2)
    shared = ("type", "trace_index", "warp", "cta", "pc", "sass")
    a, b = ([{k: r[k] for k in shared} for r in select(p, chosen).groups[None]] for p in (imported, path))
    assert a == b


def test_registers_without_numbers_are_kept_beside_and_written_back(tmp_path: Path) -> None:
    lines = [
        event(0, 0, 0, "reg_trace", regs=[LANES], sass="MOV R1, R2 ;"),
        event(1, 0, 1, "mem_trace", addrs=LANES, sass="LDG.E R2, [R2.64] ;"),
    ]
    path, back = write(tmp_path / "t.ndjson", lines), tmp_path / "back.ndjson"
    with open_any(path) as trace:
        assert trace.sql("SELECT kind, attributes FROM warp_event ORDER BY event").fetchall() == [
            ("reg_trace", json.dumps({"regs": [LANES]})),
            ("mem_trace", None),
        ]
        assert trace.sql("SELECT count(*) FROM register").fetchall() == [(0,)]
        assert trace.sql("SELECT count(*), max(address) FROM access").fetchall() == [(32, 31)]
        assert [r["severity"] for r in trace.loss.to_pylist()] == ["note"]
    assert app.main(["-q", "export", str(path), "--to", "cutracer", "-o", str(back)]) == 0
    written = [json.loads(line) for line in back.read_text().splitlines()]
    assert [{k: v for k, v in r.items() if k != "ctx"} for r in written] == [
        {k: v for k, v in r.items() if k != "ctx"} for r in lines
    ]


def test_samples_of_a_debugger_are_refused_with_what_can_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = {
        "type": "opcode_only",
        "trace_index": 0,
        "cta": [0, 0, 0],
        "warp": 1,
        "pc": "0x10",
        "sass": "EXIT ;",
    }
    path = write(tmp_path / "t.ndjson", [sample])
    assert app.main(["import", str(path), "-o", str(tmp_path / "t.warp")]) == 1
    assert "warpsight sass query" in capsys.readouterr().err
    assert app.main(["sass", "query", str(path), "--format", "ndjson"]) == 0
    assert json.loads(capsys.readouterr().out) == sample
    assert summary(path).completed == [1]


def test_kernel_events_become_launches_with_stacks(tmp_path: Path) -> None:
    lines = [
        {"type": "callstack_def", "callstack_id": "p", "frames": ["main", "step"], "source": "pytorch"},
        {"type": "kernel_launch", "kernel_launch_id": 7, "kernel_name": "add", "kernel_checksum": "a", "grid": [4, 1, 1],
         "block": [64, 2, 1], "nregs": 9, "shmem": 16, "stream_id": 0, "callstack_id": "p"},
    ]  # fmt: skip
    with open_any(write(tmp_path / "events.ndjson", lines)) as trace:
        rows = trace.sql("SELECT name, correlation, grid_x, block_y, registers, stack FROM launch").fetchall()
        assert rows[0][:5] == ("add", 7, 4, 2, 9)
        assert trace.stacks([rows[0][5]]) == {rows[0][5]: ("main", "step")}
        assert [r["severity"] for r in trace.loss.to_pylist()] == ["note"]


def test_an_incomplete_capture_is_said(tmp_path: Path) -> None:
    end = {"type": "capture_completion", "version": 1, "grid_launch_id": 3, "status": "incomplete", "kernel_completed": False,
           "channel_drained": False, "trace_records_written": 1, "dropped_records": 5}  # fmt: skip
    with open_any(write(tmp_path / "t.ndjson", [metadata(), event(0, 0, 0), end])) as trace:
        assert [(r["count"], r["cause"]) for r in trace.loss.to_pylist()] == [
            (5, "the capture says it is incomplete")
        ]


def test_our_own_kernel_log_is_read(tmp_path: Path) -> None:
    line = {"type": "kernel_launch", "kernel_launch_id": 1, "kernel_name": "k", "kernel_checksum": "", "grid": [1, 1, 1],
            "block": [1, 1, 1], "nregs": 1, "shmem": 0, "stream_id": 7, "callstack_id": None, "pid": 5,
            "correlation_id": 9}  # fmt: skip
    path = write(tmp_path / "log.ndjson", [line])
    assert app.main(["-q", "sass", "validate", str(path)]) == 0
    with open_any(path) as trace:
        assert trace.count("launch") == 1


def test_the_golden_file_is_one(tmp_path: Path) -> None:
    golden = Path(__file__).parents[3] / "golden" / "formats" / "cutracer" / "small.ndjson"
    lines = [json.loads(line) for line in golden.read_text().splitlines()]
    with open_any(golden) as trace:
        assert trace.count("warp_event") == sum("opcode_id" in line for line in lines)
