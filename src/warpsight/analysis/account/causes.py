"""One cause for each gap: its time is shared out among what filled it, and the largest share is the cause.

A gap ends when a piece of work begins. The *call* is the host call that asked for that work. Before the call began the host is
to blame, afterwards the way from the call to the device:

host part, from the gap's begin to the call's begin, in this order, each nanosecond once:
  profiler  the launching thread (or an unknown one) was in the profiler's own work (table overhead)
  sync      the thread waited for the device. A wait that was under way when the device fell idle counts with its full length
            even beyond its end: so much earlier the call would have come without it
  copy      the thread was in a copy call: a synchronous or pageable copy keeps the host
  api       the thread was in another call of the API: allocation, module load, …
  rest      python, when samples of the thread show it running; blocked, when most show it not running; host, without samples
device part, from the call's begin to the work's begin:
  wait      the stream was told to wait for an event (of another stream, device or rank) since its previous work
  copy      the work is a copy or set whose call was still under way: the host staged it
  launch    else: launch latency
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.find import Gaps
from warpsight.analysis.account.host import STREAM_WAIT, Host, Samples
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.calls import Calls
from warpsight.model.work import COPY, Work

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = NDArray[Any]
#: Causes; codes are places in it.
CAUSES = ("python", "host", "blocked", "sync", "copy", "api", "wait", "launch", "profiler", "unknown")
PYTHON, HOST, BLOCKED, SYNC, COPYING, API, WAIT, LAUNCH, PROFILER, UNKNOWN = range(len(CAUSES))
_LONG_AGO = np.iinfo(np.int64).min


@dataclass
class Attribution:
    """What is known about each gap, in the order of the gaps.

    Attributes:
        cause: Index into :data:`CAUSES`.
        after_sync: The launching thread waited for the device when it fell idle.
        process: Process whose work ends the gap, -1 unknown.
        thread: Thread whose call ends the gap, 0 unknown.
        call: That call, -1 unknown.
        samples: Samples of the thread in the host part and outside of calls.
        frame_stack: Stack of one of the samples at the most frequent innermost frame, 0 without samples.
        frame: That frame's id.
        parts: Time by share: profiler, sync, copy, api, rest, device (they add up to the gap).
    """

    cause: Column
    after_sync: Column
    process: Column
    thread: Column
    call: Column
    samples: Column
    frame: Column
    frame_stack: Column
    parts: dict[str, Column]


def attribute(
    trace: Trace, work: Work, gaps: Gaps, issued: Calls, call_of: Column, host: Host
) -> Attribution:
    """The cause of every gap; `call_of` is the call of each row of work."""
    row = np.where(gaps.later >= 0, gaps.later, gaps.earlier)
    process, call = _taken(work.process, row, -1), _taken(call_of, row, -1)
    thread = _taken(issued.thread, call, 0)
    if (call < 0).any():
        for number, only in _only_threads(issued).items():
            thread = np.where((call < 0) & (process == number), only, thread)
    # After its last work a device waits for a call that never came: all of the gap is the host's.
    begun = np.where((call >= 0) & (gaps.later >= 0), _taken(issued.start, call, 0), gaps.end)
    edge = np.clip(begun, gaps.begin, gaps.end)
    none = np.zeros(len(gaps), np.int32)
    found = Attribution(
        np.full(len(gaps), UNKNOWN, np.int8), np.zeros(len(gaps), bool), process, thread, call, none, none.copy(), none.copy(),
        {name: np.zeros(len(gaps), np.int64) for name in ("profiler", "sync", "copy", "api")},
    )  # fmt: skip
    ran = np.zeros(len(gaps), np.int32)
    frames = _frames(trace) if host.samples else np.zeros(1, np.int64)
    code, keys = device_work.numbered([process, thread])
    for i, index in enumerate(device_work.split(code, len(keys[0]))):
        key = (int(keys[0][i]), int(keys[1][i]))
        sets = host.sets(key)
        covered = intervals.merged(*sets)
        near = index[_met(gaps.begin[index], gaps.end[index], covered.start, covered.end)]
        _host_part(found, sets, near, gaps.begin[near], edge[near])
        samples = host.sampled(key)
        kept = ~intervals.contains(covered, samples.time)
        samples = Samples(samples.time[kept], samples.stack[kept], samples.ran[kept])
        near = index[_met(gaps.begin[index], gaps.end[index], samples.time, samples.time)]
        _sampled(found, samples, frames, near, gaps.begin[near], edge[near], ran)
    found.parts["rest"] = edge - gaps.begin - sum(found.parts.values())
    found.parts["device"] = gaps.end - edge
    _decide(trace, work, gaps, issued, call_of, found, ran)
    return found


def _met(begin: Column, end: Column, start: Column, stop: Column) -> Column:
    """Places of the gaps that moments from `start` to `stop` meet or touch, or all of them: most meet none."""
    if not len(start):
        return np.empty(0, np.int64)
    everything = np.arange(len(begin))
    if (begin[1:] < begin[:-1]).any():  # gaps of several devices, for which one thread launched
        return everything
    first, last = np.searchsorted(end, start, "left"), np.searchsorted(begin, stop, "right")
    count = np.maximum(last - first, 0)
    if int(count.sum()) >= len(begin):
        return everything
    place = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    met: Column = (
        place[np.append(True, place[1:] > np.maximum.accumulate(place)[:-1])] if len(place) else place
    )
    return met


def _host_part(
    found: Attribution, sets: tuple[intervals.Intervals, ...], index: Column, begin: Column, edge: Column
) -> None:
    """Shares of the host part of gaps that one thread ended, out of what it was in: profiler, sync, copy, api."""
    waits = sets[1]
    covered, before, left = intervals.EMPTY, np.zeros(len(index), np.int64), edge - begin
    place = np.searchsorted(waits.start, begin, "right") - 1
    under_way = (place >= 0) & (begin <= _taken(waits.end, place, _LONG_AGO)) & (len(waits) > 0)
    credit = np.where(under_way, _taken(waits.end, place, 0) - _taken(waits.start, place, 0), 0)
    found.after_sync[index] = under_way & (edge > begin)
    for name, own in zip(("profiler", "sync", "copy", "api"), sets, strict=True):
        share = np.zeros(len(index), np.int64)
        if len(own):
            covered = intervals.merged(covered, own) if len(covered) else own
            reached = intervals.coverage(covered, begin, edge)
            share, before = reached - before, reached
        share = np.minimum(np.maximum(share, credit) if name == "sync" else share, left)
        found.parts[name][index] = share
        left = left - share


def _frames(trace: Trace) -> Column:
    """The innermost frame of every stack, by the stack's id."""
    ids, frames = (c.to_numpy() for c in trace.sql("SELECT id, frame FROM stack").to_arrow_table().columns)
    out = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
    out[ids] = frames
    return out


