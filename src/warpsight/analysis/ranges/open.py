"""Which range of the program (NVTX, annotate, framework operator) a launch was made in, exactly.

The innermost range at a moment is the one that began last of those still open. The search starts at the last range that began
before the moment. If that has ended, it jumps to the nearest earlier range that ended later (nothing between the two can still be
open), and so on outwards. Every step is one pass over all moments, and there are as many steps as ranges nest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.model import calls
from warpsight.model import work as device_work
from warpsight.model.calls import Calls
from warpsight.model.intervals import containing
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import Work, values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
_OPEN = np.iinfo(np.int64).max
#: Placeholder for a null duration, and the code of a kind of range that no row has.
_ENDLESS, _NO_KIND = np.iinfo(np.int64).min, -2


@dataclass(frozen=True)
class Ranges:
    """Ranges as columns (ns), sorted by process, thread, begin, longer first; `end` of one never closed is the last moment.

    Attributes:
        parent: Index of the range on the same thread that began last before this one and contains it whole, -1 none.
        shared: The range was begun with start/end: it holds for the whole process, whichever thread ends it.
        group: Number of the (process, thread); `groups` gives the rows of each.
    """

    start: Column
    end: Column
    process: Column
    thread: Column
    name_id: Column
    shared: Column
    parent: Column
    group: Column
    groups: dict[tuple[int, int], slice]

    def __len__(self) -> int:
        return len(self.start)

    def at(self, process: Column, thread: Column, moment: Column) -> Column:
        """For each (process, thread, moment) the index of the innermost open range, or -1.

        Ranges that the thread itself began come first: of those still open, the one that began last. Where there is none,
        start/end ranges that other threads of the process began count. A range that ends exactly at a moment is not open at that
        moment.
        """
        out = np.full(len(moment), -1, np.int64)
        if not len(self) or not len(moment):
            return out
        code, (processes, threads) = device_work.numbered([process, thread])
        for i, rows in enumerate(device_work.split(code, len(processes))):
            where = self.groups.get((int(processes[i]), int(threads[i])))
            if where is not None:
                found = _innermost(
                    self.start[where], self.end[where], self.parent[where] - where.start, moment[rows]
                )
                out[rows] = np.where(found >= 0, found + where.start, -1)
        return self._others(out, process, moment)

    def _others(self, out: Column, process: Column, moment: Column) -> Column:
        """The start/end ranges of other threads, for moments in no range of the thread itself."""
        common = np.flatnonzero(self.shared)
        left = np.flatnonzero(out < 0)
        if not len(common) or not len(left):
            return out
        for number in values_in(self.process[common]).tolist():
            own = common[self.process[common] == number]
            own = own[np.lexsort((-self.end[own], self.start[own]))]
            rows = left[process[left] == number]
            found = _innermost(self.start[own], self.end[own], containing(self.end[own]), moment[rows])
            out[rows] = np.where(found >= 0, own[found], -1)
        return out


def load(trace: StoredTrace, source: str = "marker") -> Ranges:
    """The ranges of table `marker`, or the framework's operators of table `op`."""
    numbers = {"process": 0, "thread": 0, "start": 0, "duration": _ENDLESS, "name_id": 0}
    data, texts = trace.columns(source, numbers, ("kind",) if source == "marker" else ())
    if source == "marker":
        shared, instant = (
            data["kind"] == (texts["kind"].index(kind) if kind in texts["kind"] else _NO_KIND)
            for kind in ("start/end", "instant")
        )
        wanted = np.flatnonzero(~instant)
    else:
        shared = np.zeros(len(data["start"]), bool)
        wanted = np.flatnonzero(data["duration"] != _ENDLESS)
    process, thread, start, duration, name, shared = (
        column[wanted] for column in (*(data[one] for one in numbers), shared)
    )
    end = np.where(duration == _ENDLESS, _OPEN, start + np.maximum(duration, 0))
    order = np.lexsort((-end, start, thread, process))
    return arranged(*(column[order] for column in (process, thread, start, end, name, shared)))


def selected(trace: StoredTrace, source: str, where: str, shared: str = "false") -> Ranges:
    """The rows of table `marker` or `op` that a condition selects; `shared` marks those that apply to their whole process."""
    sql = f"""SELECT process, thread, start, CASE WHEN duration IS NULL THEN {_OPEN} ELSE start + greatest(duration, 0) END AS e,
        coalesce(name_id, 0), {shared}
        FROM {source}_ids WHERE {where} AND start IS NOT NULL ORDER BY process, thread, start, e DESC"""
    data = trace.sql(sql).to_arrow_table()
    return arranged(*(c.to_numpy() for c in data.columns))


def arranged(
    process: Column, thread: Column, start: Column, end: Column, name: Column, shared: Column
) -> Ranges:
    """Ranges from columns that are sorted by process, thread, begin, longer first."""
    code, (processes, threads) = device_work.numbered([process, thread])
    edges = np.searchsorted(code, np.arange(len(processes) + 1)) if len(code) else np.zeros(1, np.int64)
    groups = {
        (int(processes[i]), int(threads[i])): slice(int(edges[i]), int(edges[i + 1]))
        for i in range(len(processes))
    }
    parent = np.full(len(start), -1, np.int64)
    for where in groups.values():
        inner = containing(end[where])
        parent[where] = np.where(inner >= 0, inner + where.start, -1)
    return Ranges(start, end, process, thread, name, shared, parent, code, groups)


