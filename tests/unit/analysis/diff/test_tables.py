"""The tables of a comparison, each row worked out from the runs' values."""

from __future__ import annotations

from math import exp, inf, log, prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.diff import tables
from warpsight.analysis.diff.alignment import Labeled
from warpsight.analysis.diff.calltree import CallTree
from warpsight.analysis.diff.design import Design
from warpsight.analysis.diff.rows import FASTER, NOT_SHOWN, SLOWER, UNTESTED
from warpsight.analysis.diff.statistics import Estimates

DESIGN = Design(np.array([False, False, True, True]), np.arange(4), timed=True)


def estimates(*rows: tuple[float, float, float, float, bool]) -> Estimates:
    """Change, interval, p and whether it is called."""
    change, low, high, p, called = (np.array(column) for column in zip(*rows, strict=True))
    return Estimates(change, low, high, p, called)


def maker(
    name: str, values: Any, count: Any, verdict: list[str], time: Any = None, beside: Any = None
) -> tables.Maker:
    judged = SimpleNamespace(
        values={name: np.array(values, float)}, verdict={name: verdict}, time=time and {name: time},
        beside=beside and {name: beside},
    )  # fmt: skip
    return tables.Maker(judged, [np.array(one, float) for one in count], DESIGN)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1.0, 3.0, 8.0, 1e6]), min_size=3, max_size=3), min_size=1, max_size=4
    )
)
def test_the_mean_over_runs_is_geometric_unless_some_value_is_0(values: list[list[float]]) -> None:
    expected = [sum(row) / 3 if 0 in row else prod(row) ** (1 / 3) for row in values]
    assert tables.mean_of(np.array(values)).tolist() == pytest.approx(expected)


def test_rows_of_a_grouping_have_means_of_both_sides_and_the_smaller_p() -> None:
    values = [[2, 8, 16, 16], [5, 5, 5, 5], [0, 0, 3, 3], [0, 0, 0, 0], [9, 9, 4, 4]]
    group = Labeled(["grown", "same", "new", "nothing", "shrunk"], [np.array([0, 1, 2, 3, 4])] * 4)
    count = [[1, 2, 0, 0, 4], [3, 2, 0, 0, 4], [5, 2, 6, 0, 4], [5, 2, 6, 0, 4]]
    time = estimates((log(4), log(3), log(5), 0.01, True), (0, -0.1, 0.1, 0.9, False), (0, 0, 0, 0.5, False),
                     (0, 0, 0, 0.5, False), (0, -inf, inf, 0.3, False))  # fmt: skip
    beside = estimates((log(2), log(1.5), log(3), 0.02, True), (0, -inf, inf, 0.001, False), (0, 0, 0, 0.4, False),
                       (0, 0, 0, 0.4, False), (0, -0.2, 60, 0.2, False))  # fmt: skip
    made = maker("kernel", values, count, [SLOWER, NOT_SHOWN, "new", NOT_SHOWN, UNTESTED], time, beside)
    rows = made.labeled("kernel", group).to_pylist()
    # Changed ones first, by size; then the others by size; rows of nothing are left out.
    assert [row["name"] for row in rows] == ["grown", "new", "shrunk", "same"]
    grown, new, shrunk, same = rows
    assert (grown["before"], grown["after"]) == pytest.approx((4, 16))
    assert (grown["change"], grown["ratio"]) == pytest.approx((12, 4))
    assert (grown["low"], grown["high"], grown["p"]) == pytest.approx((3, 5, 0.01))
    assert (grown["beside"], grown["beside_low"], grown["beside_high"]) == pytest.approx((2, 1.5, 3))
    assert (grown["count_before"], grown["count_after"]) == (2, 5)
    assert (new["before"], new["after"]) == pytest.approx((0, 3))
    assert (new["ratio"], new["low"], new["p"]) == (None, None, 0.4)
    assert (same["p"], same["low"], same["beside_low"]) == pytest.approx((0.9, exp(-0.1), None))
    assert shrunk["change"] == pytest.approx(-5) and shrunk["p"] == 0.2
    assert shrunk["low"] is None and shrunk["beside_high"] is None  # beyond all bounds


def test_without_tests_there_is_no_p() -> None:
    made = maker("kernel", [[1, 1, 2, 2]], [[1]] * 4, [UNTESTED])
    (row,) = made.labeled("kernel", Labeled(["a"], [np.array([0])] * 4)).to_pylist()
    assert (row["p"], row["low"], row["beside"], row["verdict"]) == (None, None, None, UNTESTED)


