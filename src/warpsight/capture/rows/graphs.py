"""CUDA graphs of one process: the host stack that created the node each kernel ran from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: An executable graph is instantiated from a graph that may itself be a clone; deeper chains are not made in
#: practice.
_MAXIMUM_CHAIN = 16


class Graphs:
    """Stacks by node id, following clones back to the node that was captured or added."""

    def __init__(self) -> None:
        self._rows: list[tuple[Array, Array, Array]] = []
        self._node = np.zeros(0, np.uint64)
        self._stack = np.zeros(0, np.int32)

    def add(self, node: Array, original: Array, stack: Array) -> None:
        """Add nodes, the nodes they were cloned from (0: none) and their stacks in the trace (0: none)."""
        self._rows.append((node.copy(), original.copy(), stack))

    def stacks(self, nodes: Array) -> Array:
        """The stack of each node's creation, 0 if unknown."""
        if self._rows:
            self._resolve()
        if not len(self._node):
            return np.zeros(len(nodes), np.int32)
        at = self._find(nodes)
        return np.where(at >= 0, self._stack[at], np.int32(0))

    def _find(self, nodes: Array) -> Array:
        """Index of each node in the sorted nodes, -1 if it is missing."""
        low = int(self._node[0])
        span = int(self._node[-1]) - low + 1
        if span <= 4 * len(self._node) + 65536:
            table = np.full(span, -1, np.int32)
            table[(self._node - np.uint64(low)).astype(np.int64)] = np.arange(len(self._node), dtype=np.int32)
            offset = nodes.astype(np.int64) - low
            inside = (offset >= 0) & (offset < span)
            return np.where(inside, table[np.where(inside, offset, 0)], -1)
        at = np.minimum(np.searchsorted(self._node, nodes), len(self._node) - 1)
        return np.where(self._node[at] == nodes, at, -1)

    def _resolve(self) -> None:
        node, original, stack = (np.concatenate(column) for column in zip(*self._rows, strict=True))
        self._rows = [(node, original, stack)]
        order = np.argsort(node, kind="stable")
        node, original, stack = node[order], original[order], stack[order]
        last = np.r_[node[1:] != node[:-1], True]  # a node that was reported again: the newest row counts
        self._node, original, stack = node[last], original[last], stack[last]
        parent = self._find(original)
        for _ in range(_MAXIMUM_CHAIN):
            wanting = (stack == 0) & (parent >= 0)
            if not wanting.any():
                break
            stack = np.where(wanting, stack[parent], stack)
            parent = np.where(wanting & (stack == 0), parent[parent], parent)
        self._stack = stack
        self._rows = [(self._node, original, stack)]
