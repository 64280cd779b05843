"""The source lines behind the GPU's time, with an excerpt if the file is here."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.model.sharing.secrets import shareable

if TYPE_CHECKING:
    from warpsight.analysis.flame.graph import FlameGraph

_FRAME = re.compile(r"^(?P<function>.*) \((?P<file>[^()]*):(?P<line>\d+)\)$")
#: Lines shown before and after, and bytes of a file that is read at most.
_AROUND = 4
_MOST_BYTES = 4 << 20
#: Lines of the table.
_MOST = 12
_MOST_WIDTH = 200
#: Only source files are ever read: a trace comes from an untrusted file and must not choose what appears in a report.
_SUFFIXES = (".py", ".pyx")


@dataclass(frozen=True)
class HotLine:
    """One source line: `own` is the weight launched by the line itself, and `total` includes its callees."""

    function: str
    file: str
    line: int
    own: int
    total: int
    #: (number, text) around the line; empty if the file is not on this machine, or has changed too much.
    excerpt: tuple[tuple[int, str], ...]


def hot_lines(
    graph: FlameGraph, text: Callable[[str], str], *, read: bool, most: int | None = _MOST
) -> list[HotLine]:
    """The Python lines with the most weight of their own, taken from innermost Python frames.

    Args:
        graph: A plain graph whose labels are as recorded.
        text: Redaction of functions and files.
        read: Embed the source around each line, if the file is on this machine.
        most: How many; None for all.
    """
    python = [kind == "python" for kind in graph.kinds]
    label, parent = graph.label.tolist(), graph.parent.tolist()
    weight = graph.total[:, 0].tolist()
    total: dict[int, int] = {}
    own: dict[int, int] = {}
    inside: list[frozenset[int]] = [frozenset()] * len(label)
    for node, (mine, above) in enumerate(zip(label, parent, strict=True)):
        around = inside[above] if above >= 0 else frozenset()
        inside[node] = around | {mine} if python[mine] else around
        if not python[mine]:
            continue
        own[mine] = own.get(mine, 0) + weight[node]
        if above >= 0 and python[label[above]]:
            own[label[above]] -= weight[node]
        if mine not in around:  # a recursive function counts once
            total[mine] = total.get(mine, 0) + weight[node]
    lines = []
    for mine in sorted(own, key=lambda i: (-own[i], i)):
        match = _FRAME.match(graph.labels[mine])
        if match is None or own[mine] <= 0:
            continue
        number = int(match["line"])
        around = excerpt(match["file"], number) if read else ()
        lines.append(
            HotLine(text(match["function"]), text(match["file"]), number, own[mine], total[mine], around)
        )
        if len(lines) == most:
            break
    return lines


def excerpt(file: str, line: int) -> tuple[tuple[int, str], ...]:
    """The lines around one, without secrets; empty if the file is not on this machine."""
    path = Path(file)
    if path.suffix not in _SUFFIXES or not path.is_absolute():
        return ()
    try:
        file_stat = path.stat()
        if not stat.S_ISREG(file_stat.st_mode) or file_stat.st_size > _MOST_BYTES:
            return ()
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    if line > len(lines):
        return ()
    first = max(line - _AROUND, 1)
    return tuple(
        (number, shareable(lines[number - 1])[:_MOST_WIDTH])
        for number in range(first, min(line + _AROUND, len(lines)) + 1)
    )
