"""Trace Event JSON of vendors' tools: their common dialect has the form of Chrome's traces, with details in the names.

A file is read twice, because names of processes and threads may follow the events they belong to. Times are decimals of
microseconds and become nanoseconds without passing through a float.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from warpsight.formats.chrome.stream import EventStream
from warpsight.formats.chrome.times import MISSING, nanoseconds

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

PIECE = 65_536
_NOTHING = msgspec.Raw(b"null")


class _Event(msgspec.Struct, gc=False):
    ph: Any = ""
    name: Any = ""
    cat: Any = ""
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING
    id: Any = None
    args: Any = None


class TraceEvent(NamedTuple):
    """One event; `start` and `duration` in ns, duration -1 if missing."""

    phase: str
    name: str
    category: str
    pid: Any
    tid: Any
    start: int
    duration: int
    id: Any
    args: dict[str, Any]


class TrackNames(NamedTuple):
    """Names by pid, and by (pid, tid); labels by pid."""

    processes: dict[Any, str]
    threads: dict[tuple[Any, Any], str]
    labels: dict[Any, str]


def names(source: Source) -> TrackNames:
    """The metadata events of a file.

    Raises:
        FormatError: when it is not trace event JSON.
    """
    found = TrackNames({}, {}, {})
    for piece in EventStream(source, _decoder()):
        for event in piece:
            if event.ph != "M" or not isinstance(event.args, dict):
                continue
            pid, tid = key(event.pid), key(event.tid)
            if event.name == "process_name":
                found.processes[pid] = str(event.args.get("name", ""))
            elif event.name == "thread_name":
                found.threads[pid, tid] = str(event.args.get("name", ""))
            elif event.name == "process_labels":
                found.labels[pid] = str(event.args.get("labels", ""))
    return found


def events(source: Source, target: Target | None) -> Iterator[TraceEvent]:
    """The events of a file without metadata; events without a usable time count as lost, if there is a target.

    Raises:
        FormatError: when it is not trace event JSON.
    """
    lost = 0
    stream = EventStream(source, _decoder())
    for piece in stream:
        start, length = nanoseconds([e.ts for e in piece]), nanoseconds([e.dur for e in piece])
        for event, begin, took in zip(piece, start.tolist(), length.tolist(), strict=True):
            if event.ph == "M":
                continue
            if begin == MISSING:
                lost += 1
                continue
            yield TraceEvent(
                str(event.ph), str(event.name), str(event.cat or ""), key(event.pid), key(event.tid), begin,
                -1 if took == MISSING else took, event.id, event.args if isinstance(event.args, dict) else {},
            )  # fmt: skip
    if target is None:
        return
    if lost:
        target.lost(lost, f"{source.name}: events without a time", "event")
    if stream.damaged:
        target.lost(len(stream.damaged), f"{source.name}: damaged places that were skipped", "event")


def key(value: object) -> object:
    """A pid or tid; numeric strings become numbers."""
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _decoder() -> Callable[[bytes], list[_Event]]:
    return msgspec.json.Decoder(list[_Event]).decode


def whole(value: object) -> int | None:
    """The integer value of a JSON number or numeric string; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else None
    if isinstance(value, str):
        try:
            number = int(value.strip(), 0)
        except ValueError:
            return None
        return number if abs(number) < 2**63 else None
    return None


def range_row(event: TraceEvent, **columns: object) -> dict[str, Any]:
    """A row of table `marker` for a range, or for a mark if the event has no duration; `columns` adds to it."""
    return {
        "start": event.start,
        "duration": None if event.duration < 0 else event.duration,
        "open": False,
        "attributes": json.dumps(event.args, ensure_ascii=False) if event.args else None,
        **columns,
    }


class Pairs:
    """Begin and end events of threads, matched innermost first."""

    def __init__(self) -> None:
        self._open: dict[tuple[Any, Any], list[TraceEvent]] = {}

    def take(self, event: TraceEvent) -> TraceEvent | None:
        """The complete event once its end has arrived; None before."""
        stack = self._open.setdefault((event.pid, event.tid), [])
        if event.phase == "B":
            stack.append(event)
            return None
        if not stack:
            return None
        begun = stack.pop()
        return begun._replace(phase="X", duration=max(event.start - begun.start, 0))

    def rest(self) -> list[TraceEvent]:
        """Events whose end never came."""
        return [event for stack in self._open.values() for event in stack]


class RowBuffer:
    """Rows of several tables, passed on in pieces."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._waiting: dict[str, list[dict[str, Any]]] = {}

    def add(self, table: str, /, **row: object) -> None:
        """One row, by its columns."""
        waiting = self._waiting.setdefault(table, [])
        waiting.append(row)
        if len(waiting) >= PIECE:
            self._target.add(table, waiting)
            self._waiting[table] = []

    def close(self) -> None:
        """Hand over the rest."""
        for table, waiting in self._waiting.items():
            if waiting:
                self._target.add(table, waiting)
        self._waiting.clear()
