"""A tree of labeled nodes built from columns: all rows step down together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]


class Tree:
    """Nodes in order of creation: a parent always comes before its children; node 0 is the root.

    Attributes:
        parent: Parent of each node, -1 for the root.
        label: Index of a label that the caller numbers, -1 for the root.
        depth: 0 for the root.
    """

    def __init__(self) -> None:
        self.parent: Column = np.full(1, -1, np.int64)
        self.label: Column = np.full(1, -1, np.int64)
        self.depth: Column = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self.parent)

    def step(self, nodes: Column, labels: Column) -> Column:
        """The child of each node with a label, created if missing; label -1 stays at the node.

        One call must not ask for children that an earlier call made. Callers therefore make one call per depth for each kind of
        label, and labels of different kinds have different numbers.
        """
        moving = np.flatnonzero(labels >= 0)
        if not len(moving):
            return nodes
        width = int(labels.max()) + 1
        keys, back = np.unique(nodes[moving] * width + labels[moving], return_inverse=True)
        first = len(self)
        parent, label = keys // width, keys % width
        self.parent = np.append(self.parent, parent)
        self.label = np.append(self.label, label)
        self.depth = np.append(self.depth, self.depth[parent] + 1)
        out: Column = nodes.copy()
        out[moving] = first + back
        return out

    def walk(self, nodes: Column, ids: Column, paths: Column) -> Column:
        """Walk row `ids[i]` of `paths` (labels, -1 past the end) down from `nodes[i]`, once per distinct pair."""
        if not paths.shape[1]:
            return nodes
        keys, back = np.unique(nodes * len(paths) + ids, return_inverse=True)
        at, path = keys // len(paths), paths[keys % len(paths)]
        for level in range(paths.shape[1]):
            at = self.step(at, path[:, level])
        out: Column = at[back]
        return out

    def totals(self, own: Column) -> Column:
        """Weight of each node with all its descendants, from the nodes' own weights (one column per measure)."""
        out: Column = own.copy()
        for depth in range(int(self.depth.max()), 0, -1):
            nodes = np.flatnonzero(self.depth == depth)
            np.add.at(out, self.parent[nodes], out[nodes])
        return out
