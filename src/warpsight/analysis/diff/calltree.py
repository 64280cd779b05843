"""The call trees of all runs as one tree, and the places where the sides call different things.

Runs are laid over each other: nodes with the same frames, ranges and kernels above them are one node. Nodes that exist on one
side only are matched below the same parent: kernels by role and order (a library took another kernel for the same product),
frames and ranges by what they launch (a function was renamed or moved). A match is one node with two names, and so are nodes
below it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.diff.roles import role
from warpsight.analysis.diff.runs import ReducedRun
from warpsight.analysis.flame.tree import Tree

Column = npt.NDArray[Any]
Label = tuple[str, str]
#: Frames match if the work they launch overlaps by this share.
_ALIKE = 0.5
#: Maximum number of children per parent and side that are matched, since matching frames compares every pair.
_MOST = 500
_LEAVES = ("kernel", "copy")


@dataclass(frozen=True)
class CallTree:
    """Nodes in order of depth, parents first; node 0 is the root.

    Attributes:
        parent: Parent of each node, -1 for the root.
        kind: Kind of each node: python, native, marker, range, op, kernel, copy.
        before: Its text on the first side, "" where only the second has it.
        after: Its text on the second side, "" where only the first has it.
        own: Node of each cell, one array per run.
    """

    parent: Column
    kind: list[str]
    before: list[str]
    after: list[str]
    own: list[Column]

    def __len__(self) -> int:
        return len(self.parent)

    def totals(self, values: Sequence[Column]) -> Column:
        """The sum of each node and its descendants, from one value per cell and run: nodes × runs."""
        out = np.zeros((len(self), len(values)))
        for run, (node, value) in enumerate(zip(self.own, values, strict=True)):
            out[:, run] = np.bincount(node, value, minlength=len(self))
        _upward(self.parent, out, np.add)
        return out


def build(runs: Sequence[ReducedRun], counts: Sequence[Column], after: Column) -> CallTree:
    """The common tree of some runs.

    Args:
        runs: The runs of both sides.
        counts: For each run the work of each cell; cells without work are on neither side.
        after: Which runs belong to the second side.
    """
    numbers: dict[Label, int] = {("root", "all"): 0}
    paths = [_renumbered(run, numbers) for run in runs]
    tree, nodes = _laid_over(paths)
    labels = list(numbers)
    there = np.zeros((len(tree), 2), bool)
    for node, count, second in zip(nodes, counts, after.tolist(), strict=True):
        there[node[count > 0], int(second)] = True
    _upward(tree.parent, there, np.logical_or)
    position = np.full(len(tree), np.inf)
    for run, node in zip(runs, nodes, strict=True):
        np.minimum.at(position, node, run.position)
    _upward(tree.parent, position, np.minimum)
    return _Matching(tree, labels, there, position).made(nodes)


def _upward(parent: Column, values: Column, joined: np.ufunc) -> None:
    """Add the values of every node to its parent's, deepest nodes first; parents come before their children."""
    levels, level = [], np.flatnonzero(parent == 0)
    while len(level):
        levels.append(level)
        above = np.zeros(len(parent), bool)
        above[level] = True
        level = np.flatnonzero(above[np.maximum(parent, 0)] & (parent > 0))
    for level in reversed(levels):
        joined.at(values, parent[level], values[level])


def _renumbered(run: ReducedRun, numbers: dict[Label, int]) -> Column:
    """The paths of a run, renumbered with numbers that all runs share."""
    onto = np.array([*(numbers.setdefault(label, len(numbers)) for label in run.labels), -1], np.int64)
    return onto[run.paths]


def _laid_over(paths: Sequence[Column]) -> tuple[Tree, list[Column]]:
    """One tree of all paths, and the node where each path ends, per run."""
    width = max((one.shape[1] for one in paths), default=0)
    stacked = np.concatenate([_packed(one, width) for one in paths]) if paths else np.zeros((0, 0), np.int64)
    tree = Tree()
    at = np.zeros(len(stacked), np.int64)
    for level in range(width):
        at = tree.step(at, stacked[:, level])
    return tree, np.split(at, np.cumsum([len(one) for one in paths])[:-1])


def _packed(paths: Column, width: int) -> Column:
    """Paths without gaps: labels to the left, followed by -1."""
    out = np.full((len(paths), width), -1, np.int64)
    rows, columns = np.nonzero(paths >= 0)
    first = np.searchsorted(rows, np.arange(len(paths)))
    out[rows, np.arange(len(rows)) - first[rows]] = paths[rows, columns]
    return out


