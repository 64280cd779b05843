"""The order in which a program's points can be computed, and the inputs of each.

Most points of a thread have one predecessor: they happen a known time after the last point that had a choice (a wait, a
thread's first call), its *anchor*. Only anchors and device nodes are computed one by one:

    thread    wait ends ── 5 ── launch ── 9 ── launch ── 4 ── launch      one anchor, and three times after it
                               │             │             │
    stream              kernel ─────── kernel ─────── kernel               each: the launch or the kernel before, what is later
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpsight.analysis.retime.program import Program

Column = npt.NDArray[Any]
#: Maximum rounds of moving entries forward that are needed earlier.
_ROUNDS = 2_000
#: Number for a missing source: the point exists because of another one, or none at all.
ORDER, NOTHING = -1, -2


@dataclass(frozen=True)
class Structure:
    """Entries are computed in order, from 1; entry 0 is the origin, time 0.

    Attributes:
        sequence: Points of threads in the order of their threads; None where that is 0, 1, 2 and so on.
        anchor_place: For each place of the sequence that of its anchor.
        anchor: For each point of a thread the point it happens a known time after.
        anchors: The points of threads that are computed one by one.
        entry: Entry of each point; 0 for points of threads that are not anchors. Of a meeting's member: its end.
        begin: Entry of the start of each member of a meeting.
        meeting: Entry of each meeting.
        first: First source of each entry.
        second: Second source, 0 for none.
        of_first: Link that is the first source; :data:`ORDER` where that is a launch, a thread's order or a meeting.
        of_second: Link that is the second source; :data:`ORDER` where that is the stream's order.
        more: Links that are further sources, by the entry of their target.
        missing: Links among those that had to be left out, because they contradict each other.
    """

    sequence: Column | None
    anchor_place: Column
    anchor: Column
    anchors: Column
    entry: Column
    begin: Column
    meeting: Column
    first: Column
    second: Column
    of_first: Column
    of_second: Column
    more: Column
    missing: Column


def structure(program: Program) -> Structure:
    """Find the order of computation."""
    return _Building(program).made()


class _Building:
    """The steps run in the order in which they are written."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.points = len(program.before)
        self._anchors()
        self._number()

    def _anchors(self) -> None:
        """Which points of threads have several possible predecessors, or one other than the point before them."""
        program, links = self.program, self.program.links
        natural = np.arange(-1, self.points - 1)
        self.sequence = program.sequence()
        own = program.before if self.sequence is None else program.before[self.sequence]
        expected = natural if self.sequence is None else np.r_[-1, self.sequence[:-1]]
        anchor = (own != expected) | (own < 0)
        mark = np.zeros(self.points, bool)
        mark[links.target[links.target < self.points]] = True
        mark[np.flatnonzero(program.after)] = True
        anchor |= mark if self.sequence is None else mark[self.sequence]
        place = np.where(anchor, np.arange(self.points), 0)
        self.anchor_place = np.maximum.accumulate(place) if self.points else place
        self.anchor = np.empty(self.points, np.int64)
        if self.sequence is None:
            self.anchor[:] = self.anchor_place
            self.anchors = np.flatnonzero(anchor)
        else:
            self.anchor[self.sequence] = self.sequence[self.anchor_place]
            self.anchors = self.sequence[anchor]

    def _number(self) -> None:
        """Entries in order of recorded time: nearly all waits are for earlier entries."""
        program, graph = self.program, self.program.graph
        meetings = program.meetings
        start = graph.start.astype(np.int64)
        groups = int(meetings.group.max()) + 1 if len(meetings) else 0
        last = np.zeros(groups, np.int64)
        if groups:
            last[:] = np.iinfo(np.int64).min
            np.maximum.at(last, meetings.group, start[meetings.node])
            start[meetings.node] = last[meetings.group]
        # Ties go in this order: anchors, starts of members, meetings, device nodes.
        parts = [graph.time[self.anchors], graph.start[meetings.node], last, start]
        self.key = np.concatenate([[np.iinfo(np.int64).min], *parts])
        stops = np.cumsum([1, *(len(part) for part in parts)])
        self.slices = [np.arange(a, b) for a, b in pairwise(stops.tolist())]

    def made(self) -> Structure:
        """Number the entries, join the sources, and move late entries after their inputs."""
        program, meetings, links = self.program, self.program.meetings, self.program.links
        of_anchor, of_begin, of_meeting, of_node = self.slices
        raw = np.zeros(self.points + len(of_node), np.int64)  # number of each point before sorting
        raw[self.anchors] = of_anchor
        raw[self.points :] = of_node
        waits = raw.copy()  # where what a point waits for comes in: of members their begins
        waits[self.points + meetings.node] = of_begin

        def source(point: Column) -> Column:
            out: Column = raw[point]
            of_thread = np.flatnonzero(point < self.points)
            out[of_thread] = raw[self.anchor[point[of_thread]]]
            return out

        first = np.zeros(len(self.key), np.int64)
        second = np.zeros(len(self.key), np.int64)
        chained = program.before[self.anchors]
        first[of_anchor] = np.where(chained >= 0, source(np.maximum(chained, 0)), 0)
        nodes = waits[self.points :]
        called = np.flatnonzero(program.place >= 0)
        point = 2 * program.place[called].astype(np.int64) + ~program.from_begin[called]
        first[nodes[called]] = source(point)
        queued = np.flatnonzero(program.previous >= 0)
        second[nodes[queued]] = of_node[program.previous[queued]]
        first[of_node[meetings.node]] = of_meeting[meetings.group]
        of_first, of_second = (np.full(len(self.key), NOTHING, np.int64) for _ in range(2))
        of_first[of_anchor] = of_first[nodes[called]] = of_first[of_node[meetings.node]] = ORDER
        of_second[nodes[queued]] = ORDER
        targets, sources = waits[links.target], source(links.source)
        spare = self._placed(targets, sources, (first, second), (of_first, of_second))
        slots = ((first, of_first), (second, of_second))
        order, missing = self._ordered(slots, of_begin, of_meeting[meetings.group], (spare, sources, targets))
        new = np.empty(len(order), np.int64)
        new[order] = np.arange(len(order))
        entry = new[raw]
        entry[: self.points][raw[: self.points] == 0] = 0
        spare = spare[np.argsort(new[targets[spare]], kind="stable")]
        spare = spare[~np.isin(spare, missing)]
        return Structure(
            self.sequence, self.anchor_place, self.anchor, self.anchors, entry, new[of_begin], new[of_meeting],
            new[first[order]], new[second[order]], of_first[order], of_second[order], spare, missing,
        )  # fmt: skip

    def _placed(
        self, targets: Column, sources: Column, slots: tuple[Column, Column], of_slot: tuple[Column, Column]
    ) -> Column:
        """Put links into empty slots of their targets; returns the links that found none."""
        left = np.arange(len(targets))
        for slot, numbers in zip(slots, of_slot, strict=True):
            fits = left[numbers[targets[left]] == NOTHING]
            target, where = np.unique(targets[fits], return_index=True)  # one link each
            chosen = fits[where]
            slot[target], numbers[target] = sources[chosen], chosen
            keep = np.ones(len(targets), bool)
            keep[chosen] = False
            left = left[keep[left]]
        return left

    def _ordered(
        self,
        slots: tuple[tuple[Column, Column], ...],
        begins: Column,
        met: Column,
        links: tuple[Column, Column, Column],
    ) -> tuple[Column, Column]:
        """An order in which every entry comes after what it needs, and links that nothing can satisfy.

        An entry that was recorded before what it needs is moved right after that; then what needs it is looked at.
        """
        key, whole = self.key, np.arange(len(self.key))
        spare, sources, targets = links
        one = np.concatenate([slots[0][0], slots[1][0], begins, sources[spare]])
        two = np.concatenate([whole, whole, met, targets[spare]])
        real = one != 0
        one, two = one[real], two[real]
        for _ in range(_ROUNDS):
            late = np.flatnonzero((key[one] > key[two]) | ((key[one] == key[two]) & (one > two)))
            if not len(late):
                return np.argsort(key, kind="stable"), np.zeros(0, np.int64)
            np.maximum.at(key, two[late], key[one[late]] + 1)
        order = np.argsort(key, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = whole
        for slot, numbers in slots:
            wrong = (place[slot] >= place) & (slot != 0)
            slot[wrong], numbers[wrong] = 0, NOTHING
        return order, spare[place[sources[spare]] >= place[targets[spare]]]
