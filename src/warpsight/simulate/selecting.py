"""The subject of a change: device work by name, calls by function, and stretches of the threads by the ranges over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.retime.program import Program
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.intervals import Intervals
from warpsight.model.work import COMMUNICATION, KERNEL
from warpsight.simulate.change import Change

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_RANGE_TABLES = {"marker": "name_id", "op": "name_id", "user_event": "name"}


def kernels(trace: StoredTrace, program: Program, change: Change) -> Column:
    """Device nodes that are kernels with a matching name."""
    work = program.graph.work
    rows = trace.sql("SELECT id, name, demangled, short FROM name").fetchall()
    wanted = np.zeros(max([0, int(work.name_id.max(initial=0)), *(row[0] for row in rows)]) + 1, bool)
    for number, *names in rows:
        wanted[number] = any(change.matches(name) for name in names if name)
    chosen: Column = np.flatnonzero(wanted[work.name_id] & np.isin(work.kind, (KERNEL, COMMUNICATION)))
    return chosen


def copies(trace: StoredTrace, program: Program, change: Change) -> Column:
    """Device nodes that are copies of a matching kind, or fills, which are named memset."""
    work = program.graph.work
    moved = np.flatnonzero(work.kind >= device_work.COPY)
    names, code = device_work.directions(trace, work, moved)
    wanted = np.array([change.matches(name) for name in names] + [False], bool)
    out: Column = moved[wanted[code]]
    return out


def calls(program: Program, change: Change) -> Column:
    """Which functions match, for each position on the threads."""
    graph = program.graph
    wanted = np.array([change.matches(name) for name in graph.calls.functions] + [False], bool)
    out: Column = wanted[graph.calls.function[graph.by_thread.call]]
    return out


def launches(program: Program) -> Column:
    """Which positions on the threads are calls that created device work."""
    out = np.zeros(len(program.graph.by_thread), bool)
    out[program.place[program.place >= 0]] = True
    return out


class SelectedRanges:
    """Ranges of the threads with a matching name: the outermost ones, by thread and start.

    Attributes:
        thread: Number of the thread in `by_thread`.
        start: Begins, ns.
        end: Ends, ns.
    """

    def __init__(self, trace: StoredTrace, program: Program, change: Change) -> None:
        """Read them; ranges of threads without calls are left out."""
        threads = {key: number for number, key in enumerate(program.graph.by_thread.threads)}
        parts = [np.zeros((3, 0), np.int64)]
        for table, name in _RANGE_TABLES.items():
            if not trace.count(table):
                continue
            ids = None
            columns, coded = trace.columns(
                table, {"start": 0, "duration": -1, "thread": 0, "process": 0} | ({name: 0} if name == "name_id" else {}),
                ["name"] if name == "name" else [],
            )  # fmt: skip
            ids = (
                dict(enumerate(coded["name"]))
                if name == "name"
                else dict(trace.sql("SELECT id, name FROM name").fetchall())
            )
            wanted = [number for number, text in ids.items() if text and change.matches(text)]
            rows = np.flatnonzero(np.isin(columns[name], wanted) & (columns["duration"] > 0))
            code, found = device_work.numbered([columns["process"][rows], columns["thread"][rows]])
            numbers = np.array(
                [threads.get(key, -1) for key in zip(*(c.tolist() for c in found), strict=True)] or [-1]
            )
            thread = numbers[code] if len(rows) else np.zeros(0, np.int64)
            start = columns["start"][rows]
            part = np.stack([thread, start, start + columns["duration"][rows]])
            parts.append(part[:, part[0] >= 0])
        thread, start, end = np.concatenate(parts, axis=1)
        order = np.lexsort((-end, start, thread))
        thread, start, end = thread[order], start[order], end[order]
        self.thread, self.start, self.end = _outermost(thread, start, end)

    def __len__(self) -> int:
        return len(self.start)

    def number(self, thread: Column, moment: Column) -> Column:
        """The range that contains each moment of a thread, or -1."""
        if not len(self):
            return np.full(len(moment), -1, np.int64)
        out = np.full(len(moment), -1, np.int64)
        for one in np.unique(self.thread).tolist():
            mine = np.flatnonzero(thread == one)
            a, b = np.searchsorted(self.thread, [one, one + 1]).tolist()
            at = a + np.searchsorted(self.start[a:b], moment[mine], "right") - 1
            good = (at >= a) & (moment[mine] < self.end[np.maximum(at, a)])
            out[mine[good]] = at[good]
        return out

    def covered(self, thread: Column, begin: Column, end: Column) -> Column:
        """How much of each stretch of a thread is in ranges, ns."""
        out = np.zeros(len(begin), np.int64)
        for one in np.unique(self.thread).tolist():
            mine = np.flatnonzero(thread == one)
            a, b = np.searchsorted(self.thread, [one, one + 1]).tolist()
            ranges = Intervals(self.start[a:b], self.end[a:b])
            out[mine] = intervals.coverage(ranges, begin[mine], end[mine])
        return out


def _outermost(thread: Column, start: Column, end: Column) -> tuple[Column, Column, Column]:
    """Outermost ranges of their thread; partially overlapping ones are cut to be disjoint."""
    if not len(start):
        return thread, start, end
    low = int(start.min())
    width = int(end.max()) - low + 1
    one, two = thread * width + start - low, thread * width + end - low
    before = np.r_[-1, np.maximum.accumulate(two)[:-1]]
    one = np.maximum(one, before)
    kept = two > one
    return thread[kept], one[kept] - thread[kept] * width + low, end[kept]
