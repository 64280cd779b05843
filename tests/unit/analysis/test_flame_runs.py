"""A flame graph's weights in the order of time."""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.analysis.flame.runs import in_order


def test_neighbors_of_one_node_are_one_run() -> None:
    start = np.array([50, 10, 20, 40, 30])
    node = np.array([1, 7, 7, 1, 3])
    runs = in_order(node, start, np.array([5, 1, 2, 4, 0]), [], 10)
    assert runs.node.tolist() == [7, 1]  # what weighs nothing is left out
    assert runs.weight.tolist() == [3, 9] and runs.count.tolist() == [2, 2]
    assert runs.start.tolist() == [0, 30]


def test_lanes_follow_each_other() -> None:
    runs = in_order(
        np.array([1, 2, 1, 2]), np.array([1, 2, 3, 4]), np.ones(4, int), [np.array([0, 1, 0, 1])], 0
    )
    assert runs.node.tolist() == [1, 2] and runs.start.tolist() == [1, 2]


@pytest.mark.parametrize("nodes", [2, 3, 40, 300])
def test_many_runs_become_few_and_keep_every_sum(nodes: int) -> None:
    rng = np.random.default_rng(nodes)
    node, weight = rng.integers(0, nodes, 20_000), rng.integers(0, 1_000, 20_000)
    runs = in_order(node, np.arange(20_000) * 10, weight, [], 0, most=200)
    assert len(runs) <= max(200, nodes)
    assert runs.weight.sum() == weight.sum() and runs.count.sum() == (weight > 0).sum()
    for one in range(nodes):
        assert runs.weight[runs.node == one].sum() == weight[node == one].sum()
    if nodes <= 3:  # the picture still shows when: a run's begin is near where it stands
        at = (np.cumsum(runs.weight) - runs.weight) / runs.weight.sum() * 200_000
        assert np.abs(at - runs.start).max() < 200_000 * 0.1


def test_no_rows_are_no_runs() -> None:
    none = np.zeros(0, int)
    assert len(in_order(none, none, none, [], 0)) == 0
