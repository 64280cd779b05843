"""Traces are checked record by record, and two forms of one run compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.unit.sass.traces import SASS, event, metadata, ndjson, small, write
from warpsight.errors import UsageError
from warpsight.sass.records import validate as validating
from warpsight.sass.records.validate import compare, form_of, validate
from warpsight.ui.cli import app
from warpsight_plugins.cutracer import records

LANES = list(range(32))
EVERY_KIND: list[dict[str, Any]] = [
    metadata(cpu_callstack=["main"], cpu_callstack_source="cpython_gil", sm_family="sm_90"),
    event(0, 0, 0),
    event(1, 0, 0, "reg_trace", regs=[LANES], regs_indices=[2], uregs=[1], uregs_indices=[4], active_mask="0xffffffff"),
    event(2, 0, 0, "mem_addr_trace", ipoint="B", addrs=LANES, static_memory_space="GLOBAL"),
    event(3, 0, 0, "mem_value_trace", ipoint="A", mem_space=1, is_load=True, access_size=4, addrs=LANES,
          values=[[v] for v in LANES]),
    event(4, 0, 0, "tma_trace", tma_param_size=128, desc_addr="0x10", tma_transfer_info={"is_bulk": True}),
    {"type": "capture_completion", "version": 1, "grid_launch_id": 3, "status": "complete", "kernel_completed": True,
     "channel_drained": True, "trace_records_written": 5, "dropped_records": 0, "errors": []},
]  # fmt: skip


def test_every_kind_of_record_is_valid(tmp_path: Path) -> None:
    found = validate(write(tmp_path / "t.ndjson.zst", EVERY_KIND))
    assert found.errors == []
    assert (found.record_count, found.compression, dict(found.types)) == (
        5, "zstd", {"opcode_only": 1, "reg_trace": 1, "mem_addr_trace": 1, "mem_value_trace": 1, "tma_trace": 1},
    )  # fmt: skip


#: What versions before 0.2 wrote: the instruction in every record, registers without numbers, one kind of memory access.
EARLY: list[dict[str, Any]] = [
    event(0, 0, 0, "reg_trace", regs=[LANES], sass="MOV R1, R2 ;"),
    event(1, 0, 0, "mem_trace", addrs=LANES, sass="LDG.E R2, [R2.64] ;"),
]
#: A sample that cuda-gdb took: no launch, no instruction number, no time.
SAMPLE: dict[str, Any] = {
    "type": "opcode_only", "trace_index": 0, "cta": [1, 0, 0], "warp": 3, "pc": "0x90", "sass": "BAR.SYNC 0x0 ;",
    "cuda_warp_slot": 2, "first_active_threadidx": [0, 0, 0], "active_mask": "0xffffffff", "source_type": "gdb_direct",
    "pc_address_space": "kernel_offset", "observed_pc_runtime": "0x7f90", "cuda_focus_status": "focused",
    "operand_capture_lane": 0, "registers": {"R1": 5}, "read_errors": [], "pc_semantics": "observed_instruction",
}  # fmt: skip


def test_records_of_early_versions_and_samples_are_valid(tmp_path: Path) -> None:
    found = validate(write(tmp_path / "early.ndjson", EARLY))
    assert (found.errors, dict(found.types)) == ([], {"reg_trace": 1, "mem_trace": 1})
    found = validate(write(tmp_path / "samples.ndjson", [SAMPLE]))
    assert (found.errors, dict(found.types)) == ([], {"opcode_only": 1})
    validator = Draft202012Validator(records.json_schema())
    for record in (*EARLY, SAMPLE):
        validator.validate(record)


@pytest.mark.parametrize("missing", ["ctx", "timestamp", "grid_launch_id", "opcode_id"])
def test_what_only_a_sample_may_lack_is_missed_in_a_record(tmp_path: Path, missing: str) -> None:
    record = {key: value for key, value in event(0, 0, 0, sass="NOP ;").items() if key != missing}
    found = validate(write(tmp_path / "t.ndjson", [metadata(), event(0, 0, 0), record]))
    assert found.errors == [f"line 3: Object missing required field `{missing}`"]
    assert not Draft202012Validator(records.json_schema()).is_valid(record)


def test_a_sample_without_its_instruction_is_not_valid(tmp_path: Path) -> None:
    record = {key: value for key, value in SAMPLE.items() if key != "sass"}
    assert validate(write(tmp_path / "t.ndjson", [record])).error_count == 1
    assert not Draft202012Validator(records.json_schema()).is_valid(record)


def test_the_published_schema_agrees(tmp_path: Path) -> None:
    validator = Draft202012Validator(records.json_schema())
    for record in EVERY_KIND:
        validator.validate(record)
    assert not validator.is_valid(event(0, 0, 0, pc="zz"))
    assert not validator.is_valid({"type": "opcode_only"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"warp": -1}, "warp"),
        ({"pc": "16 bytes"}, "pc"),
        ({"cta": [0, 0]}, "cta"),
        ({"type": "opcode_all"}, "opcode_all"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = write(tmp_path / "t.ndjson", [metadata(), event(0, 0, 0), {**event(1, 0, 0), **change}])
    found = validate(path)
    assert not found.valid
    assert (found.error_count, found.record_count) == (1, 1)
    assert found.errors[0].startswith("line 3: ") and says in found.errors[0]


def test_only_the_first_errors_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    found = validate(write(tmp_path / "t.ndjson", [event(i, 0, 0, warp=-1) for i in range(30)] if False else
                           [{**event(i, 0, 0), "warp": -1} for i in range(30)]))  # fmt: skip
    assert (found.error_count, len(found.errors)) == (30, 10)


def test_a_file_of_errors_alone_is_not_looked_at_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validating, "_HOPELESS", 20)
    path = tmp_path / "t.ndjson"
    path.write_text("a\n" * 1000, encoding="ascii")
    found = validate(path)
    assert found.error_count == 20
    assert found.errors[-1] == "line 20: the 20th error; the rest was not checked"


def test_a_file_that_was_cut_and_an_empty_one_are_not_valid(tmp_path: Path) -> None:
    path = tmp_path / "cut.ndjson"
    path.write_bytes(ndjson(small())[:-30])
    assert "line 12: the record is cut off" in validate(path).errors[0]
    path.write_bytes(b"")
    assert validate(path).errors == ["line 1: the file has no records"]


def text_of(listed: list[dict[str, Any]]) -> str:
    """CUTracer's text form of some records."""
    out = []
    for record in listed:
        where = f"CTA {','.join(map(str, record['cta']))} - warp {record['warp']}"
        sass = SASS[record["opcode_id"]]
        head = f"CTX {record['ctx']} - kernel_launch_id 3 - {where} - PC {int(record['pc'], 16)} - {sass}"
        if record["type"] == "mem_addr_trace":
            addresses = " ".join(f"0x{a:016x}" for a in record["addrs"])
            out.append(f"{head}:\n  Memory Addresses:\n  {addresses}\n\n")
        else:
            out.append(head + "\n")
    return "".join(out)


