"""The writer's errors: what does not fit the schema is refused by name, and a failed trace leaves nothing."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warpsight.errors import TraceError, UsageError
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

SAMPLE = {"time": [1], "thread": [1], "state": ["R"], "gil": [True], "process": [0]}


@pytest.mark.parametrize(
    ("table", "rows", "message"),
    [
        ("kernels", SAMPLE, "no table"),
        ("name", {"id": [1]}, "cannot be added"),
        ("sample", {**SAMPLE, "colour": [1]}, "no column colour"),
        ("sample", {"time": [1]}, "needs a value in column thread"),
        ("sample", {**SAMPLE, "time": ["noon"]}, "sample"),
        ("sample", {**SAMPLE, "time": [None]}, "null"),
        ("sample", [{"time": 1, "colour": 2}], "no column colour"),
        ("sample", pa.table({**SAMPLE, "thread": [2**40]}), "sample"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path: Path, table: str, rows: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message), TraceWriter(tmp_path / "a.warp") as writer:
        writer.add(table, rows)
    assert not (tmp_path / "a.warp").exists()


def test_rows_are_kept_per_process_and_sorted(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.warp") as writer:
        writer.add(
            "sample",
            {
                **SAMPLE,
                "time": [9, 3, 5],
                "thread": [1] * 3,
                "state": ["R"] * 3,
                "gil": [True] * 3,
                "process": [0, 1, 0],
            },
        )
        writer.add("sample", [])
    with open_trace(tmp_path / "a.warp") as trace:
        assert {p.parent.name for p in tmp_path.rglob("*.parquet")} == {"process=0", "process=1"}
        assert trace.sql("SELECT time FROM sample WHERE process = 0").fetchall() == [(5,), (9,)]


def test_rows_of_a_single_process_are_its_own(tmp_path: Path) -> None:
    rows = {name: values * 4 for name, values in SAMPLE.items()}
    with TraceWriter(tmp_path / "a.warp") as writer:
        for times in ([3, 9, 5, 7], [4, 4, 6, 8], [1, 2, 3, 0]):
            writer.add("sample", {**rows, "time": times, "process": [3] * 4})
    assert stat.S_IMODE((tmp_path / "a.warp").stat().st_mode) == 0o700
    assert {p.parent.name for p in tmp_path.rglob("*.parquet")} == {"process=3"}
    found = [pq.read_table(p, partitioning=None)["time"].to_pylist() for p in tmp_path.rglob("*.parquet")]
    assert sorted(found) == [[0, 1, 2, 3], [3, 5, 7, 9], [4, 4, 6, 8]]
    with open_trace(tmp_path / "a.warp") as trace:
        assert trace.tables["sample"] == trace.count("sample") == 12
        assert trace.manifest["rows"]["sample"] == 12


def test_columns_of_a_shape_that_are_not_given_are_0(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.warp") as writer:
        writer.shape(grid_x=5)
    with open_trace(tmp_path / "a.warp") as trace:
        (row,) = trace.arrow("shape").to_pylist()
    assert (row.pop("id"), row.pop("grid_x"), row.pop("launch_type")) == (1, 5, "regular")
    assert set(row.values()) == {0}


def test_an_existing_trace_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.warp"
    TraceWriter(path).close()
    with pytest.raises(TraceError, match="exists already"):
        TraceWriter(path)
    TraceWriter(path, force=True).close()
    other = tmp_path / "precious"
    other.mkdir()
    with pytest.raises(TraceError, match="left alone"):
        TraceWriter(other, force=True)


def test_names_stacks_and_shapes_are_interned(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.warp") as writer:
        assert writer.names(["a", None, "b", "a"]) == [1, None, 2, 1]
        assert writer.stack(["main", "f"]) == writer.stack(["main", "f"]) == 2
        assert writer.stack([]) is None
        assert writer.shape(grid_x=1) == writer.shape(grid_x=1) != writer.shape(grid_x=2)
        with pytest.raises(UsageError, match="no column grid"):
            writer.shape(grid=1)
    with open_trace(tmp_path / "a.warp") as trace:
        assert trace.sql("SELECT depth, cut FROM stack ORDER BY id").fetchall() == [(1, False), (2, False)]


def test_a_close_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.warp"
    writer = TraceWriter(path)
    writer.add("sample", SAMPLE)
    writer.describe(settings={"a manifest is JSON": object()})
    with pytest.raises(TypeError, match="not JSON serializable"):
        writer.close()
    assert list(tmp_path.iterdir()) == []
    TraceWriter(path).close()  # and nothing is in the way of another attempt
