"""Events of mcTracer as rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.trace_events import (
    Pairs,
    RowBuffer,
    TraceEvent,
    TrackNames,
    events,
    names,
    range_row,
    whole,
)

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

_CALL = re.compile(r"^(mc|hc|wmc|mcc|cu|cuda)[A-Z]\w*$")
_LAUNCH = re.compile(r"^(mc|hc|cu|cuda)(Module|Graph|Ext)?Launch(?!HostFunc)")
_DIRECTION = re.compile(r"([HDP])(?:to|2)([HDP])", re.IGNORECASE)


def read_events(source: Source, target: Target) -> None:
    """Read one file.

    Raises:
        FormatError: when it is not trace event JSON.
    """
    reader = _Reader(target, names(source))
    pairs = Pairs()
    for event in events(source, target):
        found = pairs.take(event) if event.phase in ("B", "E") else event
        if found is not None and found.phase in ("X", "i", "I"):
            reader.take(found)
    for event in pairs.rest():
        reader.range(event, still_open=True)
    reader.rows.close()
    target.source.update(tool="mcTracer", clock="ns as the file counts them")


def _given(args: dict[str, Any], *spellings: str) -> object:
    """The first argument with one of these names, ignoring case, spaces and underscores."""
    plain = {re.sub(r"[^a-z]", "", name.lower()): value for name, value in args.items()}
    return next((plain[name] for name in spellings if name in plain), None)


class _Reader:
    def __init__(self, target: Target, known: TrackNames) -> None:
        self._target = target
        self._names = known
        self.rows = RowBuffer(target)

    def take(self, event: TraceEvent) -> None:
        """Put an event into its table."""
        stream = _given(event.args, "stream", "streamid", "queue", "queueid")
        if _CALL.match(event.name) and stream is None:
            self._call(event)
        elif stream is not None and event.phase == "X" and not _CALL.match(event.name):
            self._device(event, stream)
        elif _CALL.match(event.name):
            self._call(event)
        else:
            self.range(event)

    def _process(self, event: TraceEvent) -> int:
        return self._target.process(event.pid, command=self._names.processes.get(event.pid))

    def _thread(self, process: int, event: TraceEvent) -> int:
        return self._target.thread(process, event.tid, self._names.threads.get((event.pid, event.tid)))

    def _call(self, event: TraceEvent) -> None:
        process = self._process(event)
        row = {
            "start": event.start,
            "duration": max(event.duration, 0),
            "function": event.name,
            "thread": self._thread(process, event),
            "correlation": whole(_given(event.args, "correlationid", "correlation", "corrid")),
            "process": process,
        }
        launch = bool(_LAUNCH.match(event.name))
        self.rows.add("launch" if launch else "api", **row, **({"captured": False} if launch else {}))

    def _device(self, event: TraceEvent, stream: object) -> None:
        process = self._process(event)
        number = whole(_given(event.args, "device", "deviceid", "gpu")) or 0
        device = self._target.device(
            (self._target.scope, "device", number),
            index=number,
            vendor="MetaX",
            platform="maca",
            name=f"device {number}",
        )
        context = self._target.context(
            process, whole(_given(event.args, "context", "contextid")) or 0, device=device, api="maca"
        )
        found = whole(stream)
        row = {
            "start": event.start,
            "duration": max(event.duration, 0),
            "device": device,
            "context": context,
            "stream": self._target.stream(
                process, context, str(stream) if found is None else found, device=device
            ),
            "correlation": whole(_given(event.args, "correlationid", "correlation", "corrid")),
            "process": process,
        }
        lower = event.name.lower()
        size = whole(_given(event.args, "bytes", "size", "sizebytes")) or 0
        if "memcpy" in lower:
            self._copy(event, size, row)
        elif "memset" in lower:
            self.rows.add(
                "memset",
                **row,
                bytes=size,
                value=whole(_given(event.args, "value")) or 0,
                memory_kind="device",
                asynchronous=True,
            )
        else:
            self.rows.add(
                "kernel",
                **row,
                name_id=self._target.name(event.name),
                shape_id=self._shape(event.args),
                graph_level=False,
            )

    def _copy(self, event: TraceEvent, size: int, row: dict[str, Any]) -> None:
        found = _DIRECTION.search(event.name)
        sides = (found[1].upper(), found[2].upper()) if found else None
        words = {"H": "host", "D": "device", "P": "device"}
        self.rows.add(
            "memcpy",
            **row,
            bytes=size,
            kind=f"{sides[0]}to{sides[1]}" if sides else "unknown",
            source_kind=words[sides[0]] if sides else "unknown",
            destination_kind=words[sides[1]] if sides else "unknown",
            asynchronous="async" in event.name.lower(),
        )

    def _shape(self, args: dict[str, Any]) -> int | None:
        grid, block = _three(_given(args, "grid", "griddim")), _three(_given(args, "block", "blockdim"))
        if not any(grid) and not any(block):
            return None
        return self._target.shape(
            grid_x=grid[0], grid_y=grid[1], grid_z=grid[2], block_x=block[0], block_y=block[1], block_z=block[2],
            registers=whole(_given(args, "registersperthread", "registers")) or 0,
            shared_dynamic=whole(_given(args, "sharedmemory", "dynamicsharedmemory")) or 0,
        )  # fmt: skip

    def range(self, event: TraceEvent, still_open: bool = False) -> None:
        """A range or mark of the program."""
        process = self._process(event)
        row = range_row(
            event,
            kind="push/pop" if still_open or event.duration >= 0 else "instant",
            open=still_open,
            name_id=self._target.name(event.name),
            domain=event.category or None,
            source="mctx",
            thread=self._thread(process, event),
            process=process,
        )
        self.rows.add("marker", **row)


def _three(value: object) -> tuple[int, int, int]:
    """Three sizes from `[8, 1, 1]`, `8,1,1`, `(8, 1, 1)` or `{x: 8, …}`."""
    if isinstance(value, dict):
        value = [value.get(axis, 1) for axis in "xyz"]
    if isinstance(value, str):
        value = re.findall(r"\d+", value)
    if not isinstance(value, list):
        return (0, 0, 0)
    numbers = [whole(part) or 0 for part in value[:3]]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else (0, 0, 0)
