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

#: Threads of a communication layer that show a collective's steps, and those of the hardware that sum up iterations.
_STEPS, _ITERATIONS = re.compile(r"^Plane\b", re.IGNORECASE), re.compile(r"^Step Trace\b", re.IGNORECASE)
#: A node of MindSpore's graphs: `Default/AllReduce-op534_0`.
_NODE = re.compile(r"(\w+)-op\d+(?:_\d+)?$")
#: The numbering of a collective: `hcom_allReduce__868_0_1` is the operation `hcom_allReduce_`.
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
        #: Of files without connections: the collectives that a task of a stream is a step of, by (stream, task).
        self._steps: dict[tuple[int, int], list[int]] = {}
        self._collectives = self._collectives_of(source)
        self._recording.collectives = frozenset(self._collectives)
        self._process = target.process(f"{target.scope}/host", command="")
        self._left_out: dict[str, int] = {}

    def _collectives_of(self, source: Source) -> dict[int, TraceEvent]:
        """Collectives by connection id; the planes below them, which have none, show their steps.

        Early versions of CANN connect nothing: their collectives are numbered from -2 down, and a step has its task's stream and
        number.
        """
        found, unconnected, steps = {}, [], []
        for event in events(source, None):
            if event.phase != "X" or not _is_communication(self._names.processes.get(event.pid, "")):
                continue
            connection = _connection(event.args)
            if connection is not None:
                found[connection] = event
            elif self._is_step(event):
                steps.append(event)
            else:
                unconnected.append(event)
        self._connected = bool(found)
        if found:
            return found
        found = {-2 - number: event for number, event in enumerate(unconnected)}
        for step in steps:
            stream, task = whole(step.args.get("stream id")), whole(step.args.get("task id"))
            if stream is not None and task is not None:
                self._steps.setdefault((stream, task), []).extend(
                    number
                    for number, event in found.items()
                    if event.pid == step.pid and _within(step, event)
                )
        return found

    def _is_step(self, event: TraceEvent) -> bool:
        return _STEPS.search(self._names.threads.get((event.pid, event.tid), "")) is not None

    def take(self, event: TraceEvent) -> None:
        """Put an event into the table of its layer."""
        layer = self._names.processes.get(event.pid, "")
        if event.phase == "C":
            self._counter(event, layer)
        elif event.phase not in ("X", "i", "I"):
            return
        elif _DERIVED.search(layer):
            self._left_out[layer] = self._left_out.get(layer, 0) + 1
        elif _ITERATIONS.search(self._names.threads.get((event.pid, event.tid), "")):
            self._range(event, layer)
        elif _HARDWARE.search(layer) or "Task Type" in event.args:
            self._task(event)
        elif layer == "CANN":
            self._call(event)
        elif layer == "Python":
            self._operator(event)
        elif _is_communication(layer):
            if _connection(event.args) is None and (self._connected or self._is_step(event)):
                self._left_out[layer] = self._left_out.get(layer, 0) + 1
        else:
            self._range(event, layer)

    def close(self) -> None:
        """Pass on the remaining rows and note what was left out."""
        for number, event in self._collectives.items():
            self._collective(number, event)
        self._recording.close()
        if self._left_out:
            said = ", ".join(f"{layer} ({count:,} events)" for layer, count in sorted(self._left_out.items()))
            self._target.note(f"layers that repeat or summarize device work were not imported: {said}")

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
        if self._recording.part(self._collective_of(event, stream), row):
            return
        self._recording.task(
            kind or event.name, event.name, row, size=whole(args.get("size(B)", args.get("Size(B)"))) or 0,
            direction=str(args.get("operation", "")) if "MEMCPY" in kind.upper() else "",
            blocks=whole(args.get("Block Dim", args.get("Block Num"))) or 0, task=whole(args.get("Task Id")) or 0,
        )  # fmt: skip

    def _collective_of(self, event: TraceEvent, stream: int | None) -> int | None:
        """The number of the collective that a task is part of, if the file says."""
        if not self._steps:
            return _connection(event.args)
        known = self._steps.get((-1 if stream is None else stream, whole(event.args.get("Task Id")) or 0), ())
        return next((number for number in known if _within(event, self._collectives[number])), None)

    def _place(self, event: TraceEvent, stream: int) -> dict[str, Any]:
        label = self._names.labels.get(event.pid, "0").replace("NPU", "").strip()
        number = whole(event.args.get("Device Id", label)) or 0
        return self._recording.place(self._process, self._recording.device(number), stream)

    def _collective(self, number: int, event: TraceEvent) -> None:
        args = event.args
        row = {
            "start": event.start,
            "duration": max(event.duration, 0),
            **self._place(event, NO_STREAM),
            "correlation": _connection(args),
        }
        self._recording.collective(
            _operation(event.name), row, number=number, count=whole(args.get("count")) or 0,
            dtype=str(args.get("data_type", "")), group=self._names.threads.get((event.pid, event.tid), ""),
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


def _operation(name: str) -> str:
    """A collective in HCCL's naming: without its number; for a graph's node, with its operation first."""
    node = _NODE.search(name)
    return _NUMBERED.sub("", name) if node is None else f"hcom_{node[1]} ({name})"


def _within(one: TraceEvent, other: TraceEvent) -> bool:
    return other.start <= one.start <= other.start + max(other.duration, 0)


def _connection(args: dict[str, Any]) -> int | None:
    found = whole(args.get("connection_id"))
    return None if found is None or found < 0 or found == NONE else found
