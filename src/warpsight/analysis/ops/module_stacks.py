"""Modules found in Python stacks: a `forward` called by torch.nn.Module.

A stack has classes and the lines that call them, not instances: modules called by the same line of a loop are one node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.ops.module_tree import PREFIX, Module, ModuleTree, named

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_CALLER = re.compile(r"(?:^|[/\\])torch[/\\]nn[/\\]modules[/\\]module\.py$")
_LOCALS = "<locals>."


@dataclass(frozen=True)
class StackModules:
    """The tree, and the innermost node of each stack by id (-1 none)."""

    tree: ModuleTree
    node: Column

    def of(self, stacks: Column) -> Column:
        """The nodes of stacks."""
        inside = (stacks > 0) & (stacks < len(self.node))
        found: Column = np.where(inside, self.node[np.where(inside, stacks, 0)], -1)
        return found


def load(trace: StoredTrace) -> StackModules | None:
    """The modules in the trace's stacks, or None."""
    rows = trace.sql(
        """SELECT s.id, coalesce(s.parent, 0), f.id, f.kind, f.function, coalesce(f.file, ''), coalesce(f.line, 0)
        FROM stack s JOIN frame f ON s.frame = f.id ORDER BY s.id"""
    ).fetchall()
    if not rows:
        return None
    tree = ModuleTree()
    most = max(row[0] for row in rows)
    node = np.full(most + 1, -1, np.int64)
    frames: dict[
        int, tuple[bool, str]
    ] = {}  # by stack: whether torch.nn.Module runs, and the last line outside of it
    numbers: dict[tuple[int, str, str, int | None], int] = {}
    for stack, parent, _, kind, function, file, line in rows:  # a caller's stack has a smaller id
        in_caller, site = frames.get(parent, (False, ""))
        above = int(node[parent]) if parent else -1
        is_caller = kind == "python" and _CALLER.search(file) is not None
        module = _module(kind, function, in_caller and not is_caller)
        if module is not None:
            key = (above, site, module.kind, module.number)
            if key not in numbers:
                numbers[key] = tree.node(above, key[1:], _with_number(tree, above, module))
            above = numbers[key]
        node[stack] = above
        frames[stack] = is_caller, site if is_caller else f"{file}:{line}"
    return StackModules(tree, node) if len(tree) else None


def _module(kind: str, function: str, called: bool) -> Module | None:
    """The module whose forward a frame is."""
    if kind == "marker" and function.startswith(PREFIX):
        return named(function)
    own, dot, method = function.rpartition(".")
    if kind != "python" or not called or method != "forward" or not dot:
        return None
    return Module("", own.rpartition(_LOCALS)[2], None)


def _with_number(tree: ModuleTree, above: int, module: Module) -> Module:
    """A module with its index among the modules of its class below the same node, when the stack has no instance."""
    if module.name:
        return module
    number = sum(
        1
        for parent, one in zip(tree.parent, tree.module, strict=True)
        if parent == above and one.kind == module.kind
    )
    return Module(f"{module.kind}_{number}", module.kind, number)
