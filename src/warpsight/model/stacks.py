"""Host stacks: the tree of table stack as arrays, and its frames as strings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_NO_LINE = np.iinfo(np.int32).min
#: Ids may exceed the number of stacks by this factor.
_SPARSE = 64


@dataclass(frozen=True)
class Stacks:
    """The stack tree. `parent`, `frame` and `depth` are indexed by stack id; 0 means none, also for unused ids.

    Attributes:
        frames: By frame id the function, its file or module and the line of the call; None where unknown.
    """

    parent: Column
    frame: Column
    depth: Column
    frames: dict[int, tuple[str, str | None, int | None]]

    def text(self, frame: int) -> str:
        """A frame as `function (file:line)`; "?" for an unknown id."""
        return _text(*self.frames[frame]) if frame in self.frames else "?"

    def of(self, stack: int) -> tuple[str, ...]:
        """The frames of a stack, outermost first, as `function (file:line)`; empty for an unknown id."""
        out: list[str] = []
        seen: set[int] = set()
        while 0 < stack < len(self.parent) and stack not in seen:
            seen.add(stack)  # a damaged tree may be a ring
            frame = int(self.frame[stack])
            if frame in self.frames:
                out.append(_text(*self.frames[frame]))
            stack = int(self.parent[stack])
        return tuple(out[::-1])


def _text(function: str, file: str | None, line: int | None) -> str:
    if file is None:
        return function
    return f"{function} ({file})" if line is None else f"{function} ({file}:{line})"


def load(trace: StoredTrace) -> Stacks:
    """The stacks of a trace, kept while it is open."""
    return trace.kept.get("stacks", lambda: _load(trace))


def _load(trace: StoredTrace) -> Stacks:
    stacks, _ = trace.columns("stack", {"id": 0, "parent": 0, "frame": 0, "depth": 0})
    ids = stacks["id"]
    # Ids are dense; one far beyond is damage, and must not become an array of that length.
    good = np.flatnonzero((ids > 0) & (ids <= _SPARSE * len(ids) + 1024))
    length = int(ids[good].max(initial=0)) + 1
    columns = []
    for name in ("parent", "frame", "depth"):
        columns.append(np.zeros(length, np.int32))
        columns[-1][ids[good]] = stacks[name][good]
    return Stacks(columns[0], columns[1], columns[2], _frames(trace))


def _frames(trace: StoredTrace) -> dict[int, tuple[str, str | None, int | None]]:
    frames, texts = trace.columns("frame", {"id": 0, "line": _NO_LINE}, ["function", "file"])
    functions, files = [*texts["function"], None], [*texts["file"], None]  # the last one is for nulls
    most = _SPARSE * len(frames["id"]) + 1024
    rows = zip(*(frames[name].tolist() for name in ("id", "function", "file", "line")), strict=True)
    return {
        number: (functions[function] or "", files[file], None if line == _NO_LINE else line)
        for number, function, file, line in rows
        if 0 < number <= most  # 0 means a missing id
    }
