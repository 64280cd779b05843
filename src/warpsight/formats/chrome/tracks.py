"""The process, thread, device and stream that a (pid, tid) of a Chrome trace stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from warpsight.formats.chrome.events import ChromeEvent, text
from warpsight.formats.target import Target

_GPU = re.compile(r"^(?:GPU|Device|CUDA device)\s*(\d+)(?::\s*(.*))?$")
_STREAM = re.compile(r"[Ss]tream\s+(-?\d+)")
_CONTEXT = re.compile(r"[Cc]ontext\s+(-?\d+)")


@dataclass(frozen=True)
class DeviceTrack:
    """Where device work ran, as ids of the trace."""

    process: int
    device: int | None
    context: int
    stream: int


class Tracks:
    """Learns names from metadata events, then places rows."""

    def __init__(self, target: Target) -> None:
        """Ids are those of `target`."""
        self._target = target
        self._names: dict[Any, str] = {}
        self._owners: dict[Any, Any] = {}
        self._threads: dict[tuple[Any, Any], str] = {}
        self._homes: dict[tuple[Any, Any], Any] = {}
        self._known: dict[tuple[Any, Any], tuple[int, int]] = {}
        self._places: dict[tuple[Any, ...], DeviceTrack] = {}

    def learn(self, events: Iterable[ChromeEvent]) -> None:
        """Register names of processes and threads."""
        for event in events:
            if event.ph != "M":
                continue
            details = event.arguments()
            name = details.get("name")
            if event.name == "process_name" and isinstance(name, str):
                self._names[_key(event.pid)] = name
                if "process" in details:
                    self._owners[_key(event.pid)] = _key(details["process"])
            elif event.name == "thread_name" and isinstance(name, str):
                key = (_key(event.pid), _key(event.tid))
                self._threads[key] = name
                if "thread" in details:  # our own: ranges that do not nest have a track of their own
                    self._homes[key] = _key(details["thread"])

    def host(self, event: ChromeEvent) -> tuple[int, int]:
        """Process and thread of host work."""
        key = (_key(event.pid), _key(event.tid))
        if key not in self._known:
            process = self._process(key[0])
            thread = self._homes.get(key, key[1])
            name = self._threads.get((key[0], thread))
            self._known[key] = process, self._target.thread(process, thread, name)
        return self._known[key]

    def _process(self, pid: object) -> int:
        owner = self._owners.get(pid, pid)
        command = self._names.get(owner)
        return self._target.process(owner, **({} if command is None else {"command": command}))

    def of_a_device(self, event: ChromeEvent) -> bool:
        """Whether the track belongs to a device, judging by its process's name: `GPU2`."""
        return _GPU.match(self._names.get(_key(event.pid), "")) is not None

    def device(self, event: ChromeEvent, details: dict[str, Any]) -> DeviceTrack:
        """Device, context and stream of device work: by its arguments where they say it, else by its track."""
        number = _first(details, "device", "deviceId", "device_id", "gpu")
        context = _first(details, "context", "contextId", "context_id")
        stream = _first(details, "stream", "streamId", "stream_id")
        key = (_key(event.pid), _key(event.tid), _key(number), _key(context), _key(stream))
        if key not in self._places:
            self._places[key] = self._place(event, number, context, stream)
        return self._places[key]

    def _place(self, event: ChromeEvent, number: object, context: object, stream: object) -> DeviceTrack:
        pid, tid = _key(event.pid), _key(event.tid)
        label, thread = self._names.get(pid, ""), self._threads.get((pid, tid), "")
        gpu = _GPU.match(label)
        if number is None and gpu:
            number = int(gpu[1])
        named = _STREAM.search(thread)
        if stream is None:
            stream = int(named[1]) if named else tid
        inside = _CONTEXT.search(thread)
        if context is None:
            context = int(inside[1]) if inside else 0
        process = self._process(pid)
        device = None if number is None else self._device(number, gpu[2] if gpu else None)
        where = self._target.context(process, _key(context), device=device)
        name = thread if thread and not named else None
        ours = self._target.stream(process, where, _key(stream), device=device, name=name)
        return DeviceTrack(process, device, where, ours)

    def _device(self, number: object, name: str | None) -> int:
        columns: dict[str, Any] = {"name": name} if name else {}
        if isinstance(number, int) and 0 <= number < 1 << 31:
            columns["index"] = number
        return self._target.device((self._target.scope, _key(number)), **columns)


def _first(details: dict[str, Any], *names: str) -> object:
    return next((details[n] for n in names if details.get(n) is not None), None)


def _key(value: object) -> object:
    """A key that can be looked up: numbers as text are numbers."""
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, (int, str)) or value is None else text(value)