def _innermost(start: Column, end: Column, parent: Column, moment: Column) -> Column:
    found = np.searchsorted(start, moment, "right") - 1
    left = np.flatnonzero(found >= 0)
    while True:
        left = left[(end[found[left]] <= moment[left]) & (end[found[left]] < _OPEN)]
        if not len(left):
            return found
        # A parent index below the group's first row means no parent.
        found[left] = np.maximum(parent[found[left]], -1)
        left = left[found[left] >= 0]


def of_work(trace: StoredTrace, work: Work, source: str = "marker") -> tuple[Ranges, Column, Column]:
    """For each row of device work the innermost range at its launch call.

    Returns:
        The ranges, for each row the index of its range (-1: launched in none), and whether its launch call is in the trace.
    """
    issued, call = calls.of_work(trace, work, api=True)
    ranges, place = of_calls(trace, issued, call, source)
    return ranges, place, call >= 0


def of_calls(trace: StoredTrace, issued: Calls, call: Column, source: str) -> tuple[Ranges, Column]:
    """The ranges, and for each call (by index) the innermost range at its start, or -1."""
    ranges = load(trace, source)
    known = np.flatnonzero(call >= 0)
    out = np.full(len(call), -1, np.int64)
    chosen = call[known]
    out[known] = ranges.at(issued.process[chosen], issued.thread[chosen], issued.start[chosen])
    return ranges, out


@dataclass(frozen=True)
class Projection:
    """Ranges as the GPU saw them; columns have one value per range, ns.

    Attributes:
        work: The device work.
        ranges: The ranges.
        source: marker, or op where the trace has no ranges.
        place: For each piece of work the index of its innermost range, -1 none.
        count: Pieces of work in the range and the ranges inside it.
        own: Time of the work launched directly in it.
        total: The same, including ranges inside it.
        first: First start of its work; meaningless where `count` is 0.
        last: Last end of its work.
    """

    work: device_work.Work
    ranges: Ranges
    source: str
    place: Column
    count: Column
    own: Column
    total: Column
    first: Column
    last: Column

    def findings(self) -> tuple[Finding, ...]:
        """Caveats to know before reading the numbers."""
        out = list(doubts(self.work))
        if self.source == "op":
            out.append(Finding("note", "the trace has no ranges; these are the framework's operators"))
        missing = int((self.place < 0).sum())
        if missing:
            all_of = f"{missing:,} of {len(self.work):,} kernels, copies and sets"
            text = f"{all_of} were launched in no range, or their call is not recorded"
            out.append(Finding("note", text, {"rows": missing, "of": len(self.work)}))
        return tuple(out)


def projected(trace: StoredTrace, rows: Rows) -> Projection:
    """The device work of every range and its inner ranges."""
    work = device_work.load(trace, rows, cut=False)
    source = "marker" if trace.count("marker") or not trace.count("op") else "op"
    found, place, _ = of_work(trace, work, source)
    inside = np.flatnonzero(place >= 0)
    count = np.bincount(place[inside], minlength=len(found)).astype(np.int64)
    own = device_work.summed(place[inside], (work.end - work.start)[inside], len(found))
    first, last = np.full(len(found), _OPEN), np.full(len(found), -_OPEN)
    np.minimum.at(first, place[inside], work.start[inside])
    np.maximum.at(last, place[inside], work.end[inside])
    total = own.copy()
    for level in levels(found.parent):
        up = found.parent[level]
        np.add.at(total, up, total[level])
        np.add.at(count, up, count[level])
        np.minimum.at(first, up, first[level])
        np.maximum.at(last, up, last[level])
    return Projection(work, found, source, place, count, own, total, first, last)


def ranges(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Device work by the range (NVTX, annotate) it was launched in, whatever thread or device it is on.

    A kernel, copy or set belongs to the innermost range open on its launching thread when the launch call began. `own`
    is the summed time of work launched directly in the range, `total` includes the ranges inside it. `span` is, summed
    over the range's instances, the time from the first start to the last end of that work: the range as the GPU saw it.
    If a trace has no ranges but has operators of a framework, those are used, and a finding says so.

    Returns:
        Table `ranges`: name, instances (with device work in them), host (their summed length), work, own, total, span in ns.
    """
    seen = projected(trace, rows)
    found, count, own, total = seen.ranges, seen.count, seen.own, seen.total
    used = np.flatnonzero(count)
    texts = names_of.texts(trace, "name")
    names, group = np.unique(found.name_id[used], return_inverse=True)
    host = np.where(found.end < _OPEN, found.end - found.start, 0)

    def by_name(values: Column) -> Column:
        return device_work.summed(group, values[used], len(names))

    data = {"name": [texts.get(i, "") for i in names.tolist()], "instances": np.bincount(group, minlength=len(names)),
            "host": by_name(host), "work": by_name(count), "own": by_name(own), "total": by_name(total),
            "span": by_name(seen.last - seen.first)}  # fmt: skip
    out = table(
        "name:string instances:int64 host:int64:ns work:int64 own:int64:ns total:int64:ns span:int64:ns", data
    )
    return Result({"ranges": out.sort_by([("total", "descending"), ("name", "ascending")])}, seen.findings())


def levels(parent: Column) -> list[Column]:
    """The indices of all ranges that have a parent, deepest level first."""
    depth, level = np.zeros(len(parent), np.int64), np.flatnonzero(parent >= 0)
    place = parent.copy()
    while len(level):
        depth[level] += 1
        place[level] = parent[place[level]]
        level = level[place[level] >= 0]
    return [np.flatnonzero(depth == number) for number in range(int(depth.max(initial=0)), 0, -1)]
