"""One side of a comparison: its device work per iteration, labelled by kernel, role, stack, range and operator."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base.frames import is_library
from warpsight.analysis.diff.roles import role
from warpsight.analysis.ranges import open as ranges
from warpsight.analysis.steps import iterations
from warpsight.analysis.steps.iterations import Iterations
from warpsight.analysis.steps.repeated import LEAST
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.selection import Rows
from warpsight.model.work import COPY, Work

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_PLACE = re.compile(r" \((?:.*[/\\])?([^()/\\:]*)(?::\d+)?\)$")
_COPIES = ("copies", "fills")
#: Ways to label device work.
GROUPINGS = ("kernel", "role", "stack", "range", "operator")


@dataclass
class Side:
    """A trace to compare. Work counts when it belongs to the steady state of iterations, or all of it without iterations."""

    trace: Trace
    rows: Rows

    @cached_property
    def work(self) -> Work:
        """All device work, whole rows."""
        return device_work.load(self.trace, self.rows, cut=False)

    @cached_property
    def loops(self) -> list[Iterations]:
        """Iterations of each process."""
        return iterations.find(self.trace, self.rows, self.work)

    @cached_property
    def turns(self) -> tuple[int, Column]:
        """Number of iterations that count, and for each row of work its iteration, -1 for none.

        Without iterations the whole recording is one.
        """
        place = np.full(len(self.work), -1, np.int64)
        number = 0
        for loop in self.loops:
            counts = np.diff(np.append(loop.first, len(loop.rows)))
            kept = np.where(loop.steady, number + np.cumsum(loop.steady) - 1, -1)
            rows = loop.rows[int(loop.first[0]) :]
            place[rows] = np.repeat(kept, counts)
            number += int(loop.steady.sum())
        return (number, place) if number else (1, np.zeros(len(self.work), np.int64))

    @property
    def repeated(self) -> bool:
        """Whether there are iterations, so that the run's own noise is known."""
        return self.turns[0] >= LEAST

    @cached_property
    def durations(self) -> Column:
        """Length of each iteration that counts, ns."""
        if not self.loops:
            return np.array([max(self.work.finish - self.work.begin, 0)])
        return np.concatenate([loop.duration[loop.steady] for loop in self.loops])

    @cached_property
    def busy(self) -> Column:
        """Time with device work of its process in each iteration, ns."""
        out = []
        for loop in self.loops:
            mine = self.work.process == loop.process
            whole = intervals.union(self.work.start[mine], self.work.end[mine])
            edges = np.append(loop.start, loop.start[-1] + loop.duration[-1])
            out.append(np.diff(intervals.measure(whole, edges))[loop.steady])
        return np.concatenate(out) if out else np.array([self.work.of_kind().total])

    def labels(self, grouping: str) -> tuple[Column, list[str]]:
        """For each row of work the place of its label in a list; -1 for work without one."""
        made: tuple[Column, list[str]] = getattr(self, f"_by_{grouping}")()
        return made

    def _by_kernel(self) -> tuple[Column, list[str]]:
        names = dict(self.trace.sql("SELECT id, demangled FROM name").fetchall())
        return self._named(lambda number: names.get(number, "?"))

    def _by_role(self) -> tuple[Column, list[str]]:
        names = dict(self.trace.sql("SELECT id, demangled FROM name").fetchall())
        return self._named(lambda number: role(names.get(number, "?")))

    def _named(self, label: Any) -> tuple[Column, list[str]]:
        keys = np.where(
            self.work.kind < COPY,
            self.work.name_id.astype(np.int64),
            COPY - 1 - self.work.kind.astype(np.int64),
        )
        ids, inverse = np.unique(keys, return_inverse=True)
        texts = [label(int(i)) if i >= 0 else _COPIES[-1 - int(i)] for i in ids]
        return _merged(inverse, texts)

    def _by_stack(self) -> tuple[Column, list[str]]:
        inverse, (ids,) = device_work.numbered([self.work.stack])
        frames = self.trace.stacks(int(i) for i in ids if i)
        place, texts = _merged(inverse, [_stack(frames.get(int(i), ())) for i in ids])
        return _without_empty(place, texts)

    def _by_range(self) -> tuple[Column, list[str]]:
        return self._within("marker")

    def _by_operator(self) -> tuple[Column, list[str]]:
        return self._within("op")

    def _within(self, source: str) -> tuple[Column, list[str]]:
        if not self.trace.count(source):
            return np.full(len(self.work), -1, np.int64), []
        found, place, _ = ranges.of_work(self.trace, self.work, source)
        number = np.where(place >= 0, found.name_id[np.maximum(place, 0)], 0)
        ids, inverse = np.unique(number, return_inverse=True)
        names = dict(self.trace.sql("SELECT id, name FROM name").fetchall())
        place, texts = _merged(inverse, [_NUMBER.sub("#", names.get(int(i), "")) if i else "" for i in ids])
        return _without_empty(place, texts)

    def per_turn(self, place: Column, labels: int) -> tuple[Column, Column]:
        """Summed device time (ns) and count of work, as matrices labels × iterations."""
        turns, turn = self.turns
        good = (place >= 0) & (turn >= 0)
        keys = place[good] * turns + turn[good]
        duration = (self.work.end - self.work.start)[good]
        time = np.bincount(keys, duration, minlength=labels * turns)
        count = np.bincount(keys, minlength=labels * turns)
        return time.reshape(labels, turns), count.reshape(labels, turns)


def _merged(inverse: Column, texts: list[str]) -> tuple[Column, list[str]]:
    numbers: dict[str, int] = {}
    onto = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
    return onto[inverse] if len(texts) else inverse, list(numbers)


def _without_empty(place: Column, texts: list[str]) -> tuple[Column, list[str]]:
    if "" not in texts:
        return place, texts
    empty = texts.index("")
    return np.where(place == empty, -1, np.where(place > empty, place - 1, place)), texts[:empty] + texts[
        empty + 1 :
    ]


def _stack(frames: tuple[str, ...]) -> str:
    """The user's own frames, innermost first, by function and file: lines move when a program is edited."""
    own = [f for f in frames if not is_library(f)] or list(frames)
    return _ADDRESS.sub("#", " ← ".join(_PLACE.sub(r" (\1)", frame) for frame in own[::-1][:4]))
