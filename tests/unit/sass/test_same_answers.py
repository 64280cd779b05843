"""The quick way of counting gives what the columns give, however the file departs from the expected layout."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sass.traces import SASS, event, metadata, ndjson
from warpsight.formats.errors import FormatError
from warpsight.formats.source import Source
from warpsight.sass.records import filters, query, warps
from warpsight.sass.records.counting import counts, ordered
from warpsight.sass.records.query import counts_by_columns
from warpsight.sass.records.selection import RecordSelection, select
from warpsight_plugins.cutracer import fold

LANES = list(range(32))


def many() -> list[dict[str, Any]]:
    """Records of 40 warps in a fixed disorder, some with addresses, registers and masks."""
    chance = random.Random(4)
    listed: list[dict[str, Any]] = [metadata(grid=[24, 1, 1])]
    for index in range(600):
        warp, opcode = chance.randrange(40), chance.randrange(len(SASS))
        other: dict[str, Any] = {"active_mask": hex(chance.getrandbits(32))} if index % 3 else {}
        if index % 7 == 0:
            listed.append(event(index, warp, opcode, "mem_addr_trace", ipoint="B", addrs=LANES, **other))
        elif index % 11 == 0:
            listed.append(event(index, warp, opcode, "reg_trace", regs=[LANES], regs_indices=[2], **other))
        else:
            listed.append(event(index, warp, opcode, **other))
    return listed


def shuffled(record: dict[str, Any], seed: int) -> dict[str, Any]:
    keys = list(record)
    random.Random(seed).shuffle(keys)
    return {key: record[key] for key in keys}


def lines(records: list[dict[str, Any]], **how: Any) -> bytes:
    return b"".join(json.dumps(r, **how).encode() + b"\n" for r in records)


def escaped(data: bytes) -> bytes:
    """The same JSON with letters of keys and texts as escapes."""
    return (
        data.replace(b'"warp"', b'"\\u0077arp"')
        .replace(b'"opcode_only"', b'"opcode\\u005fonly"')
        .replace(b'"pc":"0x', b'"pc":"\\u0030x')
    )


LAYOUTS: dict[str, Callable[[], bytes]] = {
    "as written": lambda: ndjson(many()),
    "spaces": lambda: lines(many()),
    "shuffled keys": lambda: lines([shuffled(r, i) for i, r in enumerate(many())]),
    "escapes": lambda: escaped(ndjson(many())),
    "blank lines": lambda: b"\n" + ndjson(many()).replace(b"\n", b"\n\n \n", 50),
    "Windows line ends": lambda: ndjson(many()).replace(b"\n", b"\r\n"),
    "no last newline": lambda: ndjson(many())[:-1],
    "cut last line": lambda: ndjson(many())[:-20],
    "cut in a number": lambda: ndjson(many())[: ndjson(many()).rindex(b'"warp"') + 8],
    "instruction in the record": lambda: ndjson([event(i, i % 9, i % 6, sass=SASS[i % 6]) for i in range(300)]),
    "instruction in some records": lambda: ndjson(
        [metadata(), *(event(i, i % 9, i % 6, **({"sass": "NOP ;"} if i % 5 == 0 else {})) for i in range(300))]
    ),
    "a line longer than a chunk": lambda: ndjson(
        [*many(), event(600, 3, 2, sass="MOV R1, " + "R" * 40_000 + " ;"), event(601, 3, 4)]
    ),
    "an empty instruction": lambda: ndjson([*many(), event(600, 3, 4, sass="")]),
    "no kernel": lambda: ndjson(many()[1:]),
    "kernel in the middle": lambda: ndjson([*many()[1:300], metadata(), *many()[300:]]),
    "two kernels": lambda: ndjson(many()) * 2,
    "a warp that is a text": lambda: ndjson([*many(), {**event(0, 0, 0), "warp": "3"}]),
    "a warp that is a float": lambda: ndjson([*many(), {**event(0, 0, 0), "warp": 3.5}]),
    "an unknown type": lambda: ndjson([*many(), event(0, 5, 4, "later_trace")]),
    "no type": lambda: ndjson([*many(), {"warp": 7, "opcode_id": 4}]),
    "a null": lambda: ndjson([*many(), {**event(0, 0, 4), "warp": None}]),
    "lists of other lengths": lambda: ndjson([*many(), {**event(0, 0, 0), "cta": [1, 2]}]),
    "a key twice": lambda: ndjson(many()).replace(b'"warp":3}', b'"warp":4,"warp":3}'),
    "an end that says what is missing": lambda: ndjson(
        [*many(), {"type": "capture_completion", "version": 1, "grid_launch_id": 3, "status": "incomplete",
                   "kernel_completed": False, "channel_drained": True, "trace_records_written": 1, "dropped_records": 4}]
    ),
    "nothing": lambda: b"",
}  # fmt: skip
FIELDS = ("warp", "type", "sass", "cta", "pc", "ipoint", "active_mask", "regs", "nothing", "trace_index")


@pytest.fixture(params=[1, 3], ids=["one process", "three processes"])
def processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(fold, "PART_BYTES", 1 << 10)
    monkeypatch.setattr(fold, "CHUNK_BYTES", 1 << 13)
    monkeypatch.setattr(fold, "_cores", lambda: request.param)
    return int(request.param)


def collect(state: list[Any], rows: Sequence[Any], _: Any) -> None:
    state.extend(row.warp for row in rows)


def said(notes: list[str]) -> list[str]:
    return sorted(notes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts_are_those_of_the_columns(layout: str, processes: int, tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    path.write_bytes(LAYOUTS[layout]())
    for condition in ((), ("warp=2..20;sass~^(LDG|EXIT)",), ("opcode_id=4 or ipoint=B",)):
        chosen = filters.parse(condition)
        for field in FIELDS:
            expected, notes = counts_by_columns(path, chosen, field)
            found, found_notes = counts(path, chosen, field)
            assert found == ordered(expected), (layout, field, condition)
            assert said(found_notes) == said(notes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_warps_are_those_of_the_columns(layout: str, processes: int, tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    path.write_bytes(LAYOUTS[layout]())
    found, expected = warps.summary(path), warps.by_columns(path)
    assert found.to_json() == expected.to_json()
    assert said(list(found.notes)) == said(list(expected.notes))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_matching_records_are_those_of_the_columns(layout: str, processes: int, tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    path.write_bytes(LAYOUTS[layout]())
    for condition in (
        ["warp=2..20;sass~^(LDG|EXIT)"],
        ["opcode_id=4 or ipoint=B", "trace_index>40"],
        ["type=reg_trace"],
        [],
    ):
        for head, tail in ((3, None), (None, 4), (None, None), (0, None), (None, 0)):
            wanted = RecordSelection(filters.parse(condition), head, tail)
            found, expected = select(path, wanted), query.select(path, wanted)
            assert found.groups == expected.groups, (condition, head, tail)
            if head is None:  # a head ends reading before what is missing is noticed
                assert said(found.notes) == said(expected.notes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_first_records_are_those_of_the_columns(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    path.write_bytes(LAYOUTS[layout]())
    for head in (0, 7, 10_000):
        for describing in (False, True):
            wanted = RecordSelection(head=head, describing=describing)
            found, expected = select(path, wanted), query.select(path, wanted)
            assert (found.groups, found.notes) == (expected.groups, expected.notes)


def test_the_usual_layouts_are_not_left_to_the_columns(processes: int, tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    for layout in (
        "as written",
        "shuffled keys",
        "escapes",
        "blank lines",
        "cut last line",
        "instruction in the record",
    ):
        path.write_bytes(LAYOUTS[layout]())
        with Source(path) as source:
            folded = fold.fold(source, ("warp",), list, lambda _: collect)
        assert folded is not None, layout
        assert len(folded.states) == processes
        whole = [line for line in LAYOUTS[layout]().split(b"\n")[:-1] if line.strip()]
        wanted = [record["warp"] for record in map(json.loads, whole) if "warp" in record]
        assert [warp for state in folded.states for warp in state] == wanted


def test_damage_inside_names_the_line_from_any_part(processes: int, tmp_path: Path) -> None:
    listed = ndjson(many()).split(b"\n")
    for number in (3, 400):
        damaged = [*listed]
        damaged[number] = damaged[number][:-9]
        path = tmp_path / "t.ndjson"
        path.write_bytes(b"\n".join(damaged))
        with pytest.raises(FormatError, match=f"line {number + 1}: no JSON object"):
            counts(path, filters.parse([]), "warp")
        with pytest.raises(FormatError, match=f"line {number + 1}: no JSON object"):
            warps.summary(path)


def test_no_child_is_left_behind(processes: int, tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    path.write_bytes(ndjson(many()))
    counts(path, filters.parse([]), "warp")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