def _sampled(
    found: Attribution,
    samples: Samples,
    frames: Column,
    index: Column,
    begin: Column,
    edge: Column,
    ran: Column,
) -> None:
    """Samples in the host part outside of calls: how many, how many of them running, and the most frequent frame."""
    if not len(index):
        return
    first, last = np.searchsorted(samples.time, begin, "left"), np.searchsorted(samples.time, edge, "left")
    count = np.maximum(last - first, 0)
    running_before = np.concatenate([[0], np.cumsum(samples.ran)])
    found.samples[index] = count
    ran[index] = running_before[np.maximum(last, first)] - running_before[first]
    hit = np.flatnonzero(count)
    which = np.repeat(hit, count[hit])
    sample = np.arange(len(which)) - np.repeat(np.cumsum(count[hit]) - count[hit], count[hit]) + first[which]
    stack = samples.stack[sample]
    some = (stack > 0) & (stack < len(frames))
    which, stack = which[some], stack[some]
    if not len(which):
        return
    pairs, at, times = np.unique(which << 32 | frames[stack], return_index=True, return_counts=True)
    order = np.lexsort((times, pairs >> 32))
    best = order[np.append(np.diff(pairs[order] >> 32) != 0, True)]
    chosen = index[pairs[best] >> 32]
    found.frame[chosen] = pairs[best] & 0xFFFFFFFF
    found.frame_stack[chosen] = stack[at[best]]


