"""Records are found by the same meanings as CUTracer's `query`, and by more operators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sass.traces import event, metadata, ndjson, small, write
from warpsight.errors import UsageError
from warpsight.formats.errors import FormatError
from warpsight.sass.records import filters
from warpsight.sass.records.counting import counts
from warpsight.sass.records.selection import RecordSelection, select
from warpsight.ui.cli import app

NOTHING = filters.parse([])


def found(path: Path, *conditions: str, **selection: Any) -> list[int]:
    """The trace_index of what is selected."""
    chosen = select(path, RecordSelection(filters.parse(conditions), **{"head": None, **selection}))
    return [record["trace_index"] for record in chosen.groups[None]]


@pytest.fixture(params=["trace.ndjson", "trace.ndjson.zst"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / request.param, small())


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("warp=2", [2, 9, 10]),
        ("warp=0x2", [2, 9, 10]),
        ("cta=[1,0,0]", [2, 9, 10]),
        ("cta=[1,0]", []),
        ("pc=0x20", [4, 9, 10]),
        ("pc=32", []),
        ("pc>=0x30", [5, 6, 7, 8]),
        ("pc<16", [0, 1, 2]),
        ("type=mem_addr_trace", [10]),
        ("type!=opcode_only", [10]),
        ("ipoint=B", [10]),
        ("ipoint!=A", [10]),
        ("sass~^(LDG|STG)", [0, 1, 2, 4, 9, 10]),
        ("sass!~EXIT;warp=0", [0, 3, 4]),
        ("warp=1..2;opcode_id=0", [1, 2]),
        ("opcode_id=1|5", [3, 8]),
        ("opcode_id=1 or warp=1", [1, 3, 7, 8]),
        ("nothing=1", []),
    ],
)
def test_conditions(path: Path, condition: str, expected: list[int]) -> None:
    assert found(path, condition) == expected


def test_several_conditions_must_all_hold(path: Path) -> None:
    assert found(path, "warp=0", "opcode_id>2") == [5, 6]


def test_head_tail_and_groups(path: Path) -> None:
    assert found(path, head=2) == [0, 1]
    assert found(path, head=None, tail=2) == [9, 10]
    groups = select(path, RecordSelection(NOTHING, head=1, group_by="warp")).groups
    assert {key: [r["trace_index"] for r in records] for key, records in groups.items()} == {
        0: [0],
        1: [1],
        2: [2],
    }


def test_counts_are_sorted_by_size_and_then_by_text(path: Path) -> None:
    assert counts(path, NOTHING, "warp")[0] == [(0, 5), (1, 3), (2, 3)]
    assert counts(path, NOTHING, "cta")[0] == [("[0, 0, 0]", 8), ("[1, 0, 0]", 3)]
    assert counts(path, filters.parse(["warp=0"]), "sass")[0][0] == ("@P0 EXIT ;", 1)
    assert counts(path, NOTHING, "ipoint")[0] == [(None, 10), ("B", 1)]


def test_records_carry_their_instruction(path: Path) -> None:
    (record,) = select(path, RecordSelection(filters.parse(["trace_index=4"]))).groups[None]
    assert record["sass"] == "STG.E [R4.64], R2 ;"


def test_an_instruction_in_the_record_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "t.ndjson", [metadata(), event(0, 0, 0, sass="OLD R1 ;"), event(1, 0, 0)])
    assert [r["sass"] for r in select(path, RecordSelection()).groups[None]] == [
        "OLD R1 ;",
        "LDG.E R2, [R2.64] ;",
    ]
    assert found(path, "sass=OLD R1 ;") == [0]


def test_the_caller_is_the_innermost_frame_of_either_kind_of_stack(tmp_path: Path) -> None:
    launch = {
        "type": "kernel_launch", "kernel_launch_id": 1, "kernel_name": "add", "kernel_checksum": "a", "grid": [1, 1, 1],
        "block": [1, 1, 1], "nregs": 1, "shmem": 0, "stream_id": 0,
    }  # fmt: skip
    lines = [
        {"type": "callstack_def", "callstack_id": "p", "frames": ["main", "step"], "source": "pytorch"},
        {"type": "callstack_def", "callstack_id": "n", "frames": ["launch", "start"], "source": "backtrace"},
        {**launch, "callstack_id": "p"},
        {**launch, "callstack_id": "n"},
    ]
    path = write(tmp_path / "events.ndjson", lines)
    assert [r["caller"] for r in select(path, RecordSelection()).groups[None]] == ["step", "launch"]
    assert counts(path, NOTHING, "caller")[0] == [("launch", 1), ("step", 1)]


def test_what_a_hang_left_is_read_and_said_to_be_cut(tmp_path: Path) -> None:
    whole = ndjson(small())
    path = tmp_path / "cut.ndjson"
    path.write_bytes(whole[: whole.rindex(b'"opcode_id"')])
    chosen = select(path, RecordSelection(head=None))
    assert len(chosen.groups[None]) == 10
    assert chosen.notes == [f"{path}: the last record (line 12) is cut off; records up to there were read"]


def test_a_cut_zstd_file_gives_its_whole_frames_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "t.ndjson.zst", small())
    path.write_bytes(path.read_bytes()[:-20])
    totals, notes = counts(path, NOTHING, "type")
    assert 0 < sum(count for _, count in totals) < 11
    assert len(notes) == 1 and "ends early" in notes[0]


def test_damage_inside_the_file_names_the_line(tmp_path: Path) -> None:
    lines = ndjson(small()).split(b"\n")
    lines[3] = lines[3][:-10]
    path = tmp_path / "bad.ndjson"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(FormatError, match="line 4: no JSON object"):
        counts(path, NOTHING, "warp")


@pytest.mark.parametrize("wrong", ["warp", "warp>many", "sass~(", "=3"])
def test_what_is_no_condition_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError):
        filters.parse([wrong])


def test_the_verb_writes_every_form(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["sass", "query", str(path), "-g", "warp", "--count", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"0": 5, "1": 3, "2": 3}
    assert (
        app.main(["sass", "query", str(path), "-g", "warp", "--count", "--top", "1", "--format", "csv"]) == 0
    )
    assert capsys.readouterr().out == "warp,count\n0,5\n"
    assert (
        app.main(
            ["sass", "query", str(path), "-f", "warp=2", "--fields", "pc,sass", "--format", "ndjson", "-n1"]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out) == {"pc": "0x0", "sass": "LDG.E R2, [R2.64] ;"}
    out = tmp_path / "out" / "found.ndjson.zst"
    arguments = ["sass", "query", str(path), "-a", "--format", "ndjson", "-o", str(out), "--compress"]
    assert app.main(arguments) == 0
    assert found(out) == list(range(11))
    assert app.main(["sass", "query", str(path), "--count"]) == 2


def test_a_name_that_no_record_has_is_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped field gives an answer that looks complete and is not."""
    for arguments in (["-f", "wrap=2"], ["-g", "wrap", "--count"], ["-g", "wrap"], ["--fields", "warp,wrap"]):
        assert app.main(["sass", "query", str(path), *arguments]) == 0
        assert "no record has a field 'wrap'; did you mean 'warp'?" in capsys.readouterr().err, arguments
    for arguments in (
        ["-f", "warp=77"],
        ["-f", "mem_space=1"],
        ["-g", "mem_space", "--count"],
        ["--fields", "warp,sass"],
    ):
        assert app.main(["sass", "query", str(path), *arguments]) == 0
        assert capsys.readouterr().err == "", arguments


