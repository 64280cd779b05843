"""What is written as CUTracer's NDJSON is the trace it came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from jsonschema import Draft202012Validator

import warpsight as ws
from tests.unit.sass.test_validate import EVERY_KIND
from tests.unit.sass.traces import event, metadata, small, write
from warpsight.sass.records.validate import validate
from warpsight.ui.cli import app
from warpsight_plugins.cutracer import records

LANES = list(range(32))
RECORDS: list[dict[str, Any]] = [
    *[r for r in EVERY_KIND if r["type"] != "capture_completion"],
    event(5, 1, 2, "mem_value_trace", ipoint="A", mem_space=4, is_load=False, access_size=12, addrs=LANES[::-1],
          values=[[v, v + 1, 2**32 - 1] for v in LANES], active_mask="0x00000001"),
    event(6, 1, 2, "reg_trace", regs=[LANES, LANES[::-1], LANES], regs_indices=[9, 2, 4]),
    event(7, 1, 3, "reg_trace", regs=[], regs_indices=[], uregs=[5, 2**32 - 1], uregs_indices=[63, 4]),
    event(8, 1, 3, ctx="0x66"),
]  # fmt: skip


def exported(source: Path, out: Path) -> list[dict[str, Any]]:
    trace = out.with_suffix(".warp")
    assert app.main(["-q", "import", str(source), "-o", str(trace)]) == 0
    assert app.main(["-q", "export", str(trace), "--to", "cutracer", "-o", str(out)]) == 0
    data = out.read_bytes()
    if out.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("name", ["out.ndjson", "out.ndjson.zst"])
def test_every_record_comes_back(name: str, tmp_path: Path) -> None:
    written = exported(write(tmp_path / "in.ndjson", RECORDS), tmp_path / name)
    assert written == RECORDS
    assert validate(tmp_path / name).errors == []
    validator = Draft202012Validator(records.json_schema())
    for record in written:
        validator.validate(record)


def test_keys_are_alphabetical_and_without_spaces(tmp_path: Path) -> None:
    exported(write(tmp_path / "in.ndjson", small()), tmp_path / "out.ndjson")
    assert (tmp_path / "out.ndjson").read_bytes() == (tmp_path / "in.ndjson").read_bytes()


def test_without_a_described_kernel_records_carry_their_instruction(tmp_path: Path) -> None:
    listed = [event(0, 0, 1, sass="FFMA R1 ;"), event(1, 3, 2, sass="EXIT ;")]
    assert exported(write(tmp_path / "in.ndjson", listed), tmp_path / "out.ndjson") == [
        {**r, "ctx": "0x0"} for r in listed
    ]


def test_several_kernels_of_one_file_keep_their_tables(tmp_path: Path) -> None:
    other = metadata(
        mangled_name="_Z3mulPf", instructions={"0": {"sass": "FMUL R1 ;", "regs": [1], "uregs": []}}
    )
    listed = [*small(), other, *[{**event(i, 0, 0), "grid_launch_id": 4} for i in range(3)]]
    assert exported(write(tmp_path / "in.ndjson", listed), tmp_path / "out.ndjson") == listed


def test_a_trace_without_instructions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = {"type": "kernel_launch", "kernel_launch_id": 1, "kernel_name": "k", "kernel_checksum": "", "grid": [1, 1, 1],
              "block": [1, 1, 1], "nregs": 1, "shmem": 0, "stream_id": 7}  # fmt: skip
    path = write(tmp_path / "log.ndjson", [launch])
    assert app.main(["export", str(path), "--to", "cutracer", "-o", str(tmp_path / "o.ndjson")]) == 1
    assert "no records of instructions" in capsys.readouterr().err
    assert not (tmp_path / "o.ndjson").exists()


def test_kernel_events_come_back(tmp_path: Path) -> None:
    launch = {"type": "kernel_launch", "kernel_checksum": "", "grid": [4, 2, 1], "block": [64, 1, 1], "nregs": 9, "shmem": 16,
              "stream_id": 0}  # fmt: skip
    listed = [
        {"type": "callstack_def", "callstack_id": "a", "frames": ["main", "step"], "source": "pytorch"},
        {**launch, "kernel_launch_id": 1, "kernel_name": "add", "callstack_id": "a"},
        {**launch, "kernel_launch_id": 2, "kernel_name": "mul", "callstack_id": None},
        {**launch, "kernel_launch_id": 3, "kernel_name": "add", "callstack_id": "a"},
    ]
    source, out, again = tmp_path / "in.ndjson", tmp_path / "out.ndjson", tmp_path / "again.ndjson"
    write(source, listed)
    assert app.main(["-q", "export", str(source), "--to", "kernel-events", "-o", str(out)]) == 0
    assert app.main(["-q", "export", str(out), "--to", "kernel-events", "-o", str(again)]) == 0
    assert out.read_bytes() == again.read_bytes()
    assert validate(out).errors == []
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["type"] for r in written] == [
        "callstack_def",
        "kernel_launch",
        "kernel_launch",
        "kernel_launch",
    ]
    assert written[0]["frames"] == ["main", "step"]
    kept = ("kernel_name", "grid", "block", "nregs", "shmem")
    assert [[r[k] for k in kept] for r in written[1:]] == [[r[k] for k in kept] for r in listed[1:]]  # type: ignore[index]
    assert [r["callstack_id"] for r in written[1:]] == [
        written[0]["callstack_id"],
        None,
        written[0]["callstack_id"],
    ]


def test_registers_and_checksums_of_a_recording_are_those_of_its_kernels(tmp_path: Path) -> None:
    """CUPTI's launches have neither."""
    source = Path(__file__).parents[3] / "golden" / "h200_empty_kernels.warp.zip"
    out = tmp_path / "events.ndjson"
    assert app.main(["-q", "export", str(source), "--to", "kernel-events", "-o", str(out)]) == 0
    launches = [json.loads(line) for line in out.read_text().splitlines()]
    with ws.open(source) as trace:
        ((registers, checksum),) = trace.sql(
            "SELECT DISTINCT k.registers, m.checksum FROM kernel k JOIN module m ON m.module = k.module"
        ).fetchall()
    assert {one["nregs"] for one in launches} == {registers} and registers > 0
    assert {int(one["kernel_checksum"], 16) for one in launches} == {checksum}
