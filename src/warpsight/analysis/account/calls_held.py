"""Time in which host threads were held: API calls that block or take long, and the recorder's own work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base import recorder
from warpsight.model import calls as host_calls
from warpsight.model import waits as model_waits
from warpsight.model.calls import Calls
from warpsight.model.naming import api_names
from warpsight.model.work import Work, numbered

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: An API call that takes this long blocks its caller, whatever its purpose (ns).
LONG = 100_000
#: CUPTI's own cost per recorded call, besides our callbacks: it invokes them and writes records (ns). A program cannot measure
#: this from inside. Fitted on one H200 host by benchmarks/gpu/overhead.py: docs/explanation/overhead.md.
CUPTI_CALL = 1200
#: How much later a kernel begins because CUPTI times it (ns); fitted the same way.
CUPTI_KERNEL = 1000
#: Host waits without a row of their call, by kind of table sync.
_WAITS = {"stream": "stream synchronization", "context": "device synchronization", "event": "event synchronization",
          "finish": "clFinish", "wait for events": "clWaitForEvents"}  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """One axis for the times of all threads: each thread has its own stretch of it.

    `thread` of the calls and of anything else becomes the number of its stretch through :meth:`number`.
    """

    keys: dict[tuple[int, int], int]
    origin: int
    width: int

    def number(self, process: Column, thread: Column) -> Column:
        """The number of each (process, thread), -1 for threads that are not on the axis."""
        if len(self.keys) == 1:
            ((own_process, own_thread),) = self.keys
            return np.where((process == own_process) & (thread == own_thread), 0, -1)
        code, found = numbered([process, thread])
        keys = zip(found[0].tolist(), found[1].tolist(), strict=True)
        place = np.array([self.keys.get(key, -1) for key in keys], np.int64)
        return place[code] if len(place) else np.zeros(0, np.int64)

    def at(self, number: Column, moment: Column) -> Column:
        """The position of a thread's moment on the axis; moments outside are clamped to its ends."""
        out: Column = number * self.width + np.clip(moment - self.origin, 0, self.width - 1)
        return out

    def holds(self, moment: Column) -> Column:
        """Which moments lie on the axis."""
        out: Column = (moment >= self.origin) & (moment < self.origin + self.width)
        return out

    def early(self, moment: Column) -> Column:
        """How far each moment lies before the start of the axis, 0 for moments on it."""
        out: Column = np.maximum(self.origin - moment, 0)
        return out


def axis(process: Column, thread: Column, begin: int, end: int) -> Axis:
    """The axis of some threads from `begin` to `end` (ns)."""
    _, found = numbered([process, thread])
    keys = zip(found[0].tolist(), found[1].tolist(), strict=True)
    return Axis({key: i for i, key in enumerate(keys)}, begin, max(end - begin, 0) + 2)


@dataclass(frozen=True)
class HeldTime:
    """Stretches of an :class:`Axis`, disjoint and ascending; `name` indexes `names`."""

    start: Column
    end: Column
    name: Column
    names: list[str]


def names(calls: Calls) -> list[str]:
    """The names that :func:`blocking_calls` indexes: functions, and waits whose call is not in the trace."""
    return [*calls.functions, *_WAITS.values()]


def blocking_calls(trace: StoredTrace, work: Work, calls: Calls, on: Axis) -> HeldTime:
    """Calls by the threads on the axis that block or take long; of nested calls, only the outermost."""
    held = np.array([api_names.blocks(function) for function in calls.functions], bool)
    gpu = np.array([api_names.is_gpu_api(function) for function in calls.functions], bool)
    chosen = np.zeros(len(calls), bool)
    if len(calls):
        chosen = held[calls.function] | (gpu[calls.function] & (calls.end - calls.start >= LONG))
        chosen[host_calls.of_work(trace, work, api=True)[1][model_waits.held_copies(trace, work)]] = True
    index = np.flatnonzero(chosen)
    number = on.number(calls.process[index], calls.thread[index])
    good = number >= 0
    index, number = index[good], number[good]
    start, end = on.at(number, calls.start[index]), on.at(number, calls.end[index])
    name = calls.function[index].astype(np.int64)
    found = start, end, name, on.early(calls.start[index]), (calls.end - calls.start)[index]
    waits = _waits_without_call(trace, on, len(calls.functions))
    start, end, name, early, length = (np.concatenate(pair) for pair in zip(found, waits, strict=True))
    return _disjoint(start, end, name, names(calls), early, length)


