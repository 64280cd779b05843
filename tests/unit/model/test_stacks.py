"""Host stacks as arrays: frames as text, and damage that neither loops nor sizes memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warpsight.model import TraceWriter, stacks
from warpsight.model import open as open_trace
from warpsight.model.stacks import Stacks

FRAMES = (("main", "a.py", 3, None, "python", None), ("f", "a.py", None, None, "python", None),
          ("g", None, None, None, "native", None))  # fmt: skip


def test_frames_are_shown_with_their_file_and_line(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.warp") as writer:
        inner = writer.stack(FRAMES)
        other = writer.stack(FRAMES[:1] + FRAMES[2:])
        writer.stack(FRAMES[1:2])
    assert inner is not None and other is not None
    with open_trace(tmp_path / "t.warp") as trace:
        found = stacks.load(trace)
        assert stacks.load(trace) is found
        assert trace.stacks([inner, 0]) == {inner: ("main (a.py:3)", "f (a.py)", "g"), 0: ()}
    assert found.of(inner) == ("main (a.py:3)", "f (a.py)", "g")
    assert found.of(other) == ("main (a.py:3)", "g")
    assert found.depth[[0, inner, other]].tolist() == [0, 3, 2]
    assert found.parent[[0, 1, 2, inner]].tolist() == [0, 0, 1, 2]
    assert found.of(0) == found.of(-1) == found.of(len(found.parent)) == ()
    assert found.text(int(found.frame[inner])) == "g" and found.text(99) == "?"


def test_a_ring_of_stacks_ends(tmp_path: Path) -> None:
    ring = Stacks(np.array([0, 2, 1]), np.array([0, 1, 7]), np.zeros(3, int), {1: ("f", None, None)})
    assert ring.of(1) == ("f",)  # the other one's frame is not known


@pytest.mark.parametrize(("far", "kept"), [(64 * 4 + 1024, True), (64 * 4 + 1025, False)])
def test_an_id_far_beyond_the_others_is_damage(tmp_path: Path, far: int, kept: bool) -> None:
    path = tmp_path / "t.warp"
    with TraceWriter(path) as writer:
        writer.stack(["a", "b", "c", "d"])
    for table in ("stack", "frame"):
        part = next(path.glob(f"table={table}/*.parquet"))
        rows = pq.read_table(part, partitioning=None)
        ids = pa.array([*rows["id"].to_pylist()[:3], far], rows.schema.field("id").type)
        pq.write_table(rows.set_column(rows.column_names.index("id"), "id", ids), part)
    with open_trace(path) as trace:
        found = stacks.load(trace)
        assert len(found.parent) == (far + 1 if kept else 4)
        assert sorted(found.frames) == [1, 2, 3, *([far] if kept else [])]
        assert found.of(3) == ("a", "b", "c")


def rewritten(path: Path, table: str, **columns: list[object]) -> None:
    """Put other values into columns of a table's only part."""
    part = next(path.glob(f"table={table}/*.parquet"))
    rows = pq.read_table(part, partitioning=None)
    types = {name: rows.schema.field(name).type for name in columns}
    types |= {name: kind.value_type for name, kind in types.items() if pa.types.is_dictionary(kind)}
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    pq.write_table(pa.table({name: arrays.get(name, rows[name]) for name in rows.column_names}), part)


def test_rows_that_lack_a_value_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    """A frame without a function, file, line or id; a stack without a parent, frame, depth or id."""
    path = tmp_path / "t.warp"
    with TraceWriter(path) as writer:
        writer.stack(["a", "b", "c", "d", "e"])
    rewritten(path, "frame", id=[1, 2, 3, 4, None], function=["f", None, "g", "h", "lost"],
              file=["a.py", "b.py", None, "c.py", "d.py"], line=[0, None, 9, -1, 1])  # fmt: skip
    rewritten(path, "stack", id=[1, 2, 3, 4, None], parent=[None, 1, 2, 3, 1], frame=[1, 2, 3, None, 1],
              depth=[1, 2, 3, None, 9])  # fmt: skip
    with open_trace(path) as trace:
        found = stacks.load(trace)
    assert [found.text(frame) for frame in (1, 2, 3, 4)] == ["f (a.py:0)", " (b.py)", "g", "h (c.py:-1)"]
    assert found.of(4) == ("f (a.py:0)", " (b.py)", "g")
    assert (found.parent.tolist(), found.frame.tolist(), found.depth.tolist()) == (
        [0, 0, 1, 2, 3], [0, 1, 2, 3, 0], [0, 1, 2, 3, 0])  # fmt: skip


def test_a_trace_without_stacks_has_the_empty_one(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.name("k")
    with open_trace(tmp_path / "t.warp") as trace:
        found = stacks.load(trace)
    assert (found.parent.tolist(), found.depth.tolist(), found.frames, found.of(1)) == ([0], [0], {}, ())
