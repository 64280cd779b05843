"""Modules from ranges: torch's Python functions (`nn.Module: Linear_3`), or NVTX ranges named like module paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.ops.module_tree import PREFIX, Module, ModuleTree, named
from warpsight.analysis.ranges.open import Ranges, levels, selected
from warpsight.model.work import numbered

if TYPE_CHECKING:
    from warpsight.model import StoredTrace
    from warpsight.model.selection import Rows

Column = NDArray[Any]
_PATH = re.compile(r"^[A-Za-z_]\w*(?:\.\w+)+$")
#: vLLM's layer-wise ranges are dictionaries with the module's path.
_MODULE_OF_DICTIONARY = re.compile(r"""^\{.*['"]Module['"]\s*:\s*['"]([\w.]+)['"]""", re.DOTALL)
_OPEN = np.iinfo(np.int64).max


@dataclass(frozen=True)
class RangeModules:
    """Ranges of modules, their tree, and the node of each range."""

    ranges: Ranges
    tree: ModuleTree
    node: Column

    def at(self, process: Column, thread: Column, moment: Column) -> Column:
        """The node running on each thread at each moment, -1 if none."""
        place = self.ranges.at(process, thread, moment)
        found: Column = np.where(place >= 0, self.node[np.maximum(place, 0)], -1)
        return found


def load(trace: StoredTrace) -> RangeModules | None:
    """The modules of the trace's ranges, or None."""
    texts = dict(
        trace.sql(
            "SELECT id, name FROM name WHERE id IN (SELECT DISTINCT name_id FROM marker_ids)"
        ).fetchall()
    )
    modules = {i: named(text) for i, text in texts.items() if text.startswith(PREFIX)}
    if not modules:
        paths = {
            i: found[1] if (found := _MODULE_OF_DICTIONARY.match(text)) else text for i, text in texts.items()
        }
        chosen = module_paths(set(paths.values()))
        modules = {i: named(path) for i, path in paths.items() if path in chosen}
    if not modules:
        return None
    # Ranges of the device repeat those of the host.
    host = "NOT coalesce(category, '') LIKE 'gpu_%' AND kind <> 'instant'"
    listed = ", ".join(map(str, modules))
    ranges = selected(trace, "marker", f"{host} AND name_id IN ({listed})", "kind = 'start/end'")
    if not len(ranges):
        return None
    tree, node = _nodes(ranges, modules, {})
    usual = _usual(tree, np.bincount(node, minlength=len(tree)))
    if usual:
        tree, node = _nodes(ranges, modules, usual)
    return RangeModules(ranges, tree, node)


def module_paths(names: set[str]) -> set[str]:
    """Which names are module paths: dotted, and with a numeric part, or one a prefix of another.

    A dotted name alone may be anything (`train.step`); `model.layers.0.mlp`, or `encoder` beside `encoder.attention`, is a tree.
    """
    dotted = {name for name in names if _PATH.match(name)}
    beginnings: dict[str, int] = {}
    for name in dotted:
        parts = name.split(".")
        for end in range(1, len(parts)):
            beginning = ".".join(parts[:end])
            beginnings[beginning] = beginnings.get(beginning, 0) + 1
    numbered = {name for name in dotted if any(part.isdigit() for part in name.split("."))}
    around = {name for name in names if name in beginnings}
    inside = {
        name for name in dotted if any(name.startswith(f"{one}.") for one in _outer(name) if one in around)
    }
    return numbered | around | inside


def _outer(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


#: (process, name) of a module → its ancestors, outermost first.
_Paths = dict[tuple[int, int], list[tuple[int, int]]]


def _nodes(ranges: Ranges, modules: dict[int, Module], usual: _Paths) -> tuple[ModuleTree, Column]:
    """The tree, and the node of each range, outermost first; outermost ranges are put below their `usual` path."""
    tree = ModuleTree()
    depth = levels(ranges.parent)
    node = np.full(len(ranges), -1, np.int64)
    for level in [np.flatnonzero(ranges.parent < 0), *reversed(depth)]:
        above = np.where(ranges.parent[level] >= 0, node[np.maximum(ranges.parent[level], 0)], -1)
        which, columns = numbered([above, ranges.process[level], ranges.name_id[level]])
        numbers = []
        for around, process, name in zip(*(column.tolist() for column in columns), strict=True):
            if around < 0:
                for outer in usual.get((process, name), ()):
                    around = tree.node(around, outer, modules[outer[1]])
            numbers.append(tree.node(around, (process, name), modules[name]))
        node[level] = np.array(numbers, np.int64)[which]
    return tree, node


def _usual(tree: ModuleTree, runs: Column) -> _Paths:
    """The most frequent parent of instances that also run as outermost.

    A checkpoint runs a module again on an autograd thread, where nothing is around it: it is still the same part of the model.
    """
    inside: dict[tuple[int, int], list[int]] = {}
    for node in range(len(tree)):
        if tree.parent[node] >= 0:
            inside.setdefault(tree.keys[node], []).append(node)
    alone = {tree.keys[node] for node in range(len(tree)) if tree.parent[node] < 0} & set(inside)
    out: _Paths = {}
    for key in alone:
        paths = {node: [tree.keys[one] for one in tree.path(node)[:0:-1]] for node in inside[key]}
        whole = [node for node, path in paths.items() if path[0] not in alone]
        if whole:
            out[key] = paths[max(whole, key=lambda node: int(runs[node]))]
    return out


def count(found: RangeModules, rows: Rows) -> None:
    """Count the runs of each module, and its time on the host, in the selected time and processes."""
    ranges = found.ranges
    chosen = np.ones(len(ranges), bool)
    if rows.begin is not None:
        chosen &= ranges.start >= rows.begin
    if rows.end is not None:
        chosen &= ranges.start < rows.end
    if rows.processes:
        chosen &= np.isin(ranges.process, list(rows.processes))
    node = found.node[chosen]
    length = np.where(ranges.end < _OPEN, ranges.end - ranges.start, 0)[chosen]
    found.tree.calls = np.bincount(node, minlength=len(found.tree)).tolist()
    found.tree.host = np.bincount(node, length.astype(np.float64), len(found.tree)).astype(np.int64).tolist()
