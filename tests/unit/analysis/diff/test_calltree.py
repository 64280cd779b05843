"""Call trees laid over each other, labels of rows, and means of sides, against one path and one value at a time."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.diff import alignment, calltree, tables
from warpsight.analysis.diff.alignment import Labeled
from warpsight.analysis.diff.rows import NOT_SHOWN, SLOWER

PATHS = st.lists(st.lists(st.integers(-1, 3), max_size=4), max_size=5)


@settings(derandomize=True, max_examples=60)
@given(st.lists(PATHS, min_size=1, max_size=3))
def test_one_tree_holds_the_paths_of_all_runs(runs: list[list[list[int]]]) -> None:
    width = max((len(path) for paths in runs for path in paths), default=0)
    columns = [
        np.array([path + [-1] * (width - len(path)) for path in paths], np.int64).reshape(len(paths), width)
        for paths in runs
    ]
    tree, nodes = calltree._laid_over(columns)

    def path(node: int) -> list[int]:
        return [*path(int(tree.parent[node])), int(tree.label[node])] if node else []

    expected = [[[label for label in path if label >= 0] for path in paths] for paths in runs]
    assert [[path(node) for node in own.tolist()] for own in nodes] == expected
    every = {tuple(path[:n]) for paths in expected for path in paths for n in range(len(path) + 1)} | {()}
    assert sorted(tuple(path(node)) for node in range(len(tree))) == sorted(every)
    # Each node has what is below it: the sum, or the first place.
    own = np.arange(len(tree)) + 1.0
    below = {
        node: [n for n in range(len(tree)) if path(n)[: len(path(node))] == path(node)]
        for node in range(len(tree))
    }
    for joined, total in ((np.add, sum), (np.minimum, min)):
        values = own.copy()
        calltree._upward(tree.parent, values, joined)
        assert values.tolist() == [total(own[n] for n in below[node]) for node in range(len(tree))]


CELLS = st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 9)), min_size=1, max_size=7)


@settings(derandomize=True, max_examples=60)
@given(st.lists(CELLS, min_size=1, max_size=3), st.booleans())
def test_rows_of_a_grouping_hold_the_cells_of_all_runs_with_their_text(
    runs: list[list[tuple[int, int]]], join: bool
) -> None:
    texts = ["a", "b", "", "c", "d"]
    made = [
        SimpleNamespace(
            groups={"kernel": np.array([label for label, _ in cells])},
            labels=[("kernel", text) for text in texts],
        )
        for cells in runs
    ]
    found = alignment.labeled(cast(Any, made), "kernel", {"c": "a", "d": "e"} if join else None)
    names = {"c": "a", "d": "e"} if join else {}
    summed: dict[str, list[int]] = {}
    for run, cells in enumerate(runs):
        for label, value in cells:
            text = texts[label] if label >= 0 else ""
            if text:
                summed.setdefault(names.get(text, text), [0] * len(runs))[run] += value
    values = found.summed([np.array([value for _, value in cells]) for cells in runs])
    assert dict(zip(found.texts, values.tolist(), strict=True)) == summed
    assert values.shape == (len(found.texts), len(runs))


def test_a_grouping_without_rows_has_no_sums() -> None:
    assert Labeled([], [np.array([-1])]).summed([np.array([5])]).shape == (0, 1)


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), max_size=4))
def test_the_mean_of_a_side_is_geometric_where_nothing_is_zero(values: list[list[int]]) -> None:
    found = tables.mean_of(np.array(values, float).reshape(len(values), 3))
    assert found.tolist() == pytest.approx(
        [prod(row) ** (1 / 3) if min(row) else sum(row) / 3 for row in values]
    )


def run(
    work: dict[str, int], source: str = "repetition of 2 kernels", iteration: bool = True, name: str = "step"
) -> Any:
    """A run whose cells are kernels, with their work per iteration."""
    values = calltree_values(list(work.values()))
    return SimpleNamespace(
        source=source, name=name, iteration=values if iteration else None, recording="whole",
        labels=[("python", "main"), *(("kernel", text) for text in work)], groups={"kernel": np.arange(1, len(work) + 1)},
    )  # fmt: skip


def calltree_values(count: list[int]) -> Any:
    from warpsight.analysis.diff.runs import RunValues

    cells = np.array(count, float)
    return RunValues({"iteration": 12.0}, float(cells.sum()), cells * 2, cells)


def test_turns_of_repetitions_are_scaled_to_the_shortest_that_does_the_same_work() -> None:
    found = alignment.loop([run({"a": 1, "b": 1}), run({"b": 2, "a": 2}), run({"a": 3, "b": 3})])
    assert (found.name, found.note, found.found) == ("step", "", True)
    assert [one.measures["iteration"] for one in found.values] == [12, 6, 4]
    assert [(one.work, one.time.tolist(), one.count.tolist()) for one in found.values] == [
        (2, [2, 2], [1, 1])
    ] * 3
    # A quarter of the work may differ.
    near = alignment.loop([run({"a": 8, "b": 8}), run({"a": 18, "b": 14})])
    assert near.found and near.values[1].measures["iteration"] == 6
    far = alignment.loop([run({"a": 8, "b": 8}), run({"a": 32, "b": 1})])
    assert not far.found and far.values == ["whole"] * 2
    assert far.note == "the loops that repeat in the runs do different work, so whole recordings are compared"


@pytest.mark.parametrize(
    ("others", "name", "note"),
    [
        ([run({"a": 1}, "range 'step'", iteration=False)] * 2, "recording", ""),
        ([run({"a": 1}, "range 'step'"), run({"a": 9}, "range 'step'")], "step", ""),
        ([run({"a": 1}, "range 'step'"), run({"a": 9}, "range 'step'", name="batch")], "iteration", ""),
        ([run({"a": 1}, "range 'step'"), run({"a": 1}, "", iteration=False)], "recording",
         "the runs have no loop in common (none; range 'step'), so whole recordings are compared"),
        ([run({"a": 1}, "range 'step'"), run({"a": 1}, "range 'turn'")], "recording",
         "the runs have no loop in common (range 'step'; range 'turn'), so whole recordings are compared"),
    ],
)  # fmt: skip
def test_the_loop_that_all_runs_have(others: list[Any], name: str, note: str) -> None:
    found = alignment.loop(others)
    assert (found.name, found.note) == (name, note)
    assert len(found.values) == 2 and (found.values == ["whole"] * 2) == (name == "recording")


def test_nodes_that_locate_a_change_are_shown_with_what_is_around_them() -> None:
    def node(parent: int, change: float, verdict: str = NOT_SHOWN) -> dict[str, Any]:
        return {"parent": parent, "change": change, "verdict": verdict}

    nodes = [
        node(-1, 0),
        node(0, 0),
        node(1, 10),
        node(1, -1),
        node(0, 0.99),
        node(4, 0.5, SLOWER),
        node(0, 0.99),
    ]
    shown = tables.changed_nodes(nodes)
    assert [nodes.index(one) for one in shown] == [0, 1, 2, 3, 4, 5]
    assert tables.changed_nodes([node(-1, 0), node(0, 0)]) == [] == tables.changed_nodes([])
