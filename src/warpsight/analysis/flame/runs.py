"""The rows of a flame graph in the order of time: stretches in which one way down the tree has the weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
#: Runs of a graph: more than a picture has columns, few enough for a page.
MOST = 5_000
#: Bound of stretches × nodes: a table of so many numbers is looked up.
_MOST_KEYS = 10_000_000


@dataclass(frozen=True)
class Runs:
    """Columns of equal length, in the order of time.

    Attributes:
        node: The node whose own weight this is a part of.
        weight: How much of it.
        count: Rows.
        start: When the first of these rows began, ns from the trace's origin.
    """

    node: Column
    weight: Column
    count: Column
    start: Column

    def __len__(self) -> int:
        return len(self.node)


def in_order(
    node: Column, start: Column, weight: Column, lanes: Sequence[Column], origin: int, most: int = MOST
) -> Runs:
    """Rows by their begin, neighbors of one node as one run; lanes (a thread, a stream) one after the other.

    Where that leaves more than `most`, time is cut into stretches of equal weight, and within one of them a node's rows are
    one run:

        node    a b a a b c      two stretches:   a b a | a b c      runs:   a b | a b c
    """
    if lanes or bool((start[1:] < start[:-1]).any()):
        order = np.lexsort((start, *lanes[::-1])) if lanes else np.argsort(start, kind="stable")
        node, start, weight = node[order], start[order], weight[order]
    real = weight > 0
    if not real.all():
        node, start, weight = node[real], start[real], weight[real]
    node, weight = node.astype(np.int64), weight.astype(np.int64, copy=False)
    first = np.flatnonzero(np.append(True, node[1:] != node[:-1])[: len(node)])
    if not len(first):
        return Runs(node, weight, weight, start)
    count = np.diff(np.append(first, len(node)))
    runs = Runs(node[first], np.add.reduceat(weight, first), count, start[first] - origin)
    stretches = min(most, _MOST_KEYS // (int(node.max()) + 1) + 1)
    while len(runs) > most and stretches:
        before = np.cumsum(runs.weight) - runs.weight
        stretch = (before / runs.weight.sum() * stretches).astype(np.int64)
        runs = _joined(runs, stretch * (int(runs.node.max()) + 1) + runs.node)
        stretches = stretches * 2 // 3
    return runs


def _joined(runs: Runs, key: Column) -> Runs:
    """Runs with equal keys as one, which stands where the first of them does."""
    seen = np.full(int(key.max()) + 1, -1, np.int64)
    seen[key[::-1]] = np.arange(len(key))[::-1]
    first = np.sort(seen[seen >= 0])
    seen[key[first]] = np.arange(len(first))
    place = seen[key]
    weight, count = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    np.add.at(weight, place, runs.weight)
    np.add.at(count, place, runs.count)
    return Runs(runs.node[first], weight, count, runs.start[first])
