"""Columns that a schema gains later do not make older traces unreadable."""

import pyarrow.parquet as pq
import pytest

from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.schema import LATER, TABLES
from warpsight.model.sharing.pack import pack
from warpsight.model.storage import store

COPY = {"start": 5, "duration": 2, "bytes": 64, "kind": "HtoD", "source_kind": "pinned", "destination_kind": "device",
        "asynchronous": True, "context": 1, "stream": 7, "process": 0, "source_address": 1 << 63}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add("memcpy", [COPY])
        writer.add("memcpy", [{**COPY, "start": 9}])
    return tmp_path / "t.warp"


def age(path, parts):
    """Take the later columns out of some parts, as an older writer left them."""
    for file in [*store.parts(path, "memcpy")][parts]:
        data = pq.read_table(file, partitioning=None)
        pq.write_table(data.drop_columns(["source_address", "destination_address"]), file)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [(slice(0, 0), [1 << 63, 1 << 63]), (slice(0, 1), [None, 1 << 63]), (slice(0, 2), [None, None])],
)
def test_a_part_without_a_later_column_reads_as_nulls(path, parts, expected):
    age(path, parts)
    with open_trace(path) as trace:
        assert [
            row[0] for row in trace.sql("SELECT source_address FROM memcpy ORDER BY start").fetchall()
        ] == expected
        assert sorted(trace.arrow("memcpy")["source_address"].to_pylist(), key=str) == sorted(
            expected, key=str
        )


def test_later_columns_may_be_null():
    for table, names in LATER.items():
        columns = {c.name: c for c in TABLES[table].columns}
        assert all(columns[name].nullable for name in names)


def test_a_column_that_only_a_later_version_knows_is_left_out(path, tmp_path):
    for file in store.parts(path, "memcpy"):
        data = pq.read_table(file, partitioning=None)
        pq.write_table(data.append_column("invented_later", [[7] * len(data)]), file)
    with open_trace(path) as trace:
        assert trace.arrow("memcpy").column_names == [column.name for column in TABLES["memcpy"].columns]
    pack(path, tmp_path / "t.warp.zip")
