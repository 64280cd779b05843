"""Instruments' tables as rows of a trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.trace_events import RowBuffer
from warpsight_plugins.instruments.cells import InstrumentsCell, InstrumentsRow, rows

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

#: `name (1234)`
_PID = re.compile(r"\((\d+)\)\s*$")
#: A label ends with its process and address: `Compute Command 0   ( app (42) )  0xabc`
_LABEL_END = re.compile(r"\s+\( .* \(\d+\) \).*$")
_BEGIN, _END = 1, 2


class InstrumentsReader:
    """Rows of all files of one recording. Intervals wait for the encoder list that names them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._rows = RowBuffer(target)
        self._intervals: list[tuple[InstrumentsRow, int]] = []
        self._labels: dict[tuple[int, int], str] = {}
        self._points: list[InstrumentsRow] = []
        self._counters: dict[int, str] = {}
        self._values: list[InstrumentsRow] = []
        self._left_out: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._stacks: dict[int, tuple[InstrumentsCell, int | None]] = {}

    def read(self, source: Source) -> None:
        """One file."""
        for row in rows(source):
            handle = _HANDLERS.get(row.schema)
            if handle is None:
                self._left_out[row.schema or "unnamed"] = self._left_out.get(row.schema or "unnamed", 0) + 1
            else:
                handle(self, row)

    def close(self) -> None:
        """Write waiting rows, and notes about rows left out."""
        for row, process in self._intervals:
            self._interval(row, process)
        if not self._intervals:
            self._pair_points()
        for row in self._values:
            self._counter(row)
        self._rows.close()
        self._target.source.update(tool="Instruments", clock="ns since the recording began")
        if self._left_out:
            said = ", ".join(f"{name} ({count:,} rows)" for name, count in sorted(self._left_out.items()))
            self._target.note(f"tables of Instruments that were not imported: {said}")

    # Who and where

    def _process(self, cell: InstrumentsCell | None) -> int:
        if cell is None:
            return self._target.process(0)
        pid = cell.find("pid") if cell.tag != "pid" else cell
        shown = _PID.search(cell.shown)
        number = pid.number if pid is not None else int(shown[1]) if shown else None
        name = _PID.sub("", cell.shown).strip()
        return self._target.process(number if number is not None else cell.shown, command=name)

    def _thread(self, cell: InstrumentsCell | None, process: InstrumentsCell | None) -> tuple[int, int]:
        """(thread, process) ids; a thread's cell holds its process."""
        owner = self._process(process or (cell.find("process") if cell is not None else None))
        tid = cell.find("tid") if cell is not None else None
        number = tid.number if tid is not None else None
        if cell is None:
            return self._target.thread(owner, 0), owner
        return self._target.thread(owner, number if number is not None else cell.shown, cell.shown), owner

    def _device(self, row: InstrumentsRow) -> int:
        name = row.shown("gpu", "device", "gpu-name", "device-name", "accelerator-name") or "Apple GPU"
        return self._target.device(
            (self._target.scope, "metal", name), name=name, vendor="Apple", platform="metal"
        )

    def _place(self, row: InstrumentsRow, process: int, channel: str) -> dict[str, Any]:
        device = self._device(row)
        number = self._channels.setdefault(channel, len(self._channels) + 1)
        context = self._target.context(process, 0, device=device, api="metal")
        return {
            "device": device,
            "context": context,
            "stream": self._target.stream(process, context, number, device=device, name=channel),
            "process": process,
        }

    # The GPU

    def _keep_interval(self, row: InstrumentsRow) -> None:
        if row.number("start") is None or row.number("duration") is None:
            self._target.lost(1, "GPU intervals without a start or duration", "kernel")
        elif row.shown("state") in ("", "Active"):
            self._intervals.append((row, self._process(row.cells.get("process"))))

    def _interval(self, row: InstrumentsRow, process: int) -> None:
        encoder = row.number("encoder-id")
        label = self._labels.get((process, encoder)) if encoder is not None else None
        channel = row.shown("channel-name") or "GPU"
        name = label or _label(row.cells.get("event-label")) or channel
        place = self._place(row, process, channel)
        self._kernel(row.number("start"), row.number("duration"), name, place, encoder or None)

    def _kernel(
        self,
        start: int | None,
        duration: int | None,
        name: str,
        place: dict[str, Any],
        correlation: int | None,
    ) -> None:
        self._rows.add(
            "kernel",
            start=start,
            duration=duration,
            name_id=self._target.name(name),
            **place,
            correlation=correlation,
            graph_level=False,
        )

    def _encoder(self, row: InstrumentsRow) -> None:
        """The host encodes work: its time is the launch, its label the name of what the GPU runs."""
        start = row.number("start")
        if start is None:
            self._target.lost(1, "encoders without a start", "launch")
            return
        thread, process = self._thread(row.cells.get("thread"), row.cells.get("process"))
        label = row.shown(
            "encoder-label", "encoder-label-indexed", "cmdbuffer-label", "cmdbuffer-label-indexed"
        )
        encoder = row.number("encoder-id")
        if encoder is not None and label:
            self._labels[process, encoder] = label
        self._rows.add(
            "launch",
            start=start,
            duration=row.number("duration"),
            function=row.shown("event-type") or "encoder",
            thread=thread,
            correlation=encoder,
            process=process,
            name_id=self._target.name(label) if label else None,
            captured=False,
        )

    def _submission(self, row: InstrumentsRow) -> None:
        start = row.number("start", "timestamp")
        if start is None:
            return
        thread, process = self._thread(row.cells.get("thread"), row.cells.get("process"))
        buffer = row.number("cmdbuffer-id")
        self._rows.add(
            "api",
            start=start,
            duration=row.number("duration"),
            function="MTLCommandBuffer commit",
            thread=thread,
            process=process,
            object=buffer,
        )

    def _pair_points(self) -> None:
        """Begin and end points of the GPU, by channel, submission and slot, used if there are no intervals."""
        begun: dict[tuple[Any, ...], InstrumentsRow] = {}
        for row in sorted(self._points, key=lambda one: one.number("timestamp", "start") or 0):
            key = (
                row.number("channel-id"),
                row.number("gpu-submission-id", "submission-id"),
                row.number("slot-id"),
            )
            function = row.number("function")
            if function == _BEGIN:
                begun[key] = row
            elif function == _END and key in begun:
                first = begun.pop(key)
                start, end = first.number("timestamp", "start"), row.number("timestamp", "start")
                process = self._process(row.cells.get("process"))
                channel = f"channel {key[0]}"
                if start is not None and end is not None:
                    place = self._place(row, process, channel)
                    self._kernel(start, end - start, row.shown("note", "label") or channel, place, key[1])
        if begun:
            self._target.lost(len(begun), "GPU work that began and has no end", "kernel")

    # The host

    def _range(self, row: InstrumentsRow) -> None:
        start = row.number("start", "start-time", "time")
        if start is None:
            return
        thread, process = self._thread(
            row.cells.get("thread") or row.cells.get("start-thread"),
            row.cells.get("process") or row.cells.get("start-process"),
        )
        length = row.number("duration")
        self._rows.add(
            "marker",
            start=start,
            duration=length,
            kind="instant" if length is None else "start/end",
            open=False,
            name_id=self._target.name(row.shown("name", "label", "event-label", "event-type") or row.schema),
            domain=row.shown("subsystem") or row.schema,
            category=row.shown("category") or None,
            source="framework",
            thread=thread,
            process=process,
        )

    def _sample(self, row: InstrumentsRow) -> None:
        time = row.number("time", "sample-time")
        if time is None:
            return
        thread, process = self._thread(row.cells.get("thread"), row.cells.get("process"))
        state = row.shown("thread-state")
        self._rows.add(
            "sample",
            time=time,
            thread=thread,
            stack=self._stack(row.cells.get("stack")),
            state="R" if state in ("", "Running") else "S",
            gil=False,
            process=process,
        )

    def _stack(self, cell: InstrumentsCell | None) -> int | None:
        """The stack of a backtrace, whose frames are listed innermost first; repeated references share one stack."""
        if cell is None:
            return None
        known = self._stacks.get(id(cell))
        if known is not None and known[0] is cell:
            return known[1]
        trace = cell if cell.tag == "backtrace" else cell.find("backtrace")
        frames = [frame for frame in trace.inside if frame.tag == "frame"] if trace is not None else []
        stack = self._target.stack([_frame(frame) for frame in reversed(frames)])
        self._stacks[id(cell)] = (cell, stack)  # the cell is kept, so its address is not given away
        return stack

    def _name_counter(self, row: InstrumentsRow) -> None:
        number = row.number("counter-id")
        if number is not None:
            self._counters[number] = row.shown("name") or f"counter {number}"

    def _keep_value(self, row: InstrumentsRow) -> None:
        self._values.append(row)

    def _counter(self, row: InstrumentsRow) -> None:
        time, number, value = (
            row.number("timestamp", "start"),
            row.number("counter-id"),
            row.cells.get("value"),
        )
        try:
            amount = float(value.text) if value is not None else None
        except ValueError:
            amount = None
        if time is None or amount is None:
            return
        self._rows.add(
            "counter",
            time=time,
            name=self._counters.get(number or 0, f"counter {number}"),
            value=amount,
            unit="1",
            device=self._device(row),
            source="instruments",
        )

    def _keep_point(self, row: InstrumentsRow) -> None:
        self._points.append(row)


