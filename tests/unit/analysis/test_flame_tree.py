"""The tree of a flame graph, built a level at a time, against one path after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.flame.tree import Tree

PATHS = st.lists(st.lists(st.integers(0, 3), max_size=3).map(tuple), min_size=1, max_size=6)
ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(-1, 2)), max_size=9)


def padded(paths: list[tuple[int, ...]], first: int) -> np.ndarray:
    width = max(map(len, paths))
    return np.array([[*(first + i for i in p), *[-1] * (width - len(p))] for p in paths], np.int64).reshape(
        len(paths), width
    )


@settings(derandomize=True, max_examples=60)
@given(PATHS, PATHS, ROWS)
def test_every_row_ends_at_its_path_and_paths_are_one_node_each(
    outer: list[tuple[int, ...]], inner: list[tuple[int, ...]], rows: list[tuple[int, int, int]]
) -> None:
    """A row walks down one path (labels from 0), then another (from 10), then to a leaf (from 20) or stays."""
    tree = Tree()
    one = np.array([a % len(outer) for a, _, _ in rows], np.int64)
    two = np.array([b % len(inner) for _, b, _ in rows], np.int64)
    leaf = np.array([20 + c if c >= 0 else -1 for _, _, c in rows], np.int64)
    at = tree.walk(np.zeros(len(rows), np.int64), one, padded(outer, 0))
    at = tree.walk(at, two, padded(inner, 10))
    at = tree.step(at, leaf)
    wanted = [
        (*outer[a % len(outer)], *(10 + i for i in inner[b % len(inner)]), *([20 + c] if c >= 0 else []))
        for a, b, c in rows
    ]

    def path(node: int) -> tuple[int, ...]:
        return (*path(int(tree.parent[node])), int(tree.label[node])) if node else ()

    assert [path(node) for node in at.tolist()] == wanted
    every = {path_[:depth] for path_ in wanted for depth in range(len(path_) + 1)} | {()}
    assert sorted(map(path, range(len(tree)))) == sorted(every)
    assert tree.depth.tolist() == [len(path(node)) for node in range(len(tree))]
    assert (tree.parent[1:] < np.arange(1, len(tree))).all()
    own = np.zeros((len(tree), 1), np.int64)
    np.add.at(own, at, 1)
    assert tree.totals(own)[:, 0].tolist() == [
        sum(one[: len(path(node))] == path(node) for one in wanted) for node in range(len(tree))
    ]
