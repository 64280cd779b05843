"""The first rocprof's JSON: Chrome events whose tracks are GPUs, copies and APIs, with arrows from calls to work.

An arrow begins somewhere inside its call and ends where the work begins, in whole microseconds; arguments have the times in ns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.formats.reading.json_pieces import decode, mapped
from warpsight_plugins.rocprof.recording import RocprofRecording, kernel_name

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

Array = npt.NDArray[Any]
_GPU, _COPY, _API = re.compile(r"GPU ?(\d+)$"), re.compile(r"COPY$"), re.compile(r"CPU .*API$")


class _Event(msgspec.Struct, gc=False):
    """An event; numbers may be strings."""

    ph: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: int | str = 0
    id: int | str = 0
    args: dict[str, Any] = {}


class _Document(msgspec.Struct):
    """The file."""

    events: list[_Event] = msgspec.field(name="traceEvents", default_factory=list)


def read_tracing(source: Source, target: Target) -> None:
    """Read a document.

    Raises:
        FormatError: when it is damaged.
    """
    with mapped(source) as data:
        events = decode(source, data, _Document).events
    tracks = {
        str(e.pid): str(e.args.get("name", "")) for e in events if e.ph == "M" and e.name == "process_name"
    }
    timed = [e for e in events if e.ph == "X" and _number(e.args.get("BeginNs")) is not None]
    calls = [e for e in timed if _API.match(tracks.get(str(e.pid), ""))]
    kernels = [e for e in timed if _GPU.match(tracks.get(str(e.pid), ""))]
    copies = [e for e in timed if _COPY.match(tracks.get(str(e.pid), ""))]
    target.source.update(tool="rocprof", clock="ns of the GPU's clock, as the host's")
    _Reader(target, tracks, _Arrows(events, calls)).read(calls, kernels, copies)
    if left := len(timed) - len(calls) - len(kernels) - len(copies):
        target.lost(left, "events on tracks other than GPU, copy and API tracks are not kept", "event")


def _number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _times(events: list[_Event]) -> tuple[Array, Array]:
    begin = np.array([_number(e.args.get("BeginNs")) for e in events], np.int64)
    end = np.array([_number(e.args.get("EndNs")) or 0 for e in events], np.int64)
    return begin, np.maximum(begin, end)


class _Arrows:
    """Correlation ids by what the arrows join: work gets the number of its call, counted from 1."""

    def __init__(self, events: list[_Event], calls: list[_Event]) -> None:
        begin, end = _times(calls)
        by_track: dict[tuple[str, str], list[int]] = {}
        for number in np.argsort(begin, kind="stable").tolist():
            by_track.setdefault((str(calls[number].pid), str(calls[number].tid)), []).append(number)
        sources = {str(e.id): e for e in events if e.ph == "s"}
        self._of_work: dict[tuple[str, str, int], int] = {}
        for event in events:
            arrow = sources.get(str(event.id)) if event.ph in "tf" and event.ph else None
            at, time = (None, None) if arrow is None else (_number(arrow.ts), _number(event.ts))
            if arrow is None or at is None or time is None:
                continue
            track = np.array(by_track.get((str(arrow.pid), str(arrow.tid)), []), np.int64)
            place = int(np.searchsorted(begin[track], at * 1000 + 999, "right")) - 1 if len(track) else -1
            if place >= 0 and end[track[place]] >= at * 1000:
                self._of_work[str(event.pid), str(event.tid), time] = int(track[place]) + 1

    def of(self, events: list[_Event]) -> pa.Array:
        """The correlation id of each piece of work, null if no arrow ends at it."""
        keys = ((str(e.pid), str(e.tid), _number(e.ts) or 0) for e in events)
        return pa.array([self._of_work.get(key) for key in keys], pa.int64())


class _Reader:
    def __init__(self, target: Target, tracks: dict[str, str], arrows: _Arrows) -> None:
        self._target, self._tracks, self._arrows = target, tracks, arrows
        self._recording = RocprofRecording(target)

    def read(self, calls: list[_Event], kernels: list[_Event], copies: list[_Event]) -> None:
        """All rows."""
        names = self._recording.names([kernel_name(e.args.get("Name") or e.name) for e in kernels])
        nothing = pa.nulls(len(kernels), pa.int32())
        self._recording.add_kernels(
            *_times(kernels), names, nothing, self._places(kernels), self._arrows.of(kernels)
        )
        size = np.zeros(len(copies), np.int64)
        self._recording.add_copies(*_times(copies), size, [e.name for e in copies], self._places(copies),
                                   self._arrows.of(copies))  # fmt: skip
        if calls:
            process = [self._process(e) for e in calls]
            thread = [
                self._target.thread(owner, _number(e.args.get("tid")) or _number(e.tid) or 0)
                for owner, e in zip(process, calls, strict=True)
            ]
            self._recording.add_calls(*_times(calls), [e.name for e in calls], np.array(thread), np.array(process),
                                      pa.array(range(1, len(calls) + 1), pa.int64()))  # fmt: skip

    def _process(self, event: _Event) -> int:
        return self._target.process(_number(event.args.get("pid")) or 0)

    def _places(self, events: list[_Event]) -> dict[str, Any]:
        process = np.array([self._process(e) for e in events], np.int64)
        devices = [self._device(e) for e in events]
        stream = np.array([_number(e.args.get("stream-id")) or 0 for e in events], np.int64)
        return self._recording.places(process, devices, stream)

    def _device(self, event: _Event) -> int:
        track = _GPU.match(self._tracks.get(str(event.pid), ""))
        number = _number(event.args.get("dev-id"))
        number = int(track[1]) if number is None and track else number or 0
        return self._recording.agent((self._target.scope, "gpu", number), index=number)