def _label(cell: InstrumentsCell | None) -> str:
    """The text of a label without the process and address that Instruments appends."""
    if cell is None:
        return ""
    inner = cell.find("string")
    return inner.shown if inner is not None and inner.shown else _LABEL_END.sub("", cell.shown)


def _frame(cell: InstrumentsCell) -> tuple[str, str | None, int | None, int | None, str, str | None]:
    binary = cell.find("binary")
    address = cell.attributes.get("addr", "")
    number = int(address, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", address) else None
    where = (binary.attributes.get("path") or binary.attributes.get("name")) if binary is not None else None
    build = binary.attributes.get("UUID") if binary is not None else None
    return (cell.attributes.get("name") or address or "unknown", where, None, number, "native", build)


_HANDLERS: dict[str, Callable[[InstrumentsReader, InstrumentsRow], None]] = {
    "metal-application-encoders-list": InstrumentsReader._encoder,
    "metal-gpu-intervals": InstrumentsReader._keep_interval,
    "metal-gpu-execution-points": InstrumentsReader._keep_point,
    "metal-application-command-buffer-submissions": InstrumentsReader._submission,
    "metal-driver-intervals": InstrumentsReader._range,
    "metal-driver-event-intervals": InstrumentsReader._range,
    "metal-application-event-interval": InstrumentsReader._range,
    "os-signpost-interval": InstrumentsReader._range,
    "os-signpost": InstrumentsReader._range,
    "time-profile": InstrumentsReader._sample,
    "time-sample": InstrumentsReader._sample,
    "gpu-counter-info": InstrumentsReader._name_counter,
    "gpu-counter-value": InstrumentsReader._keep_value,
}
#: Schemas that are read.
SCHEMAS = tuple(_HANDLERS)
