"""The layout of a flame graph: the order of siblings, frames too small to show, boxes for a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from warpsight.analysis.flame.graph import FlameGraph

Column = NDArray[Any]


def preorder(graph: FlameGraph) -> Column:
    """Nodes in preorder, the heaviest child first, ties by label."""
    weight = graph.total.sum(axis=1)
    order = np.lexsort(
        (graph.label, -weight, graph.parent)
    )  # children of one parent are adjacent, heaviest first
    size = np.ones(len(graph), np.int64)
    for depth in range(int(graph.depth.max(initial=0)), 0, -1):
        nodes = np.flatnonzero(graph.depth == depth)
        np.add.at(size, graph.parent[nodes], size[nodes])
    # A node is behind its parent and everything below its elder siblings.
    siblings = order[1:]  # the root is first
    before = np.cumsum(size[siblings]) - size[siblings]
    parents = graph.parent[siblings]
    first = np.append(True, parents[1:] != parents[:-1]) if len(siblings) else np.zeros(0, bool)
    base = (
        before[np.maximum.accumulate(np.where(first, np.arange(len(siblings)), 0))]
        if len(siblings)
        else before
    )
    place = np.zeros(len(graph), np.int64)
    offset = np.zeros(len(graph), np.int64)
    offset[siblings] = before - base + 1
    for depth in range(1, int(graph.depth.max(initial=0)) + 1):
        nodes = np.flatnonzero(graph.depth == depth)
        place[nodes] = place[graph.parent[nodes]] + offset[nodes]
    out = np.empty(len(graph), np.int64)
    out[place] = np.arange(len(graph))
    return out


def pruned(graph: FlameGraph, most: int) -> tuple[FlameGraph, int]:
    """The heaviest nodes, at most `most`, and how many were dropped; a dropped node's weight becomes its parent's own.

    A node weighs no more than its parent, so the nodes that are kept form a tree.
    """
    if len(graph) <= most:
        return graph, 0
    weight = graph.total.sum(axis=1)
    least = np.partition(weight, len(graph) - most)[len(graph) - most]
    keep = weight > least
    keep[0] = True
    order = np.flatnonzero(keep)
    number = np.full(len(graph), -1, np.int64)
    number[order] = np.arange(len(order))
    parent = np.where(graph.parent[order] >= 0, number[graph.parent[order]], -1)
    total, count = graph.total[order], graph.count[order]
    own = total.copy()
    np.subtract.at(own, parent[1:], total[1:])
    used, label = np.unique(graph.label[order], return_inverse=True)
    runs = (
        None if graph.runs is None else replace(graph.runs, node=number[_kept(graph, keep, graph.runs.node)])
    )
    smaller = replace(
        graph, runs=runs, parent=parent, label=label, depth=graph.depth[order], own=own, total=total, count=count,
        labels=[graph.labels[i] for i in used.tolist()], kinds=[graph.kinds[i] for i in used.tolist()],
    )  # fmt: skip
    return smaller, len(graph) - len(order)


def _kept(graph: FlameGraph, keep: Column, nodes: Column) -> Column:
    """Each node, or its nearest kept ancestor."""
    out: Column = nodes.copy()
    while len(left := np.flatnonzero(~keep[out])):
        out[left] = graph.parent[out[left]]
    return out


@dataclass(frozen=True)
class _Box:
    """One drawn frame: left and width in pixels, row from the root, and its node."""

    left: float
    width: float
    row: int
    node: int


def boxes(graph: FlameGraph, width: float, least: float) -> list[_Box]:
    """Frames at least `least` pixels wide in a picture of `width` pixels; a differential picture shows the second graph."""
    column = graph.total[:, -1]
    whole = int(column[0])
    if not whole:
        return []
    scale = width / whole
    left = np.zeros(len(graph))
    order = preorder(graph)
    reached: Column = np.zeros(len(graph))  # where the next child of a node begins
    out: list[_Box] = []
    wide = column * scale >= least
    for node in order.tolist():
        if not wide[node]:
            continue
        parent = int(graph.parent[node])
        if parent >= 0:
            left[node] = reached[parent]
            reached[parent] += column[node]
        reached[node] = left[node]
        out.append(_Box(float(left[node] * scale), float(column[node] * scale), int(graph.depth[node]), node))
    return out