def _decide(
    trace: Trace, work: Work, gaps: Gaps, issued: Calls, call_of: Column, found: Attribution, ran: Column
) -> None:
    """The largest share is the cause; of equal shares the host's rest comes first, then the way to the device."""
    unsampled = np.where((found.call < 0) | (gaps.later < 0), np.int8(UNKNOWN), np.int8(HOST))
    sampled = np.where(ran * 2 >= found.samples, np.int8(PYTHON), np.int8(BLOCKED))
    found.cause[:] = np.where(found.samples == 0, unsampled, sampled)
    device_cause = np.full(len(gaps), LAUNCH, np.int8)
    if len(work):
        called = (found.call >= 0) & (gaps.later >= 0)
        staged = called & (work.kind[np.maximum(gaps.later, 0)] >= COPY)
        staged[staged] = issued.end[found.call[staged]] >= gaps.end[staged]
        device_cause[staged] = COPYING
        device_cause[called & _waited(trace, work, gaps, issued, call_of, found)] = WAIT
    most = found.parts["rest"].copy()
    rivals = (
        ("device", device_cause),
        ("sync", SYNC),
        ("copy", COPYING),
        ("api", API),
        ("profiler", PROFILER),
    )
    for name, cause in rivals:
        share = found.parts[name]
        larger = share > most
        found.cause[larger] = cause[larger] if isinstance(cause, np.ndarray) else cause
        np.maximum(most, share, out=most)


def _waited(
    trace: Trace, work: Work, gaps: Gaps, issued: Calls, call_of: Column, found: Attribution
) -> Column:
    """Whether the stream of the work after each gap was told to wait since its previous work was asked for."""
    out = np.zeros(len(gaps), bool)
    sql = f"SELECT process, context, stream, start FROM sync WHERE kind = '{STREAM_WAIT}' ORDER BY start"
    process, context, stream, start = (c.to_numpy() for c in trace.sql(sql).to_arrow_table().columns)
    if not len(start):
        return out
    at = _taken(issued.start, found.call, _LONG_AGO)
    queue = _taken(work.queue, gaps.later, -1)
    for number, (own, index) in enumerate(work.per_queue()):
        waits = start[(process == own.process) & (context == own.context) & (stream == own.stream)]
        mine = np.flatnonzero((queue == number) & (found.call >= 0))
        if not len(waits) or not len(mine):
            continue
        place = np.searchsorted(index, gaps.later[mine])
        previous = np.where(place > 0, index[np.maximum(place - 1, 0)], -1)
        asked = _taken(issued.start, _taken(call_of, previous, -1), _LONG_AGO)
        last = np.searchsorted(waits, at[mine], "right") - 1
        out[mine] = (last >= 0) & (waits[np.maximum(last, 0)] >= asked)
    return out


def _taken(values: Column, index: Column, otherwise: int) -> Column:
    """values[index], and `otherwise` where the index is negative."""
    if not len(values):
        return np.full(len(index), otherwise, np.int64)
    out: Column = values[index]  # a negative index takes from the end, which is replaced
    missing = np.flatnonzero(index < 0)
    if len(missing):
        out = out.astype(np.result_type(out, np.min_scalar_type(otherwise)), copy=False)
        out[missing] = otherwise
    return out


def _only_threads(issued: Calls) -> dict[int, int]:
    """Processes in which only one thread launched, with that thread."""
    if not issued.launches:
        return {}
    first = slice(0, issued.launches)
    _code, (processes, threads) = device_work.numbered([issued.process[first], issued.thread[first]])
    counts = {p: processes.tolist().count(p) for p in processes.tolist()}
    return {p: t for p, t in zip(processes.tolist(), threads.tolist(), strict=True) if counts[p] == 1}
