"""Reading Chrome's Trace Event Format (the public document "Trace Event Format", and what tools make of it).

The file is read twice, because names of processes and threads may follow the events they belong to, and three times if arrows
lead from calls to device work.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from warpsight.formats.chrome.arrows import LaunchArrows
from warpsight.formats.chrome.events import ChromeEvent, decode, text
from warpsight.formats.chrome.nested import NestedWork
from warpsight.formats.chrome.rows import RowBuilder
from warpsight.formats.chrome.stream import EventStream
from warpsight.formats.chrome.times import MISSING, nanoseconds
from warpsight.formats.chrome.tracks import Tracks
from warpsight.formats.registry import Coverage, Options
from warpsight.formats.source import Source
from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "array and object forms, closed or not; CUPTI's and warpsight's dialects as device work and calls, "
        "the rest as ranges with arguments",
    ),
    lost=(
        "arrows, unless they lead from a call to its device work; phases N, O, D, V, P and `stackFrames`: counted in `loss`",
        "foreign colors, thread clocks, flow binding points",
        "of warpsight's export without rows: `void` and mangling in names, frames past the 32nd, graph ids, "
        "memory kinds of copies",
    ),
    tested=(
        "warpsight's export; every phase of the specification; CUPTI's, RPD's, TensorFlow's and XProf's dialects",
    ),
)


def sniff(source: Source) -> bool:
    """Recognize JSON with the fields that every trace event has."""
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] == b"{":
        return b'"traceEvents"' in head
    return head[:1] == b"[" and b'"ph"' in head and b'"ts"' in head


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file of any dialect."""
    tracks = Tracks(target)
    first, arrows = EventStream(source, decode), LaunchArrows(tracks)
    for events in first:
        tracks.learn(events)
        arrows.learn(events)
    if arrows.launching():
        for events in EventStream(source, decode):
            arrows.find(events)
        arrows.join()
    other = first.header.get("otherData")
    metadata = other if isinstance(other, dict) else {}
    reading = _Reading(target, tracks, arrows, own=metadata.get("recorder") == "warpsight")
    for events in EventStream(source, decode):
        reading.piece(events)
    if not reading.events:
        raise source.error("holds no trace events")
    reading.close()
    target.source.update({
        "tool": text(metadata.get("recorder")) or "Chrome trace events", "version": metadata.get("version"),
        "clock": text(metadata.get("clock")) or "unknown",
    })  # fmt: skip
    frames = first.header.get("stackFrames")
    if frames:
        target.lost(
            len(frames) if isinstance(frames, (dict, list)) else 1,
            "sampled stacks are not kept",
            "stack frame",
        )
    for place in first.damaged:
        target.lost(1, f"{source.name} is damaged at byte {place:,}: events there were skipped", "event")


class _Reading:
    def __init__(self, target: Target, tracks: Tracks, arrows: LaunchArrows, *, own: bool) -> None:
        self.target = target
        self._tracks, self._arrows, self._drawn = tracks, arrows, 0
        self.rows = RowBuilder(target, tracks, own=own)
        self.events = 0
        self._begun: dict[tuple[Any, Any], list[tuple[ChromeEvent, int]]] = {}
        self._async: dict[tuple[Any, ...], list[tuple[ChromeEvent, int]]] = {}
        self._lost: Counter[str] = Counter()
        self._nested = NestedWork[tuple[ChromeEvent, int | None]]()
        self._without_length = 0
        self._negative = 0

    def piece(self, events: list[ChromeEvent]) -> None:
        self.events += len(events)
        times = nanoseconds([e.ts for e in events]).tolist()
        lengths = nanoseconds([bytes(e.dur) or b"0" for e in events]).tolist()
        for event, time, length in zip(events, times, lengths, strict=True):
            phase = event.ph
            if phase == "M" or not (phase or event.name):  # some writers end their list with an empty object
                continue
            if time == MISSING:
                self._lost["events without a readable time"] += 1
            elif phase == "X" and not self._tracks.repeated(event):
                self._complete(event, time, length)
            elif phase != "X":
                self._other(event, time)
        self.rows.flush()

    def _complete(self, event: ChromeEvent, time: int, length: int) -> None:
        if not bytes(event.dur):
            self.rows.complete(event, time, None)
            return
        if length == MISSING:
            self._without_length += 1
        elif length < 0:
            self._negative += 1
        length = max(length, 0)
        correlation = self._arrows.correlation(event, time, length)
        if self._tracks.nests(event):
            self._nested.add(str(event.tid), time, length, (_detached(event), correlation))
        else:
            self.rows.complete(event, time, length, correlation=correlation)

    def _other(self, event: ChromeEvent, time: int) -> None:
        phase = event.ph
        if phase == "B":
            self._begun.setdefault((str(event.pid), str(event.tid)), []).append((_detached(event), time))
        elif phase == "E":
            self._end(self._begun.get((str(event.pid), str(event.tid)), []), time, "push/pop")
        elif phase in ("b", "S"):
            self._async.setdefault(_identity(event), []).append((_detached(event), time))
        elif phase in ("e", "F"):
            self._end(self._async.get(_identity(event), []), time, "start/end")
        elif phase in ("i", "I", "R", "n", "T"):
            self.rows.instant(event, time)
        elif phase == "C":
            self.rows.counter(event, time)
        elif phase in ("s", "t", "f"):
            ours = text(event.name) == "launch" and text(event.cat) == "flow"
            self._drawn += not ours and not self._arrows.leads(event)
        else:
            self._lost[f"events of phase {text(phase)[:20] or 'none'}"] += 1

    def _end(self, begun: list[tuple[ChromeEvent, int]], time: int, kind: str) -> None:
        if not begun:
            self._lost["ends of ranges that never began"] += 1
            return
        event, start = begun.pop()
        self.rows.complete(event, start, max(time - start, 0), kind=kind)

    def close(self) -> None:
        """Leave ranges without an end open, and note everything that was not kept."""
        for open_ranges, kind in ((self._begun, "push/pop"), (self._async, "start/end")):
            for begun in open_ranges.values():
                for event, start in begun:
                    self.rows.complete(event, start, None, kind=kind)
        for (event, correlation), start, duration in self._nested.pieces():
            self.rows.complete(event, start, duration, correlation=correlation)
        self.rows.flush()
        for cause, count in self._lost.items():
            self.target.lost(count, f"{cause} are not kept", "event")
        if self._drawn:
            self.target.lost(self._drawn, "arrows between events are not kept", "event", severity="note")
        if self._without_length:
            self.target.lost(self._without_length, "unreadable durations, set to 0", "event")
        if self._negative:
            self.target.negative_durations(self._negative, "event")


def _identity(event: ChromeEvent) -> tuple[Any, ...]:
    """Asynchronous ranges are joined by category and id; a local id counts within its process."""
    if isinstance(event.id2, dict):
        local = event.id2.get("local")
        if local is not None:
            return text(event.cat), str(event.pid), str(local)
        return text(event.cat), str(event.id2.get("global"))
    return text(event.cat), str(event.id)


def _detached(event: ChromeEvent) -> ChromeEvent:
    """The event, copied so that it no longer refers to the piece it was read from."""
    args = type(event.args)(bytes(event.args))
    return ChromeEvent(ph=event.ph, cat=event.cat, name=event.name, pid=event.pid, tid=event.tid, args=args)
