"""The state of every stream at every moment: running, waiting, queued, complete or idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result, with_units
from warpsight.analysis.base.tables import table
from warpsight.analysis.stats.utilization import nothing
from warpsight.model import calls, intervals
from warpsight.model import work as device_work
from warpsight.model.calls import STREAM_WAIT, Calls
from warpsight.model.intervals import Intervals
from warpsight.model.selection import Rows
from warpsight.model.work import Queue, Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
#: In order of priority for a moment that fits several.
STATES = ("running", "waiting", "queued", "complete", "idle")


def states(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """How long each stream was in each state; the times of a stream add up to the window exactly.

    running   at least one kernel, copy or set of the stream ran
    waiting   none ran, one was launched but had not begun, and before it the stream was made to wait for an event
    queued    none ran, one was launched (its call had begun) but had not begun
    complete  nothing ran or was queued, and a host call that waits for the stream, its context or its device had not returned
    idle      none of these

    Returns:
        Table `streams`: process, device, context, stream, window and the five times, in ns.
    """
    work = device_work.load(trace, rows)
    found: list[dict[str, Any]] = []
    for queue, sets in _all(trace, work):
        row: dict[str, Any] = {"process": queue.process, "device": queue.device, "context": queue.context, "stream": queue.stream,
               "window": work.window}  # fmt: skip
        busy = 0
        for state, whole in zip(STATES, sets, strict=False):
            row[state] = whole.total
            busy += whole.total
        found.append({**row, "idle": work.window - busy})
    found.sort(key=lambda row: -row["running"])
    spec = "process:int32 device:int16 context:int64 stream:int64 window:int64:ns " + " ".join(
        f"{s}:int64:ns" for s in STATES
    )
    return Result({"streams": table(spec, found)}, doubts(work) + nothing(work) + _unqueued(trace, work))


def state_history(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Every stretch of every stream in one state, by stream and time; together they cover the window.

    Returns:
        Table `history`: process, device, context, stream, begin, duration (ns), state.
    """
    work = device_work.load(trace, rows)
    parts = []
    for queue, sets in _all(trace, work):
        pieces = [*sets, intervals.complement(intervals.merged(*sets), work.begin, work.finish)]
        start = np.concatenate([s.start for s in pieces])
        end = np.concatenate([s.end for s in pieces])
        state = np.repeat(np.arange(len(pieces), dtype=np.int8), [len(s) for s in pieces])
        order = np.argsort(start, kind="stable")
        same = {"process": (queue.process, pa.int32()), "device": (queue.device, pa.int16()),
                "context": (queue.context, pa.int64()), "stream": (queue.stream, pa.int64())}  # fmt: skip
        columns = {name: pa.repeat(pa.scalar(*value), len(order)) for name, value in same.items()}
        coded = pa.DictionaryArray.from_arrays(pa.array(state[order]), list(STATES))
        parts.append(
            pa.table({**columns, "begin": start[order], "duration": (end - start)[order], "state": coded})
        )
    spec = (
        "process:int32 device:int16 context:int64 stream:int64 begin:int64:ns duration:int64:ns state:string"
    )
    empty = table(spec, [])
    history = with_units(pa.concat_tables(parts), begin="ns", duration="ns") if parts else empty
    return Result({"history": history}, doubts(work) + nothing(work) + _unqueued(trace, work))


def _all(trace: StoredTrace, work: Work) -> list[tuple[Queue, list[Intervals]]]:
    """For each stream the disjoint sets of its first four states."""
    issued, call = calls.of_work(trace, work, api=True)
    waits, syncs = _waits(trace)
    out = []
    for queue, index in work.per_queue():
        running = intervals.union(work.start[index], work.end[index])
        asked = (
            np.where(call[index] >= 0, issued.start[call[index]], work.start[index])
            if len(issued)
            else work.start[index]
        )
        asked = np.clip(np.minimum(asked, work.start[index]), work.begin, work.finish)
        held = _held(waits, queue, issued, call[index])
        queued = intervals.union(asked, work.start[index])
        waiting = intervals.union(asked[held], work.start[index][held])
        complete = intervals.clipped(_joined(syncs, queue), work.begin, work.finish)
        sets, taken = [running], running
        for whole in (waiting, queued, complete):
            sets.append(intervals.difference(whole, taken))
            taken = intervals.merged(taken, whole) if len(whole) else taken
        out.append((queue, sets))
    return out


def _waits(trace: StoredTrace) -> tuple[dict[str, Column], dict[str, Column]]:
    """Waits of streams for events, and waits of the host, as columns; `wide` waits are for more than one stream."""
    names = ("process", "context", "stream", "start", "duration", "wide", "whole")
    sql = "SELECT process, context, stream, start, duration, kind <> 'stream', kind = 'context' FROM sync WHERE {} ORDER BY start"
    out = []
    for condition in (f"kind = '{STREAM_WAIT}'", f"kind <> '{STREAM_WAIT}'"):
        columns = [c.to_numpy() for c in trace.sql(sql.format(condition)).to_arrow_table().columns]
        out.append(dict(zip(names, columns, strict=True)))
    return out[0], out[1]


def _held(waits: dict[str, Column], queue: Queue, issued: Calls, call: Column) -> Column:
    """Which of a stream's rows had an earlier request to wait, made after the call of the row before."""
    own = (
        (waits["process"] == queue.process)
        & (waits["context"] == queue.context)
        & (waits["stream"] == queue.stream)
    )
    times = waits["start"][own]
    if not len(times) or not len(call) or not len(issued):
        return np.zeros(len(call), bool)
    asked = np.where(call >= 0, issued.start[np.maximum(call, 0)], np.iinfo(np.int64).min)
    previous = np.concatenate([[np.iinfo(np.int64).min], asked[:-1]])
    last = np.searchsorted(times, asked, "right") - 1
    held: Column = (call >= 0) & (last >= 0) & (times[np.maximum(last, 0)] >= previous)
    return held


def _joined(syncs: dict[str, Column], queue: Queue) -> Intervals:
    """The moments at which a host call waited for this stream, or for its whole context or process."""
    own = syncs["process"] == queue.process
    inside = syncs["context"] == queue.context
    named = inside & (
        (syncs["stream"] == queue.stream) | (syncs["wide"] & (syncs["stream"] == 0)) | syncs["whole"]
    )
    chosen = own & (named | (syncs["wide"] & (syncs["context"] == 0)))
    start = syncs["start"][chosen]
    return intervals.union(start, start + np.maximum(syncs["duration"][chosen], 0))


def _unqueued(trace: StoredTrace, work: Work) -> tuple[Finding, ...]:
    """The finding that the trace does not record when work was launched."""
    if not len(work) or trace.count("launch") or trace.count("api"):
        return ()
    return (Finding("note", "the trace has no host calls: queued time cannot be separated from idle time"),)
