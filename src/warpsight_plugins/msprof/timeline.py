"""Timelines: Chrome JSON whose processes are layers (`Python`, `CANN`, `Ascend Hardware`, `Communication`, …)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.trace_events import TraceEvent, events, names, range_row, whole
from warpsight_plugins.msprof.arrows import calls_of_tasks
from warpsight_plugins.msprof.recording import NO_STREAM, NONE, MsprofRecording

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

_HARDWARE = re.compile(r"Ascend Hardware|^NPU", re.IGNORECASE)
#: Layers that repeat or sum up what others hold.
_DERIVED = re.compile(r"Overlap Analysis", re.IGNORECASE)

#: What numbers a collective: `hcom_allReduce__868_0_1` is the operation `hcom_allReduce_`.
_NUMBERED = re.compile(r"_\d+_\d+_\d+$")


def read_timeline(source: Source, target: Target) -> None:
    """Read a timeline.

    Raises:
        FormatError: when it is not trace event JSON.
    """
    reader = _Reader(source, target)
    for event in events(source, target):
        reader.take(event)
    reader.close()
    target.source.update(tool="msprof", clock="ns since 1970")


class _Reader:
    def __init__(self, source: Source, target: Target) -> None:
        self._target = target
        self._names = names(source)
        self._calls = calls_of_tasks(source)
        self._recording = MsprofRecording(target)
        self._collectives = self._collectives_of(source)
        self._recording.collectives = frozenset(self._collectives)
        self._process = target.process(f"{target.scope}/host", command="")
        self._left_out: dict[str, int] = {}

    def _collectives_of(self, source: Source) -> dict[int, TraceEvent]:
        """Collectives by connection id; the planes below them, which have none, show their steps."""
        found = {}
        for event in events(source, None):
            connection = _connection(event.args) if event.phase == "X" else None
            if connection is not None and _is_communication(self._names.processes.get(event.pid, "")):
                found[connection] = event
        return found

    def take(self, event: TraceEvent) -> None:
        """Put an event into the table of its layer."""
        layer = self._names.processes.get(event.pid, "")
        if event.phase == "C":
            self._counter(event, layer)
        elif event.phase not in ("X", "i", "I"):
            return
        elif _DERIVED.search(layer):
            self._left_out[layer] = self._left_out.get(layer, 0) + 1
        elif _HARDWARE.search(layer) or "Task Type" in event.args:
            self._task(event)
        elif layer == "CANN":
            self._call(event)
        elif layer == "Python":
            self._operator(event)
        elif _is_communication(layer):
            if _connection(event.args) is None:
                self._left_out[layer] = self._left_out.get(layer, 0) + 1
        else:
            self._range(event, layer)

    def close(self) -> None:
        """Hand over the rest and note what was left out."""
        for event in self._collectives.values():
            self._collective(event)
        self._recording.close()
        if self._left_out:
            said = ", ".join(f"{layer} ({count:,} events)" for layer, count in sorted(self._left_out.items()))
            self._target.note(f"layers that repeat or sum up device work were not imported: {said}")

    def _task(self, event: TraceEvent) -> None:
        args = event.args
        stream = whole(args.get("Physic Stream Id", args.get("Stream Id", event.tid)))
        kind = str(args.get("Task Type", ""))
        row = {
            "start": event.start,
            "duration": max(event.duration, 0),
            **self._place(event, stream if stream is not None else 0),
            "correlation": self._calls.get((event.pid, event.tid, event.start), _connection(args)),
        }
        if self._recording.part(_connection(args), row):
            return
        self._recording.task(
            kind or event.name, event.name, row, size=whole(args.get("size(B)", args.get("Size(B)"))) or 0,
            direction=str(args.get("operation", "")) if "MEMCPY" in kind.upper() else "",
            blocks=whole(args.get("Block Dim", args.get("Block Num"))) or 0, task=whole(args.get("Task Id")) or 0,
        )  # fmt: skip

    def _place(self, event: TraceEvent, stream: int) -> dict[str, Any]:
        label = self._names.labels.get(event.pid, "0").replace("NPU", "").strip()
        number = whole(event.args.get("Device Id", label)) or 0
        return self._recording.place(self._process, self._recording.device(number), stream)

    def _collective(self, event: TraceEvent) -> None:
        args = event.args
        row = {
            "start": event.start,
            "duration": max(event.duration, 0),
            **self._place(event, NO_STREAM),
            "correlation": _connection(args),
        }
        self._recording.collective(
            _NUMBERED.sub("", event.name), row, count=whole(args.get("count")) or 0, dtype=str(args.get("data_type", "")),
            group=self._names.threads.get((event.pid, event.tid), ""),
        )  # fmt: skip

    def _thread(self, event: TraceEvent) -> int:
        return self._target.thread(self._process, event.tid, self._names.threads.get((event.pid, event.tid)))

    def _call(self, event: TraceEvent) -> None:
        level, _, name = event.name.partition("@")
        self._recording.call(
            name or level,
            {
                "start": event.start,
                "duration": max(event.duration, 0),
                "thread": self._thread(event),
                "process": self._process,
                "correlation": _connection(event.args),
            },
        )

    def _operator(self, event: TraceEvent) -> None:
        args = dict(event.args)
        shapes = args.pop("Input Dims", None)
        sequence = whole(args.pop("Sequence number", None))
        self._recording.rows.add(
            "op",
            start=event.start,
            duration=None if event.duration < 0 else event.duration,
            name_id=self._target.name(event.name),
            sequence=sequence if sequence is not None and sequence >= 0 else None,
            shapes=None if shapes is None else shapes if isinstance(shapes, str) else json.dumps(shapes),
            attributes=json.dumps(args, ensure_ascii=False) if args else None,
            thread=self._thread(event),
            process=self._process,
        )

    def _range(self, event: TraceEvent, layer: str) -> None:
        row = range_row(
            event,
            kind="instant" if event.duration < 0 else "start/end",
            name_id=self._target.name(event.name),
            domain=layer or None,
            source="framework",
            thread=self._thread(event),
            process=self._process,
        )
        self._recording.rows.add("marker", **row)

    def _counter(self, event: TraceEvent, layer: str) -> None:
        for series, value in event.args.items():
            if isinstance(value, bool) or not isinstance(value, (int, float, str)):
                continue
            try:
                number = float(value)
            except ValueError:
                continue
            name = f"{layer}: {event.name}" if layer else event.name
            row = {
                "time": event.start,
                "name": name if len(event.args) == 1 else f"{name} {series}",
                "value": number,
                "unit": "MHz" if "Freq" in event.name else "1",
                "source": "msprof",
                "process": self._process,
            }
            self._recording.rows.add("counter", **row)


def _is_communication(layer: str) -> bool:
    return "Communication" in layer or "HCCL" in layer


def _connection(args: dict[str, Any]) -> int | None:
    found = whole(args.get("connection_id"))
    return None if found is None or found < 0 or found == NONE else found
