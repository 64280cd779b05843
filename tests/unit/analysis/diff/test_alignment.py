"""The loop that runs have in common, the rows of a grouping, and kernels that replace others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpsight.analysis.diff import alignment
from warpsight.analysis.diff.alignment import Labeled
from warpsight.analysis.diff.runs import ReducedRun, RunValues

NONE = np.zeros(0, np.int64)


def run(
    counts: dict[str, int] | None = None, source: str = "repetition of 5 kernels", name: str | None = "step",
    *, own: bool = True, groups: dict[str, Any] | None = None,
) -> ReducedRun:  # fmt: skip
    """A run whose cells are one for each kernel name, with so many kernels each."""
    names = list(counts or {"gemm": 4, "relu": 2})
    numbers = np.array(list((counts or {"gemm": 4, "relu": 2}).values()), float)
    values = RunValues({"iteration": 100.0, "busy": 60.0}, float(numbers.sum()), numbers * 10, numbers)
    whole = RunValues({"recording": 999.0}, 99.0, numbers, numbers)
    labels = [("kernel", text) for text in names]
    return ReducedRun("t.warp", 0, "m", source, name, 9, 1, labels, NONE, groups or {"kernel": np.arange(len(names))},
                      NONE, values if own else None, whole, (NONE, NONE))  # fmt: skip


def test_runs_with_one_loop_are_compared_by_its_iterations() -> None:
    same = alignment.loop([run(source="range 'step #'"), run(source="range 'step #'")])
    assert (same.found, same.name, same.note) == (True, "step", "")
    assert [one.measures["iteration"] for one in same.values] == [100, 100]
    named = alignment.loop([run(source="range 'step #'"), run(source="range 'step #'", name="turn")])
    assert named.name == "iteration"
    assert alignment.loop([run(source="x", name=None)] * 2).name == "iteration"


def test_runs_without_a_loop_in_common_are_compared_as_wholes() -> None:
    none = alignment.loop([run(own=False), run(own=False)])
    assert (none.found, none.note) == (False, "")
    for pair in ([run(), run(own=False)], [run(source="range 'a'"), run(source="range 'b'")]):
        found = alignment.loop(pair)
        assert (found.found, [one.measures for one in found.values]) == (False, [{"recording": 999.0}] * 2)
        assert "no loop in common" in found.note
    assert "(none; range 'a')" in alignment.loop([run(source="range 'a'"), run(source="")]).note


@pytest.mark.parametrize(
    ("other", "turns"),
    [
        ({"gemm": 4, "relu": 2}, 1),
        ({"gemm": 8, "relu": 4}, 2),
        ({"gemm": 13, "relu": 5}, 3),  # 1/3 and 1/3 apart, of 6
        ({"gemm": 9, "relu": 3}, 2),  # 0.5 and 0.5
        ({"gemm": 11, "relu": 1}, None),  # 1.5 and 1.5: more than a quarter
        ({"conv": 12}, None),
        ({"conv": 6}, 1),  # as long as the shortest: other work is compared as it is
        ({"gemm": 8, "relu": 4, "tanh": 2}, 2),  # 1
        ({"gemm": 8, "relu": 4, "tanh": 3}, 2),  # 1.5: just a quarter; round(2.5) is 2
        ({"gemm": 12, "relu": 6, "tanh": 2}, 3),
    ],
)
def test_one_turn_may_be_several_of_the_shortest_loop_with_the_same_work(
    other: dict[str, int], turns: int | None
) -> None:
    """A turn of the shortest loop has four gemm and two relu."""
    found = alignment.loop([run({"gemm": 4, "relu": 2}), run(other)])
    if turns is None:
        assert not found.found and "do different work" in found.note
        return
    first, second = found.values
    assert first.measures == {"iteration": 100.0, "busy": 60.0} and first.work == 6
    assert second.measures == pytest.approx({"iteration": 100 / turns, "busy": 60 / turns})
    assert second.work == pytest.approx(sum(other.values()) / turns)
    assert second.count.tolist() == pytest.approx([n / turns for n in other.values()])
    assert second.time.tolist() == pytest.approx([10 * n / turns for n in other.values()])


def test_the_order_of_runs_and_labels_says_nothing_about_the_turns() -> None:
    found = alignment.loop([run({"relu": 4, "gemm": 8}), run({"gemm": 4, "relu": 2})])
    assert [one.measures["iteration"] for one in found.values] == [50, 100]


def test_rows_are_summed_from_the_cells_of_each_run() -> None:
    rows = Labeled(["a", "b", "c"], [np.array([0, -1, 1, 0]), np.array([2, 2])])
    values = [np.array([1.0, 50.0, 4.0, 7.0]), np.array([3.0, 6.0])]
    assert rows.summed(values).tolist() == [[8, 0], [4, 0], [0, 9]]
    assert Labeled([], [NONE, NONE]).summed([NONE, NONE]).shape == (0, 2)


def test_rows_of_a_grouping_are_texts_with_renamed_ones_joined() -> None:
    one = run({"a": 1, "b": 1, "c": 1}, groups={"kernel": np.array([2, -1, 0, 2])})
    two = run({"c": 1, "x": 1, "": 1}, groups={"kernel": np.array([0, 1, 2])})
    found = alignment.labeled([one, two], "kernel", {"a": "a → x", "x": "a → x"})
    texts = [[found.texts[i] if i >= 0 else None for i in of.tolist()] for of in found.of]
    assert texts == [["c", None, "a → x", "c"], ["c", "a → x", None]]
    assert sorted(found.texts) == ["a → x", "c"]
    empty = alignment.labeled([run({"a": 1}, groups={"kernel": NONE})], "kernel")
    assert (empty.texts, empty.of[0].tolist()) == ([], [])


class Tree:
    """A tree of replaced kernels with their weight."""

    def __init__(self, *nodes: tuple[str, str, float], kind: str = "kernel") -> None:
        self.before, self.after = [one[0] for one in nodes], [one[1] for one in nodes]
        self.kind = [kind] * len(nodes)
        self._weight = np.array([[one[2] / 2] * 2 for one in nodes])

    def __len__(self) -> int:
        return len(self.before)

    def totals(self, time: Any) -> Any:
        return self._weight


def renamed(tree: Tree, before: list[str], after: list[str]) -> dict[str, str]:
    runs = [run(dict.fromkeys(names, 1)) for names in (before, after)]
    time = [np.ones(len(names)) for names in (before, after)]
    return alignment.renamed(tree, runs, time, np.array([False, True]))  # type: ignore[arg-type]


def test_a_kernel_replaces_the_one_it_was_matched_with_most() -> None:
    tree = Tree(
        ("a", "x", 5), ("a", "y", 3), ("b", "y", 4), ("a", "x", 2), ("same", "same", 99), ("c", "", 7)
    )
    found = renamed(tree, ["a", "b", "c", "same"], ["x", "y", "same"])
    assert found == {"a": "a → x", "x": "a → x", "b": "b → y", "y": "b → y"}


def test_a_kernel_that_is_on_both_sides_replaces_none() -> None:
    tree = Tree(("a", "x", 5))
    assert renamed(tree, ["a"], ["x"]) != {}
    assert renamed(tree, ["a", "x"], ["x"]) == {}
    assert renamed(tree, ["a"], ["x", "a"]) == {}
    assert renamed(Tree(("a", "x", 5), kind="range"), ["a"], ["x"]) == {}


def test_best_matches_must_be_each_others() -> None:
    tree = Tree(("a", "x", 5), ("b", "x", 6), ("a", "y", 1))
    assert renamed(tree, ["a", "b"], ["x", "y"]) == {"b": "b → x", "x": "b → x"}


def test_a_kernel_without_time_is_not_on_its_side() -> None:
    runs = [run({"a": 1, "x": 1}), run({"x": 1})]
    time = [np.array([1.0, 0.0]), np.ones(1)]
    tree = Tree(("a", "x", 5))
    found = alignment.renamed(tree, runs, time, np.array([False, True]))  # type: ignore[arg-type]
    assert found == {"a": "a → x", "x": "a → x"}
