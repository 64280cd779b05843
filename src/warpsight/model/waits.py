"""Waits of host threads and streams, and the events that they wait for, as columns.

Streams are numbers into :func:`queues`: the queues of the device work (:data:`warpsight.model.work.Work.queue`) and, after them,
streams with only events and waits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model import calls as host_calls
from warpsight.model import work as device_work
from warpsight.model.calls import STREAM_WAIT
from warpsight.model.naming import api_names
from warpsight.model.work import Queue, Work, numbered, protect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Waits of the host, by what they wait for: everything in a stream, everything in a context, an event, listed commands.
OF_STREAM, OF_CONTEXT, OF_EVENT, OF_LIST = (
    ("stream", "finish"),
    ("context",),
    ("event",),
    ("wait for events",),
)
#: A call that the recorder saw blocking (OpenCL's blocking reads and writes).
BLOCKING_CALL = ("blocking call",)
_WHERE = {"process": 0, "device": -1, "context": 0, "stream": 0}
_NO_EVENT = np.iinfo(np.int64).min
_NO_TIME = -1


@dataclass(frozen=True)
class Waits:
    """Rows of table sync that succeeded, by begin (ns).

    Attributes:
        kind: Index into `kinds`.
        event: Unique id of the awaited record if the source has one, else the event; 0 for none.
        queue: Number of the stream in `queues`: the awaited one, or the one that waits.
        call: Index of the call among all calls (:func:`warpsight.model.calls.load` with `api`), or -1.
    """

    start: Column
    end: Column
    kind: Column
    kinds: list[str]
    event: Column
    queue: Column
    process: Column
    context: Column
    call: Column
    queues: tuple[Queue, ...]

    def __len__(self) -> int:
        return len(self.start)

    def of(self, *kinds: str) -> Column:
        """Indices of the waits of some kinds."""
        codes = [place for place, name in enumerate(self.kinds) if name in kinds]
        return np.flatnonzero(np.isin(self.kind, codes)) if codes else np.zeros(0, np.int64)

    @property
    def of_the_host(self) -> Column:
        """Indices of the waits in which a thread was blocked."""
        return self.of(*OF_STREAM, *OF_CONTEXT, *OF_EVENT, *OF_LIST)

    @property
    def of_streams(self) -> Column:
        """Indices of the waits in which a stream waited for an event."""
        return self.of(STREAM_WAIT)


@dataclass(frozen=True)
class EventRecords:
    """Events recorded into streams (table event): `time` is -1 if unknown, the rest is as in :class:`Waits`.

    `handle` is the program's own event, which may be recorded repeatedly; 0 for none.
    """

    time: Column
    event: Column
    handle: Column
    queue: Column
    process: Column
    call: Column

    def __len__(self) -> int:
        return len(self.time)


def load(trace: StoredTrace) -> Waits:
    """All waits of a trace; kept while it is open, and read-only."""
    return trace.kept.get("waits", lambda: _waits(trace))


def records(trace: StoredTrace) -> EventRecords:
    """All recorded events of a trace; kept while it is open, and read-only."""
    return trace.kept.get("event records", lambda: _records(trace))


def queues(trace: StoredTrace) -> tuple[Queue, ...]:
    """All streams of a trace: those with device work, numbered as there, then the others."""
    return trace.kept.get("queues", lambda: _queues(trace))


def queue_numbers(known: Sequence[Queue], columns: dict[str, Column]) -> Column:
    """The queue number of rows with `process`, `device` (-1: unknown), `context` and `stream`, or -1.

    A row without a device matches the first queue with the same other numbers, and a queue without a device matches any row with
    its other numbers. A context belongs to one device, so a row with a context matches the only queue of that context and stream
    whatever its device: some files give waits the wrong device.
    """
    code, rows = numbered([columns[name] for name in _WHERE])
    exact: dict[tuple[int, ...], int] = {
        (q.process, -1 if q.device is None else q.device, q.context, q.stream): i for i, q in enumerate(known)
    }
    loose: dict[tuple[int, ...], int] = {}
    for place, queue in enumerate(known):
        loose.setdefault((queue.process, queue.context, queue.stream), place)
    counts = Counter((queue.process, queue.context, queue.stream) for queue in known)
    found: list[int] = []
    for process, device, context, stream in zip(*(c.tolist() for c in rows), strict=True):
        place = exact.get((process, device, context, stream), -1)
        if place < 0:
            near = loose.get((process, context, stream), -1)
            alone = context > 0 and counts.get((process, context, stream)) == 1
            place = near if near >= 0 and (device < 0 or known[near].device is None or alone) else -1
        found.append(place)
    return np.array(found, np.int32)[code] if found else np.zeros(0, np.int32)


def _queues(trace: StoredTrace) -> tuple[Queue, ...]:
    known = list(device_work.everything(trace).work.queues)
    for table in ("sync", "event"):
        if not trace.count(table):
            continue
        columns, _ = trace.columns(table, _WHERE)
        lost = np.flatnonzero((queue_numbers(known, columns) < 0) & (columns["stream"] >= 0))
        _, rows = numbered([columns[name][lost] for name in _WHERE])
        for process, device, context, stream in zip(*(c.tolist() for c in rows), strict=True):
            known.append(Queue(process, None if device < 0 else device, context, stream))
    return tuple(known)


def _waits(trace: StoredTrace) -> Waits:
    numbers = {
        "start": 0,
        "duration": 0,
        "event": _NO_EVENT,
        "event_sync": _NO_EVENT,
        "result": 0,
        "correlation": -1,
        **_WHERE,
    }
    columns, texts = trace.columns("sync", numbers, ["kind"])
    good = np.flatnonzero(columns["result"] == 0)
    order = good[np.argsort(columns["start"][good], kind="stable")]
    columns = {name: column[order] for name, column in columns.items()}
    call = _calls_of(trace, columns)
    known = queues(trace)
    found = Waits(
        columns["start"], columns["start"] + np.maximum(columns["duration"], 0), columns["kind"], texts["kind"],
        _events(columns), queue_numbers(known, columns), columns["process"], columns["context"], call, known,
    )  # fmt: skip
    protect(found)
    return found


def _records(trace: StoredTrace) -> EventRecords:
    numbers = {"time": _NO_TIME, "event": _NO_EVENT, "event_sync": _NO_EVENT, "correlation": -1, **_WHERE}
    columns, _ = trace.columns("event", numbers)
    number = queue_numbers(queues(trace), columns)
    handle = np.where(columns["event"] == _NO_EVENT, 0, columns["event"])
    call = _calls_of(trace, columns)
    found = EventRecords(columns["time"], _events(columns), handle, number, columns["process"], call)
    protect(found)
    return found


def _events(columns: dict[str, Column]) -> Column:
    """The id of each row's event: the unique one of its record, else the event's own, else 0."""
    own = np.where(columns["event"] == _NO_EVENT, 0, columns["event"])
    return np.where(columns["event_sync"] == _NO_EVENT, own, columns["event_sync"])


def _calls_of(trace: StoredTrace, columns: dict[str, Column]) -> Column:
    correlation = np.where(columns["correlation"] > 0, columns["correlation"], -1)
    return host_calls.load(trace, api=True).of(columns["process"], correlation)


def held_copies(trace: StoredTrace, work: Work) -> Column:
    """Rows of copies and fills whose call blocked its thread until they ended.

    These are synchronous ones and copies from or to pageable memory, if the call returned after the work had ended: the call of a
    copy to the device may return once the data is staged. They also include functions that block by design (hipMemcpyWithStream),
    whatever the file says about the copy. Host and device clocks agree only to some microseconds, so such a call counts if it
    returned after the middle of its copy. A copy to the host returns with the data, so it counts if it returned after its copy
    had begun.
    """
    calls, call = host_calls.of_work(trace, work, api=True)
    rows = np.flatnonzero((work.kind >= device_work.COPY) & (call >= 0))
    if not len(rows):
        return rows
    called = call[rows]
    holds = np.array([api_names.blocks(name) for name in calls.functions], bool)[calls.function[called]]
    ended, start, end = calls.end[called], work.start[rows], work.end[rows]
    held = _synchronous(trace, work, rows) & (ended >= end)
    held |= holds & (ended >= start + np.where(_to_host(trace, work, rows), 0, (end - start) // 2))
    return rows[held]


def _to_host(trace: StoredTrace, work: Work, rows: Column) -> Column:
    """Which of these copies and fills bring data of a device to the host."""
    out = np.zeros(len(rows), bool)
    mine = np.flatnonzero(work.kind[rows] == device_work.COPY)
    if not len(mine):
        return out
    among, source = device_work.everything(trace).copies
    place = rows[mine] if work.source is None else work.source[rows[mine]]
    columns, coded = trace.columns("memcpy", {}, ["kind"])
    kind = columns["kind"][source[np.searchsorted(among, place)]]
    out[mine] = kind == coded["kind"].index("DtoH") if "DtoH" in coded["kind"] else False
    return out


def _synchronous(trace: StoredTrace, work: Work, rows: Column) -> Column:
    """Which copies and fills were issued by a call that does not promise to return at once."""
    whole = device_work.everything(trace)
    place = rows if work.source is None else work.source[rows]
    out = np.zeros(len(rows), bool)
    parts: tuple[tuple[str, int, tuple[Column, Column], list[str]], ...] = (
        ("memcpy", device_work.COPY, whole.copies, ["source_kind", "destination_kind"]),
        ("memset", device_work.SET, whole.sets, []),
    )
    for table, kind, (among, source), texts in parts:
        mine = np.flatnonzero(work.kind[rows] == kind)
        if not len(mine):
            continue
        columns, coded = trace.columns(table, {"asynchronous": 1}, texts)
        row = source[np.searchsorted(among, place[mine])]
        held = columns["asynchronous"][row] == 0
        for name in texts:
            if "pageable" in coded[name]:
                held |= columns[name][row] == coded[name].index("pageable")
        out[mine] = held
    return out


def renumbered(
    waits: Waits, records: EventRecords, chosen: Column, recorded: Column, first: tuple[Queue, ...]
) -> tuple[Waits, EventRecords]:
    """Some of the waits and event records, with streams renumbered: those of `first` first."""
    known = (*first, *(queue for queue in waits.queues if queue not in set(first)))
    place = {queue: number for number, queue in enumerate(known)}
    number = np.array([*(place[queue] for queue in waits.queues), -1], np.int32)  # the last is that of -1

    def taken(found: object, rows: Column) -> dict[str, Any]:
        columns = {
            name: column[rows] for name, column in vars(found).items() if isinstance(column, np.ndarray)
        }
        return columns | {"queue": number[columns["queue"]]}

    return (
        Waits(**taken(waits, chosen), kinds=waits.kinds, queues=known),
        EventRecords(**taken(records, recorded)),
    )
