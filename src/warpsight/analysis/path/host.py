"""The host's side of a dependency graph: the begins and ends of calls as points on the lines of their threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path.order import NEVER, Streams
from warpsight.analysis.path.rows import CallIndex, Calls, Waits
from warpsight.analysis.path.stream_ids import StreamIds
from warpsight.model import work as device_work

Column = npt.NDArray[Any]
#: A thread that was silent for less than this was not waiting for another thread (ns).
HANDOVER_SILENCE = 20_000
#: Calls that wait for the device without saying so; only work that ended during the call counts.
IMPLICIT = frozenset(
    ("cudaFree", "cudaFreeHost", "cuMemFree", "cuMemFree_v2", "cuMemFreeHost", "cudaDeviceReset", "hipFree")
)


def index_type(count: int) -> type[np.signedinteger[Any]]:
    """The narrowest integers that number so many things: half of a large graph is places."""
    return np.int32 if count < 1 << 31 else np.int64


@dataclass
class Points:
    """Point 2i is the begin of call i, 2i + 1 its end. `previous` is the point before it on its thread, -1 at the first."""

    time: Column
    previous: Column
    following: Column

    @classmethod
    def of(cls, calls: Calls) -> Points:
        """Order the points of every thread. Calls may be nested; an end before its begin is moved to it."""
        count = len(calls)
        time = np.empty(2 * count, np.int64)
        time[0::2], time[1::2] = calls.start, np.maximum(calls.end, calls.start)
        same = calls.thread[1:] == calls.thread[:-1]
        nested = bool((same & (time[1:-1:2] > time[2::2])).any())
        kind = index_type(2 * count)
        if not nested:  # already in order
            previous, following = (np.arange(by, 2 * count + by, dtype=kind) for by in (-1, 1))
            firsts = 2 * np.flatnonzero(~same) + 2  # begins of the first calls of further threads
            previous[firsts] = following[firsts - 1] = following[-1:] = -1
            return cls(time, previous, following)
        order = _nested_order(calls, time)
        thread = np.repeat(calls.thread, 2)[order]
        linked = np.r_[False, thread[1:] == thread[:-1]]
        previous, following = (np.full(2 * count, -1, kind) for _ in range(2))
        at = np.flatnonzero(linked)
        previous[order[at]] = order[at - 1]
        following[order[at - 1]] = order[at]
        return cls(time, previous, following)


def _nested_order(calls: Calls, time: Column) -> Column:
    """Points by thread and time; at one moment ends come before begins, but never before their own begin."""
    rank = np.empty(len(time), np.int8)
    rank[0::2] = 1
    rank[1::2] = np.where(time[1::2] == time[0::2], 2, 0)
    return np.lexsort((np.arange(len(time)), rank, time, np.repeat(calls.thread, 2)))


def handovers(calls: Calls, points: Points) -> tuple[Column, Column]:
    """Begins of calls that another thread of the process made possible, and the point of that thread.

    Nothing records how threads wake each other, so this is inferred: a thread that had been silent goes on (or begins)
    right after the last point of another thread, outside its calls, and that thread is silent while this one makes its
    next calls. It is what a call into an autograd engine, a queue or a pool looks like.
    """
    targets, sources = [], []
    for process in device_work.distinct(calls.process)[0].tolist():
        of_process = calls.process == process
        thread = calls.thread[of_process]
        if (thread == thread[0]).all():
            continue
        mine = np.flatnonzero(np.repeat(of_process, 2)).astype(index_type(len(points.time)))
        merged = mine[np.argsort(points.time[mine], kind="stable")]
        del mine, thread
        owner = device_work.distinct(calls.thread)[1][merged >> 1]
        change = 1 + np.flatnonzero((owner[1:] != owner[:-1]) & (merged[1:] % 2 == 0))
        target, source = merged[change].astype(np.int64), merged[change - 1].astype(np.int64)
        del merged, owner
        time = points.time
        before = points.previous[target]
        silent = np.where(before >= 0, time[target] - time[np.maximum(before, 0)], np.iinfo(np.int64).max)
        onward = target
        for _ in range(3):  # its end, the begin and the end of its next call
            onward = np.where(points.following[onward] >= 0, points.following[onward], onward)
        resumes = points.following[source]
        quiet = (resumes < 0) | (time[np.maximum(resumes, 0)] >= time[onward])
        chosen = (before < 0) | ((silent >= HANDOVER_SILENCE) & quiet & (source % 2 == 1))
        targets.append(target[chosen])
        sources.append(source[chosen])
    if not targets:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(targets), np.concatenate(sources)


@dataclass
class HostWaits:
    """Device nodes that calls waited for: `kind` is an edge kind."""

    node: Column
    call: Column
    kind: Column
    #: Waits whose call is not in the trace, so that no thread is known.
    unplaced: int


def waits_of_streams(
    streams: Streams, waits: Waits, call: Column, when: Column, chosen: Column, kind: int
) -> list[tuple[Column, Column, Column]]:
    """The waits that wait for one stream each."""
    out = []
    for stream in np.unique(waits.stream[chosen]).tolist():
        mine = chosen[waits.stream[chosen] == stream]
        node = streams.before(stream, when[mine])
        out.append((node, call[mine], np.full(len(mine), kind, np.int8)))
    return out


def waits_of_contexts(
    streams: Streams, ids: StreamIds, context: Column, call: Column, when: Column, chosen: Column, kind: int
) -> list[tuple[Column, Column, Column]]:
    """The waits for everything in a context: the latest work of each stream, once until the stream has newer work.

    A context that no stream belongs to stands for its whole process: not every source tells contexts.
    """
    out = []
    known = {ids.context[stream] for stream in streams.bounds}
    for one in np.unique(context[chosen]).tolist():
        mine = chosen[context[chosen] == one]
        mine = mine[np.argsort(when[mine], kind="stable")]
        process = ids.process_of_context[one]
        for stream in streams.bounds:
            belongs = ids.context[stream] == one if one in known else ids.process[stream] == process
            if not belongs:
                continue
            node = streams.before(stream, when[mine])
            new = np.r_[True, node[1:] != node[:-1]]
            out.append((np.where(new, node, -1), call[mine], np.full(len(mine), kind, np.int8)))
    return out


def implicit_waits(
    streams: Streams, ids: StreamIds, calls: Calls, end: Column, kind: int
) -> list[tuple[Column, Column, Column]]:
    """Calls like cudaFree: the work that ended while they ran."""
    names = [i for i, name in enumerate(calls.functions) if name in IMPLICIT]
    at = np.flatnonzero(np.isin(calls.function, names)) if names else np.zeros(0, np.int64)
    out = []
    for stream in streams.bounds if len(at) else ():
        mine = at[calls.process[at] == ids.process[stream]]
        node = streams.before(stream, calls.start[mine])
        ended = np.where(node >= 0, end[np.maximum(node, 0)], NEVER)
        good = (ended > calls.start[mine]) & (ended <= calls.end[mine])
        out.append((np.where(good, node, -1), mine, np.full(len(mine), kind, np.int8)))
    return out


def call_times(waits: Waits, calls: Calls, index: CallIndex) -> tuple[Column, Column]:
    """The call of each wait (-1: not in the trace), and when it began."""
    call = index.find(waits.process, waits.correlation)
    if not len(calls):
        return call, waits.start
    return call, np.where(call >= 0, calls.start[np.maximum(call, 0)], waits.start)
