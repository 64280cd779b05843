"""A flame graph in terminal cells: frames by stack, a line per depth, outermost on top."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warpsight.analysis.base.frames import is_folded
from warpsight.ui.render import numbers, terminal

if TYPE_CHECKING:
    from warpsight.recorder.live.stacks import TopStack

Path = tuple[str, ...]
_LEAVES = {"copy": "copy", "set": "set", "running": "running", "waiting": "waiting"}


@dataclass
class FlameNode:
    """A frame with everything above it; children are ordered by name, so that they keep their place."""

    label: str
    kind: str
    weight: int = 0
    children: dict[str, FlameNode] = field(default_factory=dict)


@dataclass(frozen=True)
class TerminalBox:
    """A drawn frame: columns `left` to `right` of its line."""

    path: Path
    node: FlameNode
    left: int
    right: int


def tree(stacks: Sequence[TopStack], root: str = "all") -> FlameNode:
    """The stacks as a tree; adjacent frames of a library are merged."""
    top = FlameNode(root, "root")
    for stack in stacks:
        top.weight += stack.weight
        at = top
        for label, kind in _frames(stack.frames):
            at = at.children.setdefault(label, FlameNode(label, kind))
            at.weight += stack.weight
    return top


def _frames(frames: Path) -> Iterator[tuple[str, str]]:
    folded = ""
    for frame in frames[:-1]:
        if is_folded(frame):
            folded = folded or _library(frame)
            continue
        if folded:
            yield folded, "missing"
        folded = ""
        yield frame, "missing" if frame.startswith("[") else "python"
    if folded:
        yield folded, "missing"
    yield frames[-1], _LEAVES.get(frames[-1], "kernel")


def _library(frame: str) -> str:
    """`torch …` for `call (/usr/lib/python3/site-packages/torch/nn/modules/module.py:1511)`."""
    file = frame.rpartition("(")[2].rstrip(")")
    inside = file.rpartition("-packages/")[2] if "-packages/" in file else file.rpartition("/")[2]
    return f"{inside.split('/')[0].split(':')[0].removesuffix('.py') or 'library'} …"


def found(root: FlameNode, path: Path) -> tuple[Path, FlameNode]:
    """The node at the end of a path, or the deepest one that exists."""
    at, have = root, []
    for label in path:
        if label not in at.children:
            break
        at = at.children[label]
        have.append(label)
    return tuple(have), at


def layout(root: FlameNode, focus: Path, width: int) -> list[list[TerminalBox]]:
    """The lines of the picture: the frames on the path to the focus at full width, then everything above."""
    focus, chosen = found(root, focus)
    lines, at = [], root
    for depth in range(len(focus) + 1):
        lines.append([TerminalBox(focus[:depth], at, 0, width)])
        at = at.children.get(focus[depth], at) if depth < len(focus) else at
    current = lines[-1]
    scale = width / max(chosen.weight, 1)
    edges = {focus: 0.0}
    while current:
        below: list[TerminalBox] = []
        for box in current:
            left = edges[box.path]
            for _, child in sorted(box.node.children.items()):
                right = left + child.weight * scale
                path = (*box.path, child.label)
                edges[path] = left
                if round(right) > round(left):
                    below.append(TerminalBox(path, child, round(left), round(right)))
                left = right
        if below:
            lines.append(below)
        current = below
    return lines


def label_of(node: FlameNode, width: int) -> str:
    """The label of a box: the most informative part that fits, a function before its file."""
    text = terminal.printable(node.label).removeprefix("void ")
    function, _, place = text.partition(" (")
    if len(text) > width and place:
        text = f"{function} (…/{place.rpartition('/')[2]}"
        text = text if len(text) <= width else function
    return f"{numbers.shorten(text, width):{width}}"
