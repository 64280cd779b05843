"""Modules as a tree, and which of them is running: the common part of the three sources of modules.

A node is a module below the module that called it. The sources give each piece of work a node; the tree adds up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

Column = NDArray[Any]
#: The name that torch's profiler gives to a module's range, and its number among the instances of its class.
PREFIX = "nn.Module: "
_INSTANCE = re.compile(r"^(.*?)(?:_(\d+))?$", re.DOTALL)
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


@dataclass(frozen=True)
class Module:
    """A node: its name, its class, and its number among instances of the class, if known."""

    name: str
    kind: str
    number: int | None


def named(text: str) -> Module:
    """The module that a range names: `nn.Module: Linear_3`, or a path such as `model.layers.0.mlp`."""
    if text.startswith(PREFIX):
        found = _INSTANCE.match(text.removeprefix(PREFIX))
        assert found is not None
        number = found[2]
        return Module(text.removeprefix(PREFIX), found[1], None if number is None else int(number))
    return Module(text, _NUMBER.sub("*", text), None)


@dataclass
class ModuleTree:
    """Nodes in the order in which they were first seen; `parent` is -1 for the outermost.

    Attributes:
        parent: The enclosing node of each.
        module: What each is.
        calls: How often each ran, None when unknown.
        host: Host time of its runs, ns; None when unknown.
    """

    parent: list[int] = field(default_factory=list)
    module: list[Module] = field(default_factory=list)
    calls: list[int] | None = None
    host: list[int] | None = None
    #: What distinguishes each node from its siblings.
    keys: list[Any] = field(default_factory=list)
    _numbers: dict[Any, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.parent)

    def node(self, parent: int, key: object, module: Module) -> int:
        """The number of a child node, created if new; `key` distinguishes it from its siblings."""
        number = self._numbers.setdefault((parent, key), len(self.parent))
        if number == len(self.parent):
            self.parent.append(parent)
            self.module.append(module)
            self.keys.append(key)
        return number

    def ordered(self, weight: Column) -> tuple[list[int], list[int]]:
        """All nodes in preorder, heaviest first, and their depths in that order."""
        children: dict[int, list[int]] = {}
        for node in sorted(range(len(self)), key=lambda node: (-weight[node], node)):
            children.setdefault(self.parent[node], []).append(node)
        order, depth, waiting = [], [], [(node, 0) for node in reversed(children.get(-1, []))]
        while waiting:
            node, level = waiting.pop()
            order.append(node)
            depth.append(level)
            waiting += [(inner, level + 1) for inner in reversed(children.get(node, []))]
        return order, depth

    def path(self, node: int) -> list[int]:
        """A node and its ancestors, innermost first."""
        out = []
        while node >= 0:
            out.append(node)
            node = self.parent[node]
        return out

    def summed(self, own: Column) -> Column:
        """The sum of each node and its descendants: nodes come after their ancestors."""
        total: Column = own.copy()
        for node in range(len(self) - 1, -1, -1):
            if self.parent[node] >= 0:
                total[self.parent[node]] += total[node]
        return total
