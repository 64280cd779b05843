"""Simple filters choose the rows that the same condition chooses in Python."""

from __future__ import annotations

import operator
import re

import pytest

from tests.unit.analysis.conftest import Build, kernel
from warpsight.analysis.base.query import Question, ask
from warpsight.errors import UsageError
from warpsight.model import StoredTrace

BEGIN = 1_000_000
ROWS = [
    kernel(BEGIN + 700 * i, (i * 37 % 11) * 500, 1 + i % 4, stream=7 + i % 3, graph_level=i % 5 == 0)
    for i in range(60)
]
OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.fixture
def trace(build: Build) -> StoredTrace:
    return build(kernel=ROWS)


def count(trace: StoredTrace, *filters: str) -> int:
    question = Question("kernel", filters, (), (), True, None, None, None)
    return int(ask(trace, question).fetchall()[0][0])


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize(
    ("text", "value"), [("1500", 1500), ("1.5us", 1500), ("0.0025ms", 2500), ("2KiB", 2048), ("2kB", 2000)]
)
def test_comparisons_with_units(trace: StoredTrace, sign: str, text: str, value: int) -> None:
    assert count(trace, f"duration{sign}{text}") == sum(
        OPERATORS[sign](row["duration"], value) for row in ROWS
    )


def test_times_with_a_unit_count_from_the_begin_and_bare_numbers_do_not(trace: StoredTrace) -> None:
    late = [row for row in ROWS if row["start"] >= BEGIN + 14_000]
    assert 0 < len(late) < len(ROWS)
    assert count(trace, "start>=14us") == count(trace, f"start>={BEGIN + 14_000}") == len(late)


def test_ranges_hold_both_ends_and_alternatives_are_added(trace: StoredTrace) -> None:
    between = [row for row in ROWS if 1_000 <= row["duration"] <= 2_500]
    assert count(trace, "duration=1us..2.5us") == len(between)
    assert count(trace, "duration!=1us..2.5us") == len(ROWS) - len(between)
    assert count(trace, "stream=7|stream=9") == sum(row["stream"] in (7, 9) for row in ROWS)
    assert count(trace, "stream=7|stream=9", "duration>2us") == sum(
        row["stream"] in (7, 9) and row["duration"] > 2_000 for row in ROWS
    )


def test_patterns_truth_values_and_null(trace: StoredTrace) -> None:
    names = [name for (name,) in trace.sql("SELECT name FROM kernel").fetchall()]
    assert count(trace, "name~gemm|soft") == sum(re.search("gemm|soft", name) is not None for name in names)
    assert count(trace, "name!~gemm") == sum("gemm" not in name for name in names)
    assert count(trace, "name=gemm") == names.count("gemm")
    assert count(trace, "graph_level=yes") == count(trace, "graph_level!=0") == 12
    assert count(trace, "stack=") == len(ROWS) and count(trace, "stack!=") == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("duration", "is not a filter"),
        ("durration>3", "did you mean duration"),
        ("duration>soon", "holds numbers"),
        ("duration>3 parsec", "holds numbers"),
        ("graph_level=maybe", "true or false"),
        ("name~(", "not a regular expression"),
    ],
)
def test_what_is_no_filter_is_refused(trace: StoredTrace, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        count(trace, text)


def test_all_rows_come_in_order_unless_some_are_asked_for(trace: StoredTrace) -> None:
    starts = sorted(row["start"] for row in ROWS)
    chosen = {"fields": ["start"]}
    assert [row[0] for row in ask(trace, Question(**chosen)).fetchall()] == starts
    assert [row[0] for row in ask(trace, Question(**chosen, head=4)).fetchall()] == starts[:4]
    assert [row[0] for row in ask(trace, Question(**chosen, tail=4)).fetchall()] == starts[-4:]
