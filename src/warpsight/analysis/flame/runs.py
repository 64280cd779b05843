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

        node    a b a b c      two stretches:   a b | a b c   (weights 1 each, four runs wanted)
    """
    order = np.lexsort((start, *lanes[::-1]))
    order = order[weight[order] > 0]
    node, start, weight = node[order].astype(np.int64), start[order], weight[order].astype(np.int64)
    run = np.cumsum(np.append(0, node[1:] != node[:-1])) if len(node) else np.zeros(0, np.int64)
    stretches = most
    while stretches and len(node) and int(run.max()) >= most:
        before = np.cumsum(weight) - weight
        stretch = (before / max(int(weight.sum()), 1) * stretches).astype(np.int64)
        _, first, code = np.unique(
            stretch * (int(node.max()) + 1) + node, return_index=True, return_inverse=True
        )
        rank = np.empty(len(first), np.int64)  # runs stand where their first row does
        rank[np.argsort(first)] = np.arange(len(first))
        run = rank[code.reshape(-1)]
        stretches = stretches * 2 // 3
    runs = int(run.max(initial=-1)) + 1
    sums = np.zeros(runs, np.int64)
    np.add.at(sums, run, weight)
    first = np.zeros(runs, np.int64)
    first[run[::-1]] = np.arange(len(run))[::-1]
    return Runs(node[first], sums, np.bincount(run, minlength=runs), start[first] - origin)
