"""Parts are written sorted, beside the conversion, and a part that cannot be written is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.capture import parts
from warpsight.capture.columns import Nullable
from warpsight.model.storage import store


@settings(derandomize=True, max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=8), st.booleans())
def test_rows_are_ordered_by_time_nulls_last_and_equal_ones_stay_in_order(
    rows: list[tuple[int, bool]], nulls: bool
) -> None:
    values, null = (
        np.array([value for value, _ in rows], np.int64),
        np.array([gone for _, gone in rows], bool),
    )
    column = Nullable(values, null) if nulls else values
    order = parts._order(column)
    found = list(range(len(rows))) if order is None else order.tolist()
    assert found == sorted(range(len(rows)), key=lambda i: (nulls and rows[i][1], rows[i][0]))
    assert parts._order(None) is None
    assert parts._order(Nullable(values, None)) is None or len(rows) > 1


def marks(*times: int) -> dict[str, object]:
    return {"time": np.array(times), "thread": 1, "state": "R", "gil": True, "process": 0}


def test_each_piece_is_a_sorted_file_and_rows_are_counted(tmp_path: Path) -> None:
    writer = parts.PartWriter(tmp_path)
    writer.add("sample", 0, 0, 3, marks(5, 3, 4))
    writer.add("sample", 0, 0, 2, marks(1, 2))
    writer.add("sample", 0, 0, 0, marks())
    writer.add("sample", 0, 0, 1, marks(7))
    parts.wait(writer.queued())
    assert writer.queued() == []
    writer.add("sample", 0, 1, 1, marks(9))
    parts.wait(writer.queued())
    writer.close()
    found = [
        pq.read_table(file, partitioning=None)["time"].to_pylist() for file in store.parts(tmp_path, "sample")
    ]
    assert sorted(found) == [[1, 2], [3, 4, 5], [7], [9]]
    assert writer.rows == {"sample": 7}


def test_a_column_of_one_value_or_of_nulls_takes_next_to_no_place(tmp_path: Path) -> None:
    """Kernels of one stream, none in a graph, in parts of several lengths."""
    rows = 100_000
    times = np.arange(rows, dtype=np.int64)
    kernels = {"start": times, "duration": times, "name_id": 1, "device": 0, "context": 1, "stream": 7, "process": 0,
               "graph_level": False, "correlation": times}  # fmt: skip
    writer = parts.PartWriter(tmp_path)
    for part, count in enumerate((rows, rows // 2)):
        values = {name: v[:count] if isinstance(v, np.ndarray) else v for name, v in kernels.items()}
        writer.add("kernel", 0, part, count, values)
    parts.wait(writer.queued())
    writer.close()
    for file, count in zip(store.parts(tmp_path, "kernel"), (rows, rows // 2), strict=True):
        group = pq.read_metadata(file).row_group(0)
        sizes = {
            one.path_in_schema: one.total_compressed_size
            for one in map(group.column, range(group.num_columns))
        }
        constant = sizes.keys() - {"start", "duration", "correlation"}
        assert {name: sizes[name] for name in constant if sizes[name] > 2_000} == {}
        table = pq.read_table(file, partitioning=None)
        assert (
            table["stream"].unique().to_pylist() == [7] and table["queued"].null_count == len(table) == count
        )


def test_a_part_that_cannot_be_written_is_an_error_and_the_others_are_there(tmp_path: Path) -> None:
    writer = parts.PartWriter(tmp_path)
    (tmp_path / "table=sample").mkdir()
    (tmp_path / "table=sample" / "process=7").write_text("in the way")
    for process in (7, 1, 2, 3, 4, 5, 6):  # more than may wait at once
        writer.add("sample", process, 0, 1, marks(1))
    with pytest.raises(OSError, match="process=7"):
        parts.wait(writer.queued())
    writer.close()
    assert len(list(store.parts(tmp_path, "sample"))) == 6