class _Matching:
    """Joins nodes that exist on only one side, from the root down."""

    def __init__(self, tree: Tree, labels: list[Label], there: Column, position: Column) -> None:
        self.tree, self.labels, self.there, self.position = tree, labels, there, position
        self.children: list[list[int]] = [[] for _ in range(len(tree))]
        for node, parent in enumerate(tree.parent.tolist()[1:], 1):
            self.children[parent].append(node)
        self.launched: dict[int, Counter[str]] = {}

    def made(self, nodes: Sequence[Column]) -> CallTree:
        """The tree with matched nodes joined."""
        onto = np.zeros(len(self.tree), np.int64)
        parents, kinds, before, after = [-1], ["root"], ["all"], ["all"]
        waiting = deque([(0, [0])])
        while waiting:
            place, members = waiting.popleft()
            for group in self._below(members):
                new = len(parents)
                for member in group:
                    onto[member] = new
                names = [self._label(member)[1] for member in group]
                sides = self.there[group]
                parents.append(place)
                kinds.append(self._label(group[0])[0])
                before.append(next((n for n, (one, _) in zip(names, sides.tolist(), strict=True) if one), ""))
                after.append(next((n for n, (_, two) in zip(names, sides.tolist(), strict=True) if two), ""))
                waiting.append((new, group))
        return CallTree(np.array(parents, np.int64), kinds, before, after, [onto[node] for node in nodes])

    def _label(self, node: int) -> Label:
        return self.labels[int(self.tree.label[node])]

    def _below(self, members: list[int]) -> list[list[int]]:
        """The children of a node (of two, if it is a match), grouped so that each group is one node of the joined tree."""
        same: dict[Label, list[int]] = {}
        for member in members:
            for child in self.children[member]:
                same.setdefault(self._label(child), []).append(child)
        groups = list(same.values())
        sides: list[list[bool]] = [np.any(self.there[group], axis=0).tolist() for group in groups]
        gone = [g for g, side in zip(groups, sides, strict=True) if side[0] and not side[1]]
        new = [g for g, side in zip(groups, sides, strict=True) if side[1] and not side[0]]
        matched = [*self._by_role(gone, new), *self._by_launches(gone, new)]
        joined = {id(part) for pair in matched for part in pair}
        return [*(g for g in groups if id(g) not in joined), *(one + two for one, two in matched)]

    def _in_order(self, groups: list[list[int]], leaves: bool) -> list[list[int]]:
        chosen = [g for g in groups if (self._label(g[0])[0] in _LEAVES) == leaves]
        return sorted(chosen, key=lambda g: float(self.position[g].min()))[:_MOST]

    def _by_role(self, gone: list[list[int]], new: list[list[int]]) -> list[tuple[list[int], list[int]]]:
        """Match kernels of equal roles in the same order."""
        one, two = self._in_order(gone, True), self._in_order(new, True)
        roles = [[role(self._label(g[0])[1]) for g in side] for side in (one, two)]
        found = SequenceMatcher(None, roles[0], roles[1], autojunk=False).get_matching_blocks()
        return [(one[m.a + i], two[m.b + i]) for m in found for i in range(m.size)]

    def _by_launches(self, gone: list[list[int]], new: list[list[int]]) -> list[tuple[list[int], list[int]]]:
        """Match frames of one kind that launch similar work, the most similar first."""
        one, two = self._in_order(gone, False), self._in_order(new, False)
        scored: list[tuple[float, float, int, list[int], list[int]]] = []
        for a in one:
            for b in two:
                if self._label(a[0])[0] == self._label(b[0])[0]:
                    alike = self._alike(a, b)
                    if alike >= _ALIKE:
                        apart = abs(float(self.position[a].min() - self.position[b].min()))
                        scored.append((-alike, apart if apart == apart else 0.0, len(scored), a, b))
        out, used = [], set[int]()
        for _, _, _, a, b in sorted(scored, key=lambda s: s[:3]):
            if a[0] not in used and b[0] not in used:
                used |= {a[0], b[0]}
                out.append((a, b))
        return out

    def _alike(self, one: list[int], two: list[int]) -> float:
        """The share of leaves that two subtrees have in common, by kernel or, if that is higher, by role."""
        a, b = (sum((self._leaves(node) for node in side), Counter[str]()) for side in (one, two))
        return max(_overlap(a, b), _overlap(_by_roles(a), _by_roles(b)))

    def _leaves(self, node: int) -> Counter[str]:
        if node not in self.launched:
            kind, text = self._label(node)
            found = Counter({text: 1}) if kind in _LEAVES else Counter[str]()
            for child in self.children[node]:
                found += self._leaves(child)
            self.launched[node] = found
        return self.launched[node]


def _by_roles(leaves: Counter[str]) -> Counter[str]:
    out = Counter[str]()
    for text, count in leaves.items():
        out[role(text)] += count
    return out


def _overlap(one: Counter[str], two: Counter[str]) -> float:
    most = max(one.total(), two.total())
    return (one & two).total() / most if most else 0.0
