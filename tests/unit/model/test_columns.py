"""Columns read straight from the parts, against the same columns asked for with SQL."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from warpsight.model import open as open_trace
from warpsight.model.schema import TABLES
from warpsight.model.storage import columns, store
from warpsight.model.storage.columns import NO_TEXT
from warpsight.model.storage.writer import TraceWriter

ROWS = 1_000
NUMBERS = {
    "start": -7,
    "duration": -1,
    "device": -1,
    "correlation": -1,
    "graph_level": 0,
    "process": 0,
    "stack": 0,
}


def kernels(seed, process):
    """Kernel rows in which a third of every column that may be null is null."""
    rng = np.random.default_rng(seed)

    def some(kind):
        return pa.array(rng.integers(0, 100, ROWS), kind, mask=rng.random(ROWS) < 0.3)

    return pa.table({
        "start": some(pa.int64()), "duration": some(pa.int64()), "name_id": some(pa.int32()), "device": some(pa.int16()),
        "context": np.ones(ROWS, np.int32), "stream": np.full(ROWS, 7, np.int32), "correlation": some(pa.int64()),
        "process": np.full(ROWS, process, np.int32), "stack": some(pa.int32()), "graph_level": rng.random(ROWS) < 0.5,
    })  # fmt: skip


@pytest.fixture
def trace(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        for process in (0, 1):
            writer.add("kernel", kernels(process, process))
        for process, function in ((0, "cuda"), (0, "hip"), (1, "cuda")):
            writer.add("launch", [{"start": 5, "duration": 1, "function": function, "thread": 1, "process": process,
                                   "captured": False}])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as opened:
        yield opened


def test_columns_of_small_tables_are_read_once_and_belong_to_each_caller(trace, monkeypatch):
    asked = ("launch", {"start": 0}, ["function"])
    found, texts = trace.columns(*asked)
    expected = found["start"].tolist(), found["function"].tolist(), {"function": [*texts["function"]]}
    monkeypatch.setattr(columns, "read", lambda *_: pytest.fail("the parts were read again"))
    found["start"] += 1
    del found["function"]
    texts["function"].append("another")
    again, texts = trace.columns(*asked)
    assert (again["start"].tolist(), again["function"].tolist(), texts) == expected


def test_another_null_or_type_is_another_column(trace, monkeypatch):
    nulls = [trace.columns("kernel", {"correlation": fill})[0]["correlation"] for fill in (-1, -2)]
    assert (nulls[0] != nulls[1]).tolist() == (nulls[0] == -1).tolist()
    narrow, _ = trace.columns("kernel", {"correlation": -1}, narrow=["correlation"])
    assert (narrow["correlation"].dtype, nulls[0].dtype) == (np.int32, np.int64)


def test_rows_of_a_few_columns_are_those_of_the_whole_table(trace):
    whole = trace.arrow("kernel")
    assert trace.rows("kernel", "stream", "start") == list(
        zip(whole["stream"].to_pylist(), whole["start"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize("batch", [1, 300, 1 << 20])
def test_numbers_are_those_of_sql_with_nulls_filled(trace, monkeypatch, batch):
    monkeypatch.setattr(columns, "BATCH_ROWS", batch)
    found, texts = trace.columns("kernel", NUMBERS)
    listed = ", ".join(f"coalesce({name}::BIGINT, {fill})" for name, fill in NUMBERS.items())
    expected = trace.sql(f"SELECT {listed} FROM kernel_ids").fetchall()
    assert list(zip(*(found[name].tolist() for name in NUMBERS), strict=True)) == expected
    assert {name: str(column.dtype) for name, column in found.items()} == {
        c.name: c.type for c in TABLES["kernel"].columns if c.name in NUMBERS
    }
    assert texts == {}


def test_texts_become_codes_that_all_parts_share(trace):
    found, texts = trace.columns("launch", {"process": 0}, ["function"])
    shown = [texts["function"][code] for code in found["function"].tolist()]
    assert (
        list(zip(found["process"].tolist(), shown, strict=True))
        == trace.sql("SELECT process, function FROM launch_ids").fetchall()
    )


def test_a_null_text_has_no_code(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add(
            "thread", [{"thread": 1, "process": 0, "name": None}, {"thread": 2, "process": 0, "name": "a"}]
        )
    with open_trace(tmp_path / "t.warp") as opened:
        found, texts = opened.columns("thread", {"thread": 0}, ["name"])
    assert dict(zip(found["thread"].tolist(), found["name"].tolist(), strict=True)) == {1: NO_TEXT, 2: 0}
    assert texts == {"name": ["a"]}


def test_a_column_of_nulls_alone_and_a_part_without_rows(tmp_path):
    whole = store.conform(TABLES["kernel"], kernels(0, 0).drop_columns(["stack"]))
    paths = [tmp_path / "table=kernel" / f"part-{number:06d}.parquet" for number in (0, 1)]
    for path, rows in zip(paths, (whole, whole.slice(0, 0)), strict=True):
        store.write_part(path, TABLES["kernel"], rows)
    found, _ = columns.read([str(path) for path in paths], TABLES["kernel"], {"stack": -5})
    assert found["stack"].tolist() == [-5] * ROWS


def test_a_table_without_parts_has_empty_columns(trace):
    found, texts = trace.columns("sync", {"start": 0, "duration": 0}, ["kind"])
    assert {name: len(column) for name, column in found.items()} == {"start": 0, "duration": 0, "kind": 0}
    assert texts == {"kind": []}


def test_a_part_that_is_older_than_a_column_is_filled(tmp_path):
    """Recovered traces have parts of several versions, and each part says itself what it has."""
    paths: list[Path] = []
    for number in (0, 1):
        whole = store.conform(TABLES["kernel"], kernels(number, 0))
        paths.append(tmp_path / "table=kernel" / f"part-{number:06d}.parquet")
        store.write_part(paths[-1], TABLES["kernel"], whole if number else whole.drop_columns(["stack"]))
    found, _ = columns.read([str(path) for path in paths], TABLES["kernel"], {"stack": -5, "process": 0})
    assert (found["stack"][:ROWS] == -5).all()
    assert found["stack"][ROWS:].tolist() == [
        -5 if v is None else v for v in whole.column("stack").to_pylist()
    ]


@pytest.mark.parametrize(
    "name",
    ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"],
)
def test_every_type_of_number_is_read_as_numpy_has_it(name, tmp_path):
    column = pa.array([1, 0, 1]).cast(getattr(pa, {"bool": "bool_"}.get(name, name))())
    found = columns._dtype(column.type)
    assert (found.name, found.itemsize) == (name, max(column.type.bit_width // 8, 1))


@pytest.mark.parametrize(
    ("most", "kind"), [((1 << 31) - 1, "int32"), (1 << 31, "int64"), (-(1 << 31) - 1, "int64")]
)
def test_columns_are_narrowed_only_where_every_part_fits(tmp_path, most, kind):
    values = [[1, None, 3], [most, 5]]
    with TraceWriter(tmp_path / "t.warp") as writer:
        for part in values:
            rows = [{"start": 0, "duration": 1, "name_id": 1, "correlation": one, "process": 0, "context": 1, "stream": 7,
                     "graph_level": False} for one in part]  # fmt: skip
            writer.add("kernel", rows)
    with open_trace(tmp_path / "t.warp") as opened:
        found = opened.columns("kernel", {"correlation": -1}, narrow=["correlation"])[0]["correlation"]
    assert (str(found.dtype), sorted(found.tolist())) == (kind, sorted([1, -1, 3, most, 5]))
