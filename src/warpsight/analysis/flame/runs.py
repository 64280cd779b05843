"""The rows of a flame graph in time order: stretches in which all weight is on one path through the tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model.work import blocks, summed

Column = NDArray[Any]
#: Maximum runs of a graph: more than a picture has columns, few enough for a page.
MOST = 5_000
#: Maximum stretches × nodes for a lookup table of that size.
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
    """Rows by start, with neighbors of one node merged, one lane (thread, stream) after another.

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
    if not len(node):
        return Runs(node.astype(np.int64), weight.astype(np.int64), weight.astype(np.int64), start)
    stretches = min(most, _MOST_KEYS // (int(node.max()) + 1) + 1)
    fresh = np.append(True, node[1:] != node[:-1])
    if np.count_nonzero(fresh) > most and stretches:
        runs = _cut(node, start, weight, fresh, stretches)
        stretches = stretches * 2 // 3
    else:
        first = np.flatnonzero(fresh)
        sums = np.add.reduceat(weight, first, dtype=np.int64)
        runs = Runs(node[first].astype(np.int64), sums, np.diff(first, append=len(node)), start[first])
    runs = replace(runs, start=runs.start - origin)
    while len(runs) > most and stretches:
        before = np.cumsum(runs.weight) - runs.weight
        stretch = (before / runs.weight.sum() * stretches).astype(np.int64)
        runs = _joined(runs, stretch * (int(runs.node.max()) + 1) + runs.node)
        stretches = stretches * 2 // 3
    return runs


def _cut(node: Column, start: Column, weight: Column, fresh: Column, stretches: int) -> Runs:
    """The rows of each node in each of some stretches of equal weight, as runs, in the order of their first rows.

    Neighbors of one node, all but the first of which are not `fresh`, stay together in the stretch in which the first one is.
    """
    rows, width = len(node), int(node.max()) + 1
    total, before, stretch = weight.sum(), 0, 0
    sums, counts = np.zeros((2, (stretches + 1) * width), np.int64)
    first = np.full(len(sums), rows, np.int32 if rows < 1 << 31 else np.int64)
    for block in blocks(rows):
        own, each = node[block], weight[block]
        ends = np.cumsum(each, dtype=np.int64) + before
        part = ((ends - each) / total * stretches).astype(np.int64)
        part[~fresh[block]] = 0
        part[0] = max(part[0], stretch)
        np.maximum.accumulate(part, out=part)
        low = int(part[0]) * width
        before, stretch = int(ends[-1]), int(part[-1])
        part *= width
        part += own
        part -= low
        groups = int(part.max()) + 1
        here = slice(low, low + groups)
        sums[here] += summed(part, each, groups)
        counts[here] += np.bincount(part, minlength=groups)
        place = np.full(groups, rows, first.dtype)
        place[part[::-1]] = np.arange(block.start + len(own) - 1, block.start - 1, -1)
        np.minimum(first[here], place, out=first[here])
    held = np.flatnonzero(counts)
    held = held[np.argsort(first[held])]
    return Runs(held % width, sums[held], counts[held], start[first[held]])


def _joined(runs: Runs, key: Column) -> Runs:
    """Merge runs with equal keys into one, at the place of the first."""
    seen = np.full(int(key.max()) + 1, len(key), np.int32 if len(key) < 1 << 31 else np.int64)
    for block in reversed(blocks(len(key))):
        own = key[block]
        seen[own[::-1]] = np.arange(block.start + len(own) - 1, block.start - 1, -1, dtype=seen.dtype)
    stands = np.zeros(len(key), bool)
    stands[seen[seen < len(key)]] = True
    first = np.flatnonzero(stands)  # as a sort, in a tenth of its time
    weight, count = summed(key, runs.weight, len(seen)), summed(key, runs.count, len(seen))
    held = key[first]
    return Runs(runs.node[first], weight[held], count[held], runs.start[first])
