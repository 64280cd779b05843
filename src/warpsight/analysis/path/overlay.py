"""The critical path as an overlay of an exported timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path import dependencies as dependency
from warpsight.analysis.path.critical_path import (
    CAUSES,
    ON_DEVICE,
    CriticalPath,
    Labels,
    chain,
    segments,
    trace_back,
)
from warpsight.formats.writing.overlay import BEGIN_IN, BEGIN_OUT, END_IN, END_OUT, OnPath, Overlay
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace
    from warpsight.model.calls import Calls
    from warpsight.model.work import Work

Column = npt.NDArray[Any]
_ALL = Rows()


def overlay(trace: StoredTrace, rows: Rows = _ALL) -> Overlay:
    """The critical path of the rows: a track of segments, and an arrow from each row on the path to the next.

    A segment is named after the work or call that ran, or after the awaited work and what followed it.
    """
    graph = dependency.build(trace, rows, edges=False)
    path = trace_back(graph)
    label, labels = _labels(path, Labels(trace, graph))
    device, host = _rows(path)
    return Overlay("Critical path", path.begin, path.end, label, labels, "critical path", device, host)


def _labels(path: CriticalPath, names: Labels) -> tuple[Column, list[str]]:
    made = segments(path, names)["name"].combine_chunks()
    texts = made.dictionary.to_pylist()
    code, (cause, name) = device_work.numbered([path.cause, made.indices.to_numpy().astype(np.int64)])
    labels = []
    for kind, place in zip(cause.tolist(), name.tolist(), strict=True):
        runs = kind in ON_DEVICE or CAUSES[kind] == "host call"
        labels.append(texts[place] if runs else f"{CAUSES[kind]} → {texts[place]}")
    return code, labels


def _rows(path: CriticalPath) -> tuple[OnPath, OnPath]:
    """Rows of the device and of the host on the path, with the arrows that leave and reach them.

    Each point is the start or end of a call, or the end of device work, which is reached at its start.
    """
    graph = path.graph
    # All points, those that no segment leads to (the start of the first call) among them.
    point = (
        chain(graph.parent, int(np.argmax(graph.time)))[::-1].astype(np.int64) if len(graph) else path.point
    )
    base, count = graph.base, len(graph.work)
    point = point[(point < base) | (point - base < count)]  # excludes stream waits, which have no row
    on_device = point >= base
    row = np.where(on_device, point - base, point // 2)
    at_end = on_device | (point % 2 == 1)  # where an arrow leaves
    starts = np.zeros(len(point), np.int64)
    starts[on_device] = graph.work.start[row[on_device]]
    starts[~on_device] = graph.time[point[~on_device]]
    leaves = graph.time[point]
    # An arrow must not go back in time, nor from a row to itself.
    same = (on_device[1:] == on_device[:-1]) & (row[1:] == row[:-1])
    link = np.flatnonzero(~same & (leaves[:-1] <= starts[1:]))
    number = np.arange(1, len(link) + 1, dtype=np.uint64)
    arrows = np.zeros((len(point), 4), np.uint64)
    arrows[link, np.where(at_end[link], END_OUT, BEGIN_OUT)] = number
    reached = np.where(~on_device[link + 1] & at_end[link + 1], END_IN, BEGIN_IN)
    arrows[link + 1, reached] = number
    threads = (
        (graph.calls.thread.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32).astype(np.int64)
    )
    streams = np.array([queue.stream for queue in graph.queues] or [0], np.int64)[graph.queue[:count]]
    device = _side(graph.work, streams, row, arrows, on_device)
    row = row.astype(np.int64)
    row[~on_device] = graph.by_thread.call[row[~on_device]]
    return device, _side(graph.calls, threads, row, arrows, ~on_device)


def _side(rows: Calls | Work, place: Column, row: Column, arrows: Column, chosen: Column) -> OnPath:
    """The rows of one side without duplicates: a call has two points, its start and its end."""
    used, which = np.unique(row[chosen], return_inverse=True)
    joined = np.zeros((len(used), 4), np.uint64)
    np.maximum.at(joined, which, arrows[chosen])
    return OnPath(rows.process[used], rows.start[used], place[used], joined)