@pytest.mark.parametrize(
    ("change", "called", "verdict"),
    [(0.1, True, SLOWER), (-0.1, True, FASTER), (0.1, False, NOT_SHOWN), (None, False, UNTESTED)],
)
def test_the_first_measure_has_the_verdict_of_the_headline(
    change: float | None, called: bool, verdict: str
) -> None:
    values = [[10, 10, 12, 12], [3, 3, 3, 3]]
    made = maker("summary", values, [[1]] * 4, [NOT_SHOWN, NOT_SHOWN])
    headline = (
        None if change is None else (estimates((change, change - 0.05, change + 0.05, 0.03, called)), 1.0)
    )
    loop = SimpleNamespace(values=[SimpleNamespace(work=n) for n in (7, 9, 11, 13)])
    first, second = made.summary(["iteration", "busy"], headline, loop).to_pylist()  # type: ignore[arg-type]
    assert (first["name"], first["verdict"], second["verdict"]) == ("iteration", verdict, NOT_SHOWN)
    assert (first["count_before"], second["count_after"]) == (8, 12)
    if change is not None:
        assert (first["low"], first["high"], first["p"]) == pytest.approx(
            (exp(change - 0.05), exp(change + 0.05), 0.03)
        )


#: A root with two children: of 1,000 ns each side, one of exactly a thousandth, one below, one that is only on one side.
PARENT = [-1, 0, 0, 0, 1, 1, 0]
TREE = CallTree(
    np.array(PARENT), ["python"] + ["kernel"] * 6, ["root", "f", "least", "less", "a", "gone", ""],
    ["root", "f", "least", "less", "b", "", "new"], [np.arange(7)] * 4,
)  # fmt: skip


def test_the_tree_is_depth_first_with_the_longest_first_and_the_tiny_left_out() -> None:
    # Each run that took twice as long as the mean has one beside it that took no time: means are exact, then.
    values = [
        [2_000, 0] * 2,
        [1_200, 0] * 2,
        [2, 0] * 2,
        [1.998, 0] * 2,
        [200, 0] * 2,
        [800, 0, 0, 0],
        [0, 0, 796, 0],
    ]
    made = maker("tree", values, [[1] * 7] * 4, [NOT_SHOWN] * 7)
    rows = made.tree(TREE).to_pylist()
    found = [(row["node"], row["parent"], row["depth"], row["name"], row["match"]) for row in rows]
    assert found == [
        (0, -1, 0, "root", "both"), (1, 0, 1, "f", "both"), (2, 1, 2, "gone", "removed"), (3, 1, 2, "a → b", "replaced"),
        (4, 0, 1, "new", "added"), (5, 0, 1, "least", "both"),
    ]  # fmt: skip
    assert [row["count_before"] for row in rows] == [7, 3, 1, 1, 1, 1]


def test_nodes_without_time_are_left_out_of_a_tree_without_time() -> None:
    made = maker("tree", [[0] * 4] * 7, [[1] * 7] * 4, [NOT_SHOWN] * 7)
    assert len(made.tree(TREE)) == 1


@pytest.mark.parametrize(
    ("lengths", "chosen"), [((5, 1, 3), 2), ((5, 1, 3, 4), 3), ((5,), 0), ((2, 2, 2), 1), ((9, 1), 0)]
)
def test_the_typical_run_is_the_middle_one_of_its_side(lengths: tuple[int, ...], chosen: int) -> None:
    runs = [
        SimpleNamespace(
            sequence=(np.array([n]), np.array([10 * n])), labels=[("kernel", f"k{i}") for i in range(9)]
        )
        for n in range(len(lengths))
    ]
    loop = SimpleNamespace(
        values=[SimpleNamespace(measures={"iteration": one, "busy": -one}) for one in lengths]
    )
    found = tables._typical(runs, loop, np.arange(len(lengths)))  # type: ignore[arg-type]
    assert (found.names, found.times) == ([f"k{chosen}"], [10 * chosen])


def test_nodes_that_locate_the_change_bring_those_around_them() -> None:
    def node(parent: int, change: float, verdict: str = NOT_SHOWN) -> dict[str, Any]:
        return {"parent": parent, "change": change, "verdict": verdict}

    nodes = [node(-1, 1.0), node(0, 0.5), node(1, -10.0, "gone"), node(1, -0.99), node(0, 100.0, UNTESTED), node(4, 10.0),
             node(4, 9.99), node(0, 0.0)]  # fmt: skip
    kept = tables.changed_nodes(nodes)
    assert [nodes.index(one) for one in kept] == [
        0,
        1,
        2,
        4,
        5,
    ]  # a tenth of the largest change, called or not
    assert tables.changed_nodes([node(-1, 0.0), node(0, 0.0)]) == []
    assert tables.changed_nodes([]) == []


def test_names_of_a_stretch_are_listed_once_and_twenty_at_most() -> None:
    assert tables._names(["b", "a", "b"]) == "b, a"
    assert tables._names([]) is None
    assert tables._names([f"k{n}" for n in range(30)]) == ", ".join(f"k{n}" for n in range(20))
