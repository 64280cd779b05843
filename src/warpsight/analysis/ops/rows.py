"""The operators of a trace as columns: their nesting, and the distinct call of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.ops import arguments
from warpsight.analysis.ops.arguments import Call
from warpsight.analysis.ranges.open import Ranges, arranged, levels
from warpsight.model import work as device_work
from warpsight.model.naming import texts as names_of

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_MISSING = np.iinfo(np.int64).min
_NUMBERS = {"start": _MISSING, "duration": _MISSING, "name_id": 0, "sequence": -1, "correlation": -1, "stack": 0, "thread": 0,
            "process": 0}  # fmt: skip


@dataclass(frozen=True)
class Operators:
    """Operators as columns, sorted by process, thread, start, longer first: an operator's children follow it.

    Attributes:
        ranges: Begin, end, thread, name and the operator around each (`parent`).
        sequence: Autograd sequence numbers, -1 none.
        forward_thread: torch's number of the thread whose forward this is the backward of, 0 none.
        correlation: The operators' own ids, -1 none.
        stack: Host stacks, 0 none.
        call: Which of `calls` each is.
        calls: The distinct calls.
        size: How many operators are inside each, itself among them: those of i are rows i to i + size[i].
        depth: Levels from the outermost to the innermost, as rows (:func:`warpsight.analysis.ranges.open.levels`).
    """

    ranges: Ranges
    sequence: Column
    forward_thread: Column
    correlation: Column
    stack: Column
    call: Column
    calls: list[Call]
    size: Column
    depth: list[Column] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ranges)

    @property
    def parent(self) -> Column:
        """The enclosing operator of each, or -1."""
        return self.ranges.parent

    def inside(self, values: Column) -> Column:
        """The sum of a column over each operator and its descendants."""
        before = np.zeros(len(self) + 1, values.dtype)
        np.cumsum(values, out=before[1:])
        rows = np.arange(len(self))
        found: Column = before[rows + self.size] - before[rows]
        return found

    def nearest(self, chosen: Column) -> Column:
        """For each operator, the innermost chosen one that contains it (possibly itself), or -1."""
        found = np.where(chosen, np.arange(len(self)), -1)
        for level in reversed(self.depth):  # outermost first
            rows = level[found[level] < 0]
            found[rows] = found[self.parent[rows]]
        return found

    def outermost_of_group(self, group: Column) -> Column:
        """Operators that are not inside another one of their group."""
        out = np.ones(len(self), bool)
        rows = np.flatnonzero(self.parent >= 0)
        place = self.parent[rows]
        while len(rows):
            same = group[place] == group[rows]
            out[rows[same]] = False
            rows, place = rows[~same], place[~same]
            place = self.parent[place]
            rows, place = rows[place >= 0], place[place >= 0]
        return out


def load(trace: StoredTrace) -> Operators:
    """The operators of table `op`, cached while the trace is open."""
    return trace.kept.get("operators", lambda: _load(trace))


def _load(trace: StoredTrace) -> Operators:
    columns, texts = trace.columns("op", _NUMBERS, ["shapes", "attributes"])
    known = (columns["duration"] != _MISSING) & (columns["start"] != _MISSING)
    if not known.all():
        columns = {name: column[known] for name, column in columns.items()}
    end = columns["start"] + np.maximum(columns["duration"], 0)
    order = np.lexsort((-end, columns["start"], columns["thread"], columns["process"]))
    end = end[order]
    columns = {name: column[order] for name, column in columns.items()}
    process, thread, start = (columns[name] for name in ("process", "thread", "start"))
    ranges = arranged(process, thread, start, end, columns["name_id"], np.zeros(len(order), bool))
    rest, forward_thread, listed = _arguments(columns.pop("attributes"), texts["attributes"])
    call, calls = _calls(trace, columns["name_id"], columns["shapes"], texts["shapes"], rest, listed)
    depth = levels(ranges.parent)
    size = np.ones(len(order), np.int64)
    for level in depth:
        np.add.at(size, ranges.parent[level], size[level])
    return Operators(
        ranges,
        columns["sequence"],
        forward_thread,
        columns["correlation"],
        columns["stack"],
        call,
        calls,
        size,
        depth,
    )


def _arguments(codes: Column, texts: list[str]) -> tuple[Column, Column, list[arguments.CallDetails]]:
    """For each row, which of the listed arguments it has, and the thread of its forward operator.

    Attributes hold more than arguments, so several texts may say the same of them.
    """
    numbers: dict[arguments.CallDetails, int] = {arguments.NOTHING: 0}
    found = np.zeros((len(texts) + 1, 2), np.int64)  # the last is for rows without attributes
    for place, text in enumerate(texts):
        told, thread = arguments.of_attributes(text)
        found[place] = numbers.setdefault(told, len(numbers)), thread
    rows = found[codes]
    return rows[:, 0], rows[:, 1], list(numbers)


def _calls(
    trace: StoredTrace,
    name: Column,
    shapes: Column,
    texts: list[str],
    rest: Column,
    listed: list[arguments.CallDetails],
) -> tuple[Column, list[Call]]:
    """The distinct call of each row, and the calls."""
    if not len(name):
        return np.zeros(0, np.int64), []
    code, (names, shape, told) = device_work.numbered([name, shapes, rest])
    known = names_of.texts(trace, "name")
    calls = [
        arguments.call(known.get(n, ""), texts[s] if s >= 0 else None, listed[t])
        for n, s, t in zip(names.tolist(), shape.tolist(), told.tolist(), strict=True)
    ]
    return code, calls
