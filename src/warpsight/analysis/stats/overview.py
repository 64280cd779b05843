"""A whole trace as one picture: how busy each stream was in each of many equal bins, and with what.

A bin has the share of its time that is covered, and the name that covers most of it, for any window and number of bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model import intervals
from warpsight.model.intervals import Intervals
from warpsight.model.selection import Rows, begin_of
from warpsight.model.work import KERNEL, KINDS, Work, blocks, load, summed

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
#: Names with an index of their own; index 0, "other", is for the rest. The index fits in one byte.
NAMES = 250
#: Maximum number of lanes: the least busy streams share their device's.
LANES = 48


@dataclass(frozen=True)
class Lane:
    """One row of the picture: a device (all its streams, as a union) or one stream of it (`stream` is not None)."""

    label: str
    device: int | None
    stream: int | None
    process: int | None
    #: Index of the stream among the work's queues, None for a device.
    queue: int | None
    #: Pieces of work.
    rows: int


@dataclass(frozen=True)
class _Rows:
    """The work of one lane by start: row numbers, times, names; `reach` is the furthest end so far."""

    row: Column
    start: Column
    end: Column
    name: Column
    reach: Column
    covered: Intervals


class Picture:
    """The device work of a trace, arranged in lanes, for any window and resolution.

    Attributes:
        work: All rows.
        lanes: Devices, each followed by its streams when it has several.
        names: Texts of names; the first stands for all names not listed.
        kinds: Kind of each name.
        name: Name of each row of `work`.
        merged: Streams without a lane of their own.
        origin: 0 of the times that people see.
    """

    def __init__(self, trace: StoredTrace, work: Work, most_lanes: int = LANES) -> None:
        """Arrange `work`; with more than `most_lanes` lanes, the least busy streams share their device's lane."""
        self.work = work
        self.begin, self.end = work.begin, max(work.finish, work.begin + 1)
        self.origin = begin_of(trace)
        self.names, self.kinds, self.name = _names(trace, work)
        self.lanes, self._lane_of_queue, self.merged = arranged(trace, work, most_lanes)
        self._rows: dict[int, _Rows] = {}

    @classmethod
    def of(cls, trace: StoredTrace, rows: Rows = _ALL, most_lanes: int = LANES) -> Picture:
        """The picture of the rows that count."""
        return cls(trace, load(trace, rows), most_lanes)

    def rows(self, lane: int) -> _Rows:
        """The work of a lane."""
        if lane not in self._rows:
            chosen = lane_rows(self.work, self.lanes[lane])
            start, end = self.work.start[chosen], self.work.end[chosen]
            self._rows[lane] = _Rows(
                chosen, start, end, self.name[chosen], intervals.reach(end), intervals.union(start, end)
            )
        return self._rows[lane]

    def lane_of(self, row: int) -> int:
        """The lane of a row's stream, or of its device."""
        return self._lane_of_queue[int(self.work.queue[row])]

    def between(self, lane: int, begin: int, end: int) -> Column:
        """Row numbers of the lane's work that reaches into [begin, end), by start."""
        rows = self.rows(lane)
        first, last = np.searchsorted(rows.reach, begin, "right"), np.searchsorted(rows.start, end)
        found = rows.row[first:last]
        reaching: Column = found[rows.end[first:last] > begin]
        return reaching

    def bins(self, begin: int, end: int, count: int) -> tuple[Column, Column]:
        """Covered share (0 to 1) and most covering name of `count` bins of [begin, end), each of shape (lanes, count)."""
        busy = np.zeros((len(self.lanes), count))
        which = np.zeros((len(self.lanes), count), np.int32)
        edges = edges_of(begin, end, count)
        width = np.maximum(np.diff(edges), 1)
        for lane in range(len(self.lanes)):
            rows = self.rows(lane)
            busy[lane] = np.diff(intervals.measure(rows.covered, edges)) / width
            first, last = np.searchsorted(rows.reach, begin, "right"), np.searchsorted(rows.start, end)
            part = slice(int(first), int(last))
            start, stop = np.maximum(rows.start[part], begin), np.minimum(rows.end[part], end)
            real = stop > start
            which[lane] = dominant(start[real], stop[real], rows.name[part][real], edges)
        return busy, which


def edges_of(begin: int, end: int, count: int) -> Column:
    """The edges of `count` equal bins; a span of decades times their number would overflow."""
    step, rest = divmod(end - begin, count)
    numbers = np.arange(count + 1, dtype=np.int64)
    edges: Column = begin + numbers * step + numbers * rest // count
    return edges


def lane_rows(work: Work, lane: Lane) -> Column:
    """The rows of a lane, by start."""
    if lane.queue is not None:
        return list(work.per_queue())[lane.queue][1]
    return dict(work.per_device())[lane.device]


