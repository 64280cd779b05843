"""An imported trace gives the answers of the file it was made from, whatever is asked."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.sass.traces import SASS, event, metadata, write
from warpsight.errors import TraceError, UsageError, WarpsightError
from warpsight.sass.records import filters
from warpsight.sass.records.counting import counts, ordered
from warpsight.sass.records.query import counts_by_columns
from warpsight.sass.records.selection import RecordSelection, select
from warpsight.sass.records.statements import FIELDS
from warpsight.sass.records.warps import summary
from warpsight.ui.cli import app

SHARED = tuple(name for name in FIELDS if name != "kernel")
Both = tuple[Path, Path]


def records() -> list[dict[str, Any]]:
    """Events of 30 warps in a fixed disorder; some without a mask, some of instructions that the table lacks."""
    chance = random.Random(11)
    listed: list[dict[str, Any]] = [metadata(grid=[20, 1, 1])]
    for index in range(400):
        kind: dict[str, Any] = {}
        if index % 5 == 0:
            kind = {"kind": "mem_addr_trace", "ipoint": "B", "addrs": list(range(32))}
        mask = {"active_mask": f"0x{chance.choice((1, 0xFF, 0xFFFFFFFF)):08x}"} if index % 3 else {}
        listed.append(event(index, chance.randrange(30), chance.randrange(len(SASS) + 1), **kind, **mask))
    return listed


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """The file and what it was imported into."""
    folder = tmp_path_factory.mktemp("both")
    path, imported = write(folder / "t.ndjson", records()), folder / "t.warp"
    assert app.main(["-q", "import", str(path), "-o", str(imported)]) == 0
    return path, imported


_NUMBERS = st.sampled_from(["0", "3", "0x5", "17", "29", "-1", "016", "99999999999999999999999", "many"])
_LITERALS = _NUMBERS | st.sampled_from(
    ["0x20", "0x00000001", "0x1", "0xFF", "0x000000ff", "0xffffffff", "opcode_only", "mem_addr_trace", "EXIT ;", "NOP ;",
     "@P0 EXIT ;", "[0, 0, 0]", "[3,0,0]", "[3,0]", "[true,0,0]", "{}", "", "it's", "1760000000000000007"]
)  # fmt: skip
_RANGES = st.tuples(_NUMBERS, _NUMBERS).map("..".join)
_FIELD = st.sampled_from(SHARED)
_EQUAL = st.tuples(
    _FIELD, st.sampled_from(["=", "!="]), st.lists(_LITERALS | _RANGES, min_size=1, max_size=3).map("|".join)
)
_ORDERED = st.tuples(
    _FIELD, st.sampled_from(["<", "<=", ">", ">="]), _NUMBERS.filter(lambda n: filters.number(n) is not None)
)
_MATCHED = st.tuples(
    _FIELD,
    st.sampled_from(["~", "!~"]),
    st.sampled_from(["^(LDG|EXIT)", "EXIT", "^0x.?f*$", "1", r"\[3, 0", "^$", "e_?o", "'"]),
)
_GROUP = st.lists((_EQUAL | _ORDERED | _MATCHED).map("".join), min_size=1, max_size=3).map(" or ".join)
_FILTER = st.lists(_GROUP, max_size=3)
_SIZE = st.none() | st.integers(0, 20)


def told(path: Path, selection: RecordSelection) -> Any:
    """What is found, as far as both hold it."""
    found = select(path, selection)
    groups = {key: [{n: r[n] for n in SHARED if n in r} for r in rs] for key, rs in found.groups.items()}
    return {k: v for k, v in groups.items() if v} if selection.group_by else groups[None]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(conditions=_FILTER, field=_FIELD)
def test_counts_are_the_file_s(both: Both, conditions: list[str], field: str) -> None:
    chosen = filters.parse(conditions)
    path, imported = both
    assert counts(imported, chosen, field)[0] == counts(path, chosen, field)[0]
    assert counts(imported, chosen, field, 2)[0] == counts(path, chosen, field, 2)[0]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(conditions=_FILTER, field=_FIELD | st.sampled_from(["ctx", "ipoint"]))
def test_counts_of_a_file_are_those_of_its_columns(both: Both, conditions: list[str], field: str) -> None:
    chosen = filters.parse(conditions)
    assert counts(both[0], chosen, field)[0] == ordered(counts_by_columns(both[0], chosen, field)[0])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(conditions=_FILTER, head=_SIZE, tail=_SIZE, field=st.none() | _FIELD)
def test_records_are_the_file_s(
    both: Both, conditions: list[str], head: int | None, tail: int | None, field: str | None
) -> None:
    selection = RecordSelection(filters.parse(conditions), head, tail, field)
    path, imported = both
    assert told(imported, selection) == told(path, selection)


@pytest.mark.parametrize(
    ("condition", "some"), [("active_mask=0x1", False), ("active_mask=0x00000001", True), ("active_mask=00000001", False),
                            ("pc=0x0", True), ("pc=0x00", False), ("pc=0x1F", False)],
)  # fmt: skip
def test_hexadecimal_texts_are_compared_as_they_stand(both: Both, condition: str, some: bool) -> None:
    for path in both:
        assert bool(counts(path, filters.parse([condition]), "type")[0]) == some, path


def test_warps_are_the_file_s(both: Both) -> None:
    path, imported = both
    assert summary(imported).to_json() == summary(path).to_json()


def test_warps_of_several_launches_are_those_of_the_last(tmp_path: Path) -> None:
    first = [metadata(), event(0, 0, 4), event(1, 1, 0)]
    later = [
        {**event(i, warp, opcode), "grid_launch_id": 9}
        for i, (warp, opcode) in enumerate([(0, 1), (1, 4), (1, 5)])
    ]
    path, imported = write(tmp_path / "t.ndjson", first + later), tmp_path / "t.warp"
    assert app.main(["-q", "import", str(path), "-o", str(imported)]) == 0
    found = summary(imported)
    assert (found.completed, found.in_progress) == ([1], [0])
    assert found.to_json() == summary(path).to_json()


def test_a_packed_trace_is_asked_like_a_folder(both: Both, tmp_path: Path) -> None:
    path, imported = both
    packed = tmp_path / "t.warp.zip"
    assert app.main(["-q", "pack", str(imported), "-o", str(packed)]) == 0
    nothing = filters.parse([])
    assert (
        counts(packed, nothing, "warp")
        == counts(imported / "manifest.json", nothing, "warp")
        == counts(path, nothing, "warp")
    )


@pytest.mark.parametrize("place", [0, 1], ids=["file", "trace"])
def test_a_regular_expression_that_the_engine_does_not_know_is_refused(both: Both, place: int) -> None:
    with pytest.raises(UsageError, match=r"the condition sass~\(\?=EXIT\) cannot be tested"):
        counts(both[place], filters.parse(["sass~(?=EXIT)"]), "warp")


def test_a_field_that_the_tables_lack_is_refused(both: Both) -> None:
    for conditions, field in ((["ctx=1"], "warp"), ([], "ctx")):
        with pytest.raises(UsageError, match="no field 'ctx'; fields: type, "):
            counts(both[1], filters.parse(conditions), field)
    with pytest.raises(UsageError, match="no field 'ctx'"):
        select(both[1], RecordSelection(filters.parse(["ctx=1"])))


def test_a_damaged_part_is_said(both: Both, tmp_path: Path) -> None:
    imported = tmp_path / "t.warp"
    assert app.main(["-q", "import", str(both[0]), "-o", str(imported)]) == 0
    part = next((imported / "table=warp_event").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(TraceError, match=r"t\.warp cannot be read"):
        counts(imported, filters.parse([]), "warp")


def test_a_trace_without_instructions_is_refused() -> None:
    trace = Path(__file__).parents[2] / "golden" / "h200_empty_kernels.warp.zip"
    nothing = filters.parse([])
    for ask in (
        lambda: counts(trace, nothing, "warp"),
        lambda: select(trace, RecordSelection()),
        lambda: summary(trace),
    ):
        with pytest.raises(WarpsightError, match=r"warp\.zip has no records of instructions"):
            ask()


def test_an_answer_loads_neither_arrow_nor_numpy_nor_the_package_of_duckdb(both: Both) -> None:
    """What makes an answer quick; where DuckDB's engine is not a module of its own its package is needed."""
    pytest.importorskip("_duckdb")
    heavy = "{'numpy', 'pyarrow', 'duckdb', 'msgspec', 'rich'} & set(sys.modules)"
    for question in (["query", "-g", "warp", "--count"], ["query", "-f", "sass~EXIT"], ["warps"]):
        arguments = ["sass", question[0], str(both[1]), *question[1:]]
        code = f"import sys; from warpsight.ui.cli.app import main; assert main({arguments}) == 0; assert not {heavy}, {heavy}"
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
