"""A trace with values that no recorder writes says which, instead of whatever error they lead to."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpsight.model
from warpsight.errors import TraceError
from warpsight.model.sharing import pack
from warpsight.model.storage import damage
from warpsight.model.storage.writer import TraceWriter
from warpsight.ui.cli import parser

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return pack.unpack(GOLDEN / "planted_leak.warp.zip", tmp_path / "run.warp")


def change(trace: Path, table: str, column: str, values: object | None) -> None:
    """Give a column of a table other values, or take it away."""
    part = next(trace.glob(f"table={table}/**/*.parquet"))
    data = pq.read_table(part, partitioning=None)
    place = data.column_names.index(column)
    data = (
        data.drop_columns([column])
        if values is None
        else data.set_column(place, column, pa.array([values] * len(data)))
    )
    pq.write_table(data, part)


@pytest.mark.parametrize(
    ("table", "column", "values", "told"),
    [
        (
            "launch",
            "stack",
            -1,
            "table launch refers in column stack to -1, which table stack does not define",
        ),
        ("kernel", "name_id", 1 << 40, "table kernel refers in column name_id to 1099511627776"),
        ("name", "id", b"x", "table name holds binary in column id"),
        ("context", "null_stream", None, "null_stream"),
        ("kernel", "duration", "long", "table kernel holds string in column duration, where int64 belongs"),
        ("kernel", "start", (1 << 63) - 1, "table kernel holds a time in column start that is out of range"),
    ],
)
def test_what_failed_because_of_the_trace_says_so(
    trace: Path, table: str, column: str, values: object, told: str
) -> None:
    change(trace, table, column, values)
    with (
        pytest.raises(TraceError, match=r"is damaged: |cannot be read: ") as caught,
        warpsight.model.open(trace),
    ):
        raise ValueError("whatever it led to")
    assert told in str(caught.value)


def test_an_error_on_a_whole_trace_stays_what_it_is(trace: Path) -> None:
    with pytest.raises(ValueError, match=r"^mine$"), warpsight.model.open(trace):
        raise ValueError("mine")


@pytest.mark.parametrize(
    "words",
    [
        ("export", "@", "--to", "perfetto"),
        ("report", "@"),
        ("flame", "@"),
        ("stats", "@", "--by", "stack"),
        ("analyze", "@"),
    ],
)
def test_no_verb_calls_it_a_bug(
    words: tuple[str, ...], trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    change(trace, "launch", "stack", -1)
    out = ["-o", str(tmp_path / "out.html")] if words[0] in ("export", "report", "flame") else []
    parser.run([str(trace) if word == "@" else word for word in words] + out)
    assert "internal error" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "key", ["overhead", "processes", "devices", "rows", "loss", "settings", "host", "clocks"]
)
def test_a_manifest_with_values_of_another_type_is_refused(key: str, trace: Path) -> None:
    content = json.loads((trace / "manifest.json").read_text())
    (trace / "manifest.json").write_text(json.dumps({**content, key: 1.5}))
    with pytest.raises(TraceError, match=f"is damaged: {key} is not a"):
        warpsight.model.open(trace)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("devices", ["x"]), ("processes", [1]), ("loss", [[]]), ("overhead", {"own_cuda_calls": "x", "own_cuda_ns": 1}),
        ("clocks", {"wall": "x"}), ("topology", 1), ("topology", {"gpus": ["x"]}), ("topology", {"gpus": [{"uuid": []}]}),
        ("source", [1]), ("source", {"kernels": 1}), ("source", [{"kernels": [{"grid": "x"}]}]),
    ],
)  # fmt: skip
def test_a_manifest_with_parts_of_another_type_is_refused(key: str, value: object, trace: Path) -> None:
    content = json.loads((trace / "manifest.json").read_text())
    (trace / "manifest.json").write_text(json.dumps({**content, key: value}))
    with pytest.raises(TraceError, match=f"is damaged: {key} is not a"):
        warpsight.model.open(trace)


@pytest.mark.parametrize(
    "words", [("info", "@"), ("stats", "@"), ("analyze", "@"), ("query", "@", "SELECT min(name) FROM kernel")]
)
@pytest.mark.parametrize("damage", [b"", b"PAR1 and nothing else", None])
@pytest.mark.parametrize("table", ["kernel", "name"])
def test_a_part_that_is_no_parquet_is_named_in_one_line(
    words: tuple[str, ...], damage: bytes | None, table: str, trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    part = next(trace.glob(f"table={table}/**/*.parquet"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-40] + b"\xff" * 20 + whole[-20:] if damage is None else damage)
    assert parser.run([str(trace) if word == "@" else word for word in words]) == 1
    told = capfd.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith(f"warpsight: {part} cannot be read: ")
    assert told.endswith("; copy the trace again, or record it again\n")


def test_a_table_whose_files_are_gone_is_told(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = len(pq.read_table(trace / "table=kernel", partitioning=None))
    shutil.rmtree(trace / "table=kernel")
    assert parser.run(["query", str(trace), "SELECT count(*) FROM kernel"]) == 0
    told = capfd.readouterr().err
    assert f"incomplete: {rows:,} lost in kernel: its files are missing; copy the trace again" in told


def test_one_part_of_several_that_is_missing_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.warp"
    with TraceWriter(path) as writer:
        for process in (1, 2):
            writer.add("counter", {"time": [5, 6, 7], "name": ["w"] * 3, "value": [1.0] * 3, "unit": ["W"] * 3,
                                   "source": ["nvml"] * 3, "process": [process] * 3})  # fmt: skip
    next((path / "table=counter").rglob("*.parquet")).unlink()
    assert parser.run(["query", str(path), "SELECT count(*) FROM counter"]) == 0
    assert "incomplete: 3 lost in counter: its files are missing" in capfd.readouterr().err


def test_a_manifest_without_end_is_damaged(trace: Path) -> None:
    (trace / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(TraceError, match=r"manifest\.json is damaged"):
        warpsight.model.open(trace)


@pytest.mark.parametrize("key", ["overhead", "processes", "devices", "rows", "loss", "settings"])
def test_only_host_and_clocks_of_a_manifest_may_be_unknown(key: str, trace: Path) -> None:
    content = json.loads((trace / "manifest.json").read_text())
    (trace / "manifest.json").write_text(json.dumps({**content, "host": None, "clocks": None}))
    warpsight.model.open(trace).close()
    (trace / "manifest.json").write_text(json.dumps({**content, key: None}))
    with pytest.raises(TraceError, match=f"is damaged: {key} is not a"):
        warpsight.model.open(trace)


def test_text_that_is_no_utf_8_is_damage(trace: Path) -> None:
    part = next(trace.glob("table=name/**/*.parquet"))
    data = pq.read_table(part, partitioning=None)
    place = data.column_names.index("name")
    bad = pa.array([b"\xff"] * len(data)).view(pa.string())
    pq.write_table(data.set_column(place, "name", bad), part)
    with pytest.raises(TraceError, match="is damaged: "), warpsight.model.open(trace) as opened:
        opened.rows("name", "name")


def test_ids_may_refer_to_any_part_of_their_table(tmp_path: Path) -> None:
    parts = [tmp_path / "1.parquet", tmp_path / "2.parquet", tmp_path / "3.parquet"]
    for part, ids in zip(parts, ([4, 5, 9], [1, 2, 3], []), strict=True):
        pq.write_table(pa.table({"id": pa.array(ids, pa.int32())}), part)
    assert damage._most({"name": [str(part) for part in parts]}, "name") == 9
    assert damage._most({"name": [str(parts[2])]}, "name") == -1
    assert damage._most({"name": []}, "name") == -1


@pytest.mark.parametrize("place", ["cubins/a.cubin", "table=kernel/part-000009.parquet", "table=else"])
def test_a_trace_with_links_is_not_packed(trace: Path, tmp_path: Path, place: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    link = trace / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(secret)
    with pytest.raises(TraceError, match="is a link"):
        pack.pack(trace, tmp_path / "out.warp.zip")
    assert not (tmp_path / "out.warp.zip").exists()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_of_the_manifest_that_json_does_not_have_is_unknown(
    trace: Path, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    manifest = trace / "manifest.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    content["overhead"]["launcher_cpu_ns"] = "here"
    manifest.write_text(json.dumps(content).replace('"here"', number), encoding="utf-8")
    assert parser.run(["info", str(trace)]) == 0
    assert re.search(r"launcher_cpu +unknown\n", capsys.readouterr().out)


def test_a_number_that_its_column_cannot_hold_names_the_part(trace: Path) -> None:
    change(trace, "kernel", "device", (1 << 63) - 1)
    with (
        warpsight.model.open(trace) as opened,
        pytest.raises(TraceError, match=r"part-.* cannot be read: Integer value"),
    ):
        opened.arrow("kernel")