def arranged(trace: StoredTrace, work: Work, most: int = LANES) -> tuple[list[Lane], list[int], int]:
    """The lanes, the lane of each stream (its device's if it has none of its own), and the number of streams without one."""
    brief = "CASE WHEN starts_with(name, vendor || ' ') THEN substr(name, length(vendor) + 2) ELSE name END"
    sql = f"SELECT device, {brief} FROM device"
    named = dict(trace.sql(sql).fetchall())  # the vendor is the least telling part of a label that is cut
    several = len({queue.process for queue in work.queues}) > 1
    counts = np.bincount(work.queue, minlength=len(work.queues))
    shown = _busiest(work, counts, max(most - len(work.devices), 0))
    lanes: list[Lane] = []
    lane_of_queue = [0] * len(work.queues)
    for device, queues in work.devices.items():
        text = "no device" if device is None else f"device {device}"
        if named.get(device):
            text = f"{text} · {named[device]}"
        for i in queues:
            lane_of_queue[i] = len(lanes)
        lanes.append(Lane(text, device, None, None, None, int(counts[queues].sum())))
        own = sorted(
            (i for i in queues if i in shown), key=lambda i: (work.queues[i].process, work.queues[i].stream)
        )
        for i in own if len(queues) > 1 else []:
            queue = work.queues[i]
            label = f"stream {queue.stream}" + (f" · {queue.name}" if queue.name else "")
            label += f" · process {queue.process}" if several else ""
            lane_of_queue[i] = len(lanes)
            lanes.append(Lane(label, device, queue.stream, queue.process, i, int(counts[i])))
    return lanes, lane_of_queue, max(len(work.queues) - len(shown), 0)


def _busiest(work: Work, counts: Column, room: int) -> set[int]:
    """The streams with the largest total time, which is precise enough for this choice."""
    spent = summed(work.queue, work.end - work.start, len(counts))
    return set(np.argsort(-spent, kind="stable")[:room].tolist())


def _names(trace: StoredTrace, work: Work) -> tuple[list[str], list[int], Column]:
    """The names with the most time (all others share index 0), their kinds, and the name of each row."""
    texts = {i: short or name for i, name, short in trace.sql("SELECT id, name, short FROM name").fetchall()}
    code = (
        np.where(work.kind <= 1, work.name_id, 0).astype(np.int64) * len(KINDS) + work.kind
    )  # 0, 1: kernels
    spent = np.bincount(code, weights=(work.end - work.start).astype(float))
    used = np.flatnonzero(np.bincount(code, minlength=len(spent)))
    place = np.zeros(len(spent) + 1, np.int32)
    names, kinds = ["other"], [KERNEL]
    for value in used[np.argsort(-spent[used], kind="stable")][:NAMES].tolist():
        kind = value % len(KINDS)
        place[value] = len(names)
        names.append(texts.get(value // len(KINDS), "?") if kind <= 1 else KINDS[kind])
        kinds.append(kind)
    return names, kinds, place[code]


def dominant(start: Column, end: Column, name: Column, edges: Column) -> Column:
    """The name with most time in each bin, or 0; every event is split at the edges it crosses.

    Events are sorted by start and are between the first and the last edge.
    """
    bins = len(edges) - 1
    out: Column = np.zeros(bins, np.int32)
    if not len(start):
        return out
    # Which bin each begins in: begins are sorted, so that the edges are looked up among them. Few reach beyond their bin.
    counts = np.diff(np.searchsorted(start, edges[1:-1]), prepend=0, append=len(start))
    first = np.repeat(np.arange(bins, dtype=np.int32), counts)
    cross = np.flatnonzero(end > np.repeat(edges[1:], counts))
    last = np.clip(np.searchsorted(edges, end[cross], side="left") - 1, first[cross], bins - 1)
    pieces = last - first[cross]
    row = np.repeat(cross, pieces)
    later = first[row] + 1 + np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    rest = np.minimum(end[row], edges[later + 1]) - edges[later]
    width = int(name.max()) + 1
    # Few names: sum a dense table of (bin, name); many: only the cells there are.
    if bins * width <= 1 << 23:
        table = np.bincount(later * width + name[row], rest, bins * width).astype(float)
        for block in blocks(len(start)):  # its bins follow each other: a small part of the table
            own = first[block]
            spent = np.minimum(end[block], edges[own + 1]) - start[block]
            held = np.bincount((own - own[0]) * width + name[block], spent)
            table[own[0] * width : own[0] * width + len(held)] += held
        table = table.reshape(bins, width)
        best: Column = table.argmax(axis=1).astype(np.int32)
        best[table.max(axis=1) <= 0] = 0
        return best
    where, what = np.concatenate([first, later]), np.concatenate([name, name[row]])
    spent = np.concatenate([np.minimum(end, edges[first + 1]) - start, rest])
    key, back = np.unique(where * width + what, return_inverse=True)
    total = np.bincount(back, weights=spent.astype(float))
    order = np.lexsort((total, key // width))
    out[key[order] // width] = (key[order] % width).astype(np.int32)  # the last of a bin is its largest
    return out
