"""The stack that created the node of a graph a kernel ran from, against walking its clones one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.capture.rows.graphs import Graphs

#: Reported in any order and more than once: node, the node it was cloned from, its stack.
REPORTS = st.lists(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12), st.sampled_from((0, 0, 5, 6, 7))), max_size=8),
    max_size=4,
)


def walked(reports: dict[int, tuple[int, int]], node: int) -> int:
    for _ in range(20):
        original, stack = reports.get(node, (0, 0))
        if stack:
            return stack
        node = original
    return 0


@settings(derandomize=True, max_examples=60)
@given(REPORTS, st.sampled_from((1, 1 << 33)), st.booleans())
def test_a_clone_has_the_stack_of_the_nearest_node_that_has_one(
    reports: list[list[tuple[int, int, int]]], spacing: int, asked_between: bool
) -> None:
    """Ids that lie close together and ids that are addresses are looked up in different ways."""
    graphs, known = Graphs(), {}
    asked = np.arange(14, dtype=np.uint64) * np.uint64(spacing)
    for rows in reports:
        if rows:
            node, original, stack = (np.array(column) for column in zip(*rows, strict=True))
            graphs.add(
                node.astype(np.uint64) * np.uint64(spacing),
                original.astype(np.uint64) * np.uint64(spacing),
                stack.astype(np.int32),
            )
        known |= {node: (original, stack) for node, original, stack in rows}
        if not asked_between:
            continue
        found = graphs.stacks(asked)  # what is known so far stays known, however often it is asked for
        assert (found[[walked(known, node) > 0 for node in range(14)]] > 0).all()
    if not asked_between:
        assert graphs.stacks(asked).tolist() == [walked(known, node) for node in range(14)]


@pytest.mark.parametrize("late", [True, False])
def test_a_node_whose_original_is_reported_later_gets_its_stack_then(late: bool) -> None:
    graphs = Graphs()
    nodes = np.array([1 << 40, 3], np.uint64)
    clone = nodes[:1], nodes[1:], np.zeros(1, np.int32)
    original = nodes[1:], np.zeros(1, np.uint64), np.array([9], np.int32)
    for rows in (clone, original) if late else (original, clone):
        graphs.add(*rows)
        graphs.stacks(nodes)
    assert graphs.stacks(nodes).tolist() == [9, 9]


def test_a_node_that_is_reported_again_has_its_newest_stack() -> None:
    graphs = Graphs()
    for stack in (4, 5):
        graphs.add(np.array([7], np.uint64), np.zeros(1, np.uint64), np.array([stack], np.int32))
        assert graphs.stacks(np.array([7, 8, 6, 0], np.uint64)).tolist() == [stack, 0, 0, 0]
