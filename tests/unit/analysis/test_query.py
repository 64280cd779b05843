"""Queries from simple parts, and sums of any size, against the rows themselves."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.analysis.conftest import kernel
from warpsight.analysis.base import query
from warpsight.analysis.base.query import Question, arrow, ask
from warpsight.errors import UsageError


@pytest.fixture
def trace(build):
    return build(kernel=[kernel(100 * i, (i * 7) % 10 + 1, 1 + i % 2, stream=7 + i % 3) for i in range(20)])


def rows(trace, **parts):
    return arrow(trace, ask(trace, Question(**parts))).to_pylist()


def test_the_first_the_last_and_the_longest_rows(trace):
    every = rows(trace)
    assert [row["start"] for row in every] == [100 * i for i in range(20)]
    assert rows(trace, head=3) == every[:3]
    assert rows(trace, tail=3) == every[-3:]
    longest = rows(trace, top=4, fields=("duration",))
    assert longest == [{"duration": d} for d in sorted((row["duration"] for row in every), reverse=True)[:4]]


def test_groups_have_sums_and_come_by_size(trace):
    every = rows(trace)
    expected = {}
    for row in every:
        expected.setdefault((row["name"], row["stream"]), []).append(row["duration"])
    found = rows(trace, group_by=("name", "stream"))
    assert {
        (r["name"], r["stream"]): (r["count"], r["total"], r["mean"], r["min"], r["max"]) for r in found
    } == {
        key: (len(d), sum(d), pytest.approx(sum(d) / len(d)), min(d), max(d)) for key, d in expected.items()
    }
    assert [r["total"] for r in found] == sorted((r["total"] for r in found), reverse=True)
    assert rows(trace, group_by=("name", "stream"), top=2) == found[:2]
    assert rows(trace, group_by=("name", "stream"), head=2) == found[:2]


def test_counts_of_all_rows_and_of_groups(trace):
    assert rows(trace, count=True) == [{"count": 20}]
    assert rows(trace, count=True, filters=("stream=7",)) == [{"count": 7}]
    assert rows(trace, count=True, group_by=("stream",)) == [
        {"stream": 7, "count": 7}, {"stream": 8, "count": 7}, {"stream": 9, "count": 6},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"table": "kernels"}, "did you mean kernel"),
        ({"table": "zzz"}, "tables: "),
        ({"head": 1, "tail": 1}, "use one of"),
        ({"group_by": ("name",), "tail": 1}, "cannot be combined with --group-by"),
        ({"count": True, "fields": ("name",)}, "--fields cannot be combined"),
        ({"table": "name", "top": 1}, "--top needs"),
        ({"table": "name", "tail": 1}, "--tail needs a time"),
    ],
)
def test_what_makes_no_sense_is_refused(trace, parts, said):
    with pytest.raises(UsageError, match=said):
        ask(trace, Question(**parts))


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("9223372036854775807::HUGEINT", 2**63 - 1),
        ("(-9223372036854775808)::HUGEINT", -(2**63)),
        ("9223372036854775808::HUGEINT", float(2**63)),
        ("170141183460469231731687303715884105727::HUGEINT", float(2**127)),
        ("NULL::HUGEINT", None),
    ],
)
def test_sums_are_exact_where_64_bits_hold_them(trace, sql, value):
    found = arrow(trace, trace.sql(f'SELECT {sql} AS "a ""sum""", 1 AS one')).to_pylist()
    assert found == [{'a "sum"': value, "one": 1}]


@pytest.mark.parametrize(
    ("column", "good"),
    [
        (pa.array([0, None], pa.timestamp("s")), True),
        (pa.array([1 << 60], pa.timestamp("s")), False),
        (pa.array([1 << 40], pa.timestamp("ms")), True),
        (pa.array([[1 << 60]], pa.list_(pa.timestamp("s"))), False),
        (pa.array([[1, 2], None]), True),
        (pa.array([1 << 60]), True),
        (pa.array(["1 << 60"]), True),
    ],
)
def test_times_that_python_cannot_hold_are_refused_by_column(column, good):
    table = pa.table({"n": pa.array([7] * len(column)), "moment": column})
    if good:
        assert query._shown(table) is table
    else:
        with pytest.raises(UsageError, match="column moment holds times that are out of range here"):
            query._shown(table)