def test_text_and_ndjson_of_one_run_agree(tmp_path: Path) -> None:
    text = tmp_path / "t.log"
    text.write_text(text_of(small()[1:]))
    path = write(tmp_path / "t.ndjson", small())
    found = compare(text, path)
    assert found.differences == ()
    assert found.to_json()["unique_warps_count"] == 3
    text.write_text(text_of(small()[1:-2]))
    found = compare(text, path)
    assert found.differences == (
        "records: 9 in the text, 11 in the NDJSON",
        "mem_addr_trace: 0 in the text, 1 in the NDJSON",
        "opcode_only: 9 in the text, 10 in the NDJSON",
    )


def test_the_form_is_told_by_name_or_content(tmp_path: Path) -> None:
    path = tmp_path / "whatever"
    path.write_text("CTX 0x1 - CTA 0,0,0 - warp 0 - EXIT ;\n")
    assert form_of(path) == "text"
    path.write_text("hello\n")
    with pytest.raises(UsageError):
        form_of(path)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path / "good.ndjson", small())
    bad = write(tmp_path / "bad.ndjson", [{"type": "opcode_only"}])
    unknown = tmp_path / "unknown"
    unknown.write_text("hello\n")
    assert [app.main(["sass", "validate", str(p), "-q"]) for p in (good, bad, unknown)] == [0, 1, 2]
    assert capsys.readouterr().out == ""
    assert app.main(["sass", "validate", str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["record_count"] == 11