def _waits_without_call(trace: StoredTrace, on: Axis, first: int) -> tuple[Column, ...]:
    """Host waits of table sync whose call is not in the trace: the thread is unknown, so the whole process counts as waiting."""
    none = np.zeros(0, np.int64)
    waits = model_waits.load(trace)
    lone = waits.of(*_WAITS)
    lone = lone[waits.call[lone] < 0]
    if not len(lone):
        return none, none, none, none, none
    code = np.array([list(_WAITS).index(kind) if kind in _WAITS else -1 for kind in waits.kinds], np.int64)
    parts = []
    for (process, _), number in on.keys.items():
        mine = lone[waits.process[lone] == process]
        where = np.full(len(mine), number)
        name = code[waits.kind[mine]] + first
        begin, end = waits.start[mine], waits.end[mine]
        parts.append((on.at(where, begin), on.at(where, end), name, on.early(begin), end - begin))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def recorder_work(trace: StoredTrace, on: Axis) -> HeldTime:
    """Known work of the recorder itself on the threads of the axis.

    Rows without a thread count for all of the process.
    """
    none = np.zeros(0, np.int64)
    if not trace.count("overhead"):
        return HeldTime(none, none, none, [])
    columns, texts, index = recorder.stretches(trace)
    parts = [(index, on.number(columns["process"][index], columns["thread"][index]))]
    anywhere = index[columns["thread"][index] == recorder.NO_THREAD]
    for (process, _), place in on.keys.items() if len(anywhere) else ():
        mine = anywhere[columns["process"][anywhere] == process]
        parts.append((mine, np.full(len(mine), place)))
    index, number = (np.concatenate(column) for column in zip(*parts, strict=True))
    index, number = index[number >= 0], number[number >= 0]
    begin, length = columns["start"][index], columns["duration"][index]
    start, end = on.at(number, begin), on.at(number, begin + length)
    return _disjoint(start, end, columns["kind"][index].astype(np.int64), texts, on.early(begin), length)


def own_time(trace: StoredTrace, calls: Calls, on: Axis) -> tuple[Column, Column]:
    """Moments of the axis, ascending, at which the recorder's callbacks ran after calls and in ranges, and how long each (ns).

    The recorder times some of its callbacks; each counts with the mean of its kind. Traces of others have none.
    """
    cost = trace.manifest.get("overhead") or {}
    at, took = [np.zeros(0, np.int64)], [np.zeros(0)]
    opencl = np.array([function.startswith("cl") for function in calls.functions], bool)
    for site, known, besides in (("cuda", ~opencl, CUPTI_CALL), ("opencl", opencl, 0)):
        if not cost.get(f"own_{site}_calls") or not len(calls):
            continue
        number = on.number(calls.process, calls.thread)
        rows = np.flatnonzero((number >= 0) & known[calls.function] & on.holds(calls.end))
        at.append(on.at(number[rows], calls.end[rows]))
        # Each call enters the recorder twice; the first time is before the call's start, but takes about as long.
        each = (cost.get(f"own_{site}_ns") or 0) / cost[f"own_{site}_calls"]
        took.append(np.full(len(rows), besides + 2 * each))
    if cost.get("own_range_calls") and trace.count("marker"):
        columns, _ = trace.columns("marker", {"start": 0, "duration": -1, "process": 0, "thread": 0})
        number = on.number(columns["process"], columns["thread"])
        rows = np.flatnonzero((number >= 0) & (columns["duration"] >= 0))
        for moment in (columns["start"], columns["start"] + columns["duration"]):
            there = rows[on.holds(moment[rows])]
            at.append(on.at(number[there], moment[there]))
            took.append(np.full(len(there), (cost.get("own_range_ns") or 0) / cost["own_range_calls"]))
    moments, lengths = np.concatenate(at), np.concatenate(took)
    order = np.argsort(moments, kind="stable")
    return moments[order], lengths[order]


def stamping_time(trace: StoredTrace) -> int:
    """How much later work begins because it is timed, if known (ns)."""
    return CUPTI_KERNEL if (trace.manifest.get("overhead") or {}).get("own_cuda_calls") else 0


def _disjoint(
    start: Column, end: Column, name: Column, names: list[str], early: Column, length: Column
) -> HeldTime:
    """Sorted stretches without overlap: drops those inside an earlier one and cuts off what extends past one.

    Of those that begin at one place the longest counts, whether it ends on the axis or beyond (`length`, ns); of those that the
    axis cuts off there, the first to begin (`early` is how long before the axis, ns).
    """
    order = np.lexsort((-length, -early, start))
    start, end, name = start[order], end[order], name[order]
    before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]]) if len(end) else end
    start = np.maximum(start, before)
    real = end > start
    return HeldTime(start[real], end[real], name[real], names)