def test_an_existing_file_is_kept_and_the_option_that_replaces_it_is_named(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    for compress in ([], ["--compress"]):
        arguments = ["sass", "query", str(path), "--format", "csv", "-o", str(out), *compress]
        assert app.main(arguments) == 1
        assert "out.csv exists already; --force replaces it" in capsys.readouterr().err
        assert out.read_text() == "mine"
    assert app.main([*arguments[:-1], "--force"]) == 0
    assert out.read_text().startswith("cta,")


def test_a_text_trace_is_told_from_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.log"
    path.write_text("CTX 0x55aa - CTA 0,0,0 - warp 0 - MOV R1, R2 ;:\n  * Reg0_T0: 0x00000001\n")
    for verb in ("query", "warps"):
        assert app.main(["sass", verb, str(path)]) == 1
        assert "is a text trace" in capsys.readouterr().err


def test_values_are_written_without_spaces(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["sass", "query", str(path), "--fields", "cta,warp", "-n", "1", "--format", "csv"]) == 0
    assert capsys.readouterr().out == 'cta,warp\n"[0,0,0]",0\n'
    assert (
        app.main(["sass", "query", str(path), "--fields", "cta,warp", "-n", "1", "--format", "ndjson"]) == 0
    )
    assert capsys.readouterr().out == '{"cta":[0,0,0],"warp":0}\n'
