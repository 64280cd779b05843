"""A window of the timeline: single slices in the rows where they are few enough, bins in the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.stats.overview import dominant, edges_of
from warpsight.analysis.timeline.row import Row, SelectedColumn
from warpsight.model import intervals
from warpsight.model.calls import Calls
from warpsight.model.work import distinct, summed
from warpsight.model.workers import workers

if TYPE_CHECKING:
    from warpsight.analysis.timeline.scene import Scene

Column = NDArray[Any]


@dataclass(frozen=True)
class _SliceColumns:
    """All slices of some rows in a window as columns, row after row.

    Attributes:
        rows: Index of each row that has its slices here.
        offsets: Where the slices of each of them begin, and the end of the last.
        caller: Index of the row in which the call that asked for a slice stands, -1 none.
        lag: From the start of that call to the start of the slice, ns.
    """

    rows: Column
    offsets: Column
    start: Column
    end: Column
    name: Column
    stack: Column
    caller: Column
    lag: Column

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class _Bins:
    """Covered share (0 to 1) and most covering name of equal bins, each of shape (rows, bins); name -1: nothing."""

    rows: Column
    busy: Column
    name: Column


@dataclass(frozen=True)
class Part:
    """The rows of a scene in [begin, end), each either in `slices` or in `bins`."""

    begin: int
    end: int
    slices: _SliceColumns
    bins: _Bins


def part(scene: Scene, begin: int, end: int, *, slices: int, bins: int) -> Part:
    """The contents of [begin, end).

    Args:
        scene: All rows.
        begin: Start of the window, ns.
        end: Its end.
        slices: Single slices at most; rows with few come first.
        bins: Bins of a row at most; a power of two.
    """
    chosen = [row.between(begin, end) for row in scene.rows]
    counts = np.array([where.stop - where.start for where in chosen], np.int64)
    order = np.argsort(counts, kind="stable")
    single = np.zeros(len(counts), bool)
    single[order] = np.cumsum(counts[order]) <= slices
    few, many = np.flatnonzero(single & (counts > 0)), np.flatnonzero(~single)
    while bins > 64 and bins > end - begin:
        bins //= 2
    return Part(
        begin, end, _slices(scene, few, [chosen[i] for i in few]), _bins(scene, many, begin, end, bins)
    )


def _slices(scene: Scene, rows: Column, where: Sequence[slice]) -> _SliceColumns:
    def joined(pick: Callable[[Row, slice], Column], dtype: type[np.generic]) -> Column:
        parts = [pick(scene.rows[i], w) for i, w in zip(rows.tolist(), where, strict=True)]
        return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)

    def optional(column: Column | SelectedColumn | None, w: slice, none: int) -> Column:
        return np.full(w.stop - w.start, none) if column is None else column[w]

    offsets = np.cumsum([0, *(w.stop - w.start for w in where)])
    start = joined(lambda row, w: row.start[w], np.int64)
    call = joined(lambda row, w: optional(row.call if row.role != "calls" else None, w, -1), np.int64)
    caller, lag = _callers(scene.calls, scene.caller, start, call)
    return _SliceColumns(
        rows, offsets, start, joined(lambda row, w: row.end[w], np.int64),
        joined(lambda row, w: row.name[w], np.int64), joined(lambda row, w: optional(row.stack, w, 0), np.int64), caller, lag,
    )  # fmt: skip


def _callers(
    calls: Calls, rows: dict[tuple[int, int], int], start: Column, call: Column
) -> tuple[Column, Column]:
    """The row that holds each call, and the delay from its begin to each slice's begin."""
    caller, lag = np.full(len(call), -1, np.int64), np.zeros(len(call), np.int64)
    known = np.flatnonzero(call >= 0)
    lag[known] = start[known] - calls.start[call[known]]
    for (process, thread), row in rows.items():
        mine = known[(calls.process[call[known]] == process) & (calls.thread[call[known]] == thread)]
        caller[mine] = row
    return caller, lag


def _bins(scene: Scene, rows: Column, begin: int, end: int, count: int) -> _Bins:
    busy, name = np.zeros((len(rows), count), np.float32), np.full((len(rows), count), -1, np.int64)
    edges = edges_of(begin, end, count)
    width = np.maximum(np.diff(edges), 1)

    def fill(place: int) -> None:
        row: Row = scene.rows[int(rows[place])]
        where = row.between(begin, end)
        busy[place] = np.diff(intervals.measure(row.covered, edges)) / width
        start, stop = row.start[where], row.end[where]
        if len(start) and (int(start[0]) < begin or int(row.reach[where.stop - 1]) > end):
            start, stop = np.maximum(start, begin), np.minimum(stop, end)
        used, code = distinct(row.name[where])
        real = stop > start
        if not real.all():
            start, stop, code = start[real], stop[real], code[real]
        if len(start):
            most = dominant(start, stop, code, edges)
            name[place] = np.where(busy[place] > 0, used[most], -1)

    with workers(2, "bins") as pool:
        list(pool.map(fill, range(len(rows))))
    return _Bins(rows, busy, name)


@dataclass(frozen=True)
class _Sums:
    """The contents of a window: covered time by row key, and time and count of device work by name, largest first."""

    busy: dict[str, int]
    names: list[tuple[int, int, int]]


def sums(scene: Scene, begin: int, end: int, most: int = 12) -> _Sums:
    """Sums over [begin, end); a slice counts with the part that lies inside."""
    busy = {row.key: row.busy(begin, end) for row in scene.rows if row.role != "stacks"}
    times = np.zeros(len(scene.names), np.int64)
    counts = np.zeros(len(scene.names), np.int64)
    for row in scene.rows:
        if row.role != "device":
            continue
        where = row.between(begin, end)
        inside = np.minimum(row.end[where], end) - np.maximum(row.start[where], begin)
        real = inside > 0
        times += summed(row.name[where][real], inside[real], len(times))
        counts += np.bincount(row.name[where][real], minlength=len(counts))
    top = np.argsort(-times, kind="stable")[:most]
    return _Sums(busy, [(int(i), int(times[i]), int(counts[i])) for i in top if counts[i]])
