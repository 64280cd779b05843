"""The process, thread, device and stream that a (pid, tid) of a Chrome trace stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from warpsight.formats.chrome.events import ChromeEvent, text
from warpsight.formats.target import Target

_GPU = re.compile(r"^(?:GPU|Device|CUDA device)\s*(\d+)(?::\s*(.*))?$")
#: Processes of TensorFlow's timelines (tensorflow/python/client/timeline.py): an executor, a stream, all streams, copies.
_TENSORFLOW = re.compile(
    r"^(?:/job:\w+/replica:\d+/task:\d+)?/(?:device:)?(?:[CX]PU|(GPU)):(\d+)(?:/(?:(stream):(-?\d+|all)|(memcpy)))?"
    r"(?: Compute| Tensors)$",
    re.IGNORECASE,
)
#: The process name that PyTorch's first profiler (1.x, torch.autograd.profiler) gives to its kernels; threads are devices.
_AUTOGRAD, _AUTOGRAD_HOST = "CUDA functions", "CPU functions"
#: Processes of XProf's trace viewer, as TensorFlow 2 and JAX write it: the host, and devices, whose threads are streams and sums
#: of what those do, or, on devices without streams, a thread of operations.
_XPROF, _XPROF_HOST, _XPROF_OPERATIONS = re.compile(r"^/device:(?!CPU)\w+:(\d+)"), "/host:CPU", "XLA Ops"
_STREAM = re.compile(r"[Ss]tream\s+#?(-?\d+)")
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
        #: Processes of TensorFlow's streams: device and stream; devices of which single streams are in the file.
        self._timeline: dict[Any, tuple[int, object]] = {}
        self._told: set[int] = set()
        self._streamed: set[Any] | None = None

    def learn(self, events: Iterable[ChromeEvent]) -> None:
        """Register names of processes and threads."""
        for event in events:
            if event.ph != "M":
                continue
            details = event.arguments()
            name = details.get("name")
            if event.name == "process_name" and isinstance(name, str):
                self._names[key(event.pid)] = name
                if timeline := _TENSORFLOW.match(name):
                    self._tensorflow(key(event.pid), timeline)
                if "process" in details:
                    self._owners[key(event.pid)] = key(details["process"])
            elif event.name == "thread_name" and isinstance(name, str):
                track = (key(event.pid), key(event.tid))
                self._threads[track] = name
                if "thread" in details:  # our own: ranges that do not nest have a track of their own
                    self._homes[track] = key(details["thread"])

    def _tensorflow(self, pid: object, found: re.Match[str]) -> None:
        """The process of one of TensorFlow's timelines, which all belong to one program."""
        self._owners[pid] = "TensorFlow"
        device, stream = int(found[2]), found[5] or found[4]
        if stream is not None:
            self._timeline[pid] = device, key(stream)
            if stream.lstrip("-").isdigit():
                self._told.add(device)

    def adopt(self, pid: object, owner: object) -> None:
        """Assign the events on one process's tracks to another process."""
        self._owners.setdefault(pid, owner)

    def repeated(self, event: ChromeEvent) -> bool:
        """Whether the track repeats others: XProf's sums, and TensorFlow's `stream:all` and `memcpy` alongside single streams."""
        pid = key(event.pid)
        if self._is_xprof(pid):
            return not self.of_a_device(event)
        device, stream = self._timeline.get(pid, (None, None))
        return device in self._told and not isinstance(stream, int)

    def _is_xprof(self, pid: object) -> bool:
        return _XPROF.match(self._names.get(pid, "")) is not None and pid not in self._timeline

    def _of_xprof(self, pid: object, thread: str) -> bool:
        """Whether a thread of one of XProf's devices holds its work, rather than sums of it."""
        if self._streamed is None:
            self._streamed = {pid for (pid, _), name in self._threads.items() if _STREAM.match(name)}
        return _STREAM.match(thread) is not None if pid in self._streamed else thread == _XPROF_OPERATIONS

    def host(self, event: ChromeEvent) -> tuple[int, int]:
        """Process and thread of host work."""
        track = (key(event.pid), key(event.tid))
        if track not in self._known:
            process = self._process(track[0])
            thread = self._homes.get(track, track[1])
            name = self._threads.get((track[0], thread))
            self._known[track] = process, self._target.thread(process, thread, name)
        return self._known[track]

    def _process(self, pid: object) -> int:
        owner = self._owners.get(pid, pid)
        command = self._names.get(owner)
        return self._target.process(owner, **({} if command is None else {"command": command}))

    def of_a_device(self, event: ChromeEvent) -> bool:
        """Whether the track belongs to a device, judging by its process's name: `GPU2`."""
        pid = key(event.pid)
        if self._is_xprof(pid):
            return self._of_xprof(pid, self._threads.get((pid, key(event.tid)), ""))
        return pid in self._timeline or pid == _AUTOGRAD or _GPU.match(self._names.get(pid, "")) is not None

    def nests(self, event: ChromeEvent) -> bool:
        """Whether the device work of the track lies inside that of its callers."""
        return key(event.pid) == _AUTOGRAD

    def device(self, event: ChromeEvent, details: dict[str, Any]) -> DeviceTrack:
        """Device, context and stream of device work, from its arguments or else from its track."""
        number = _first(details, "device", "deviceId", "device_id", "gpu")
        context = _first(details, "context", "contextId", "context_id")
        stream = _first(details, "stream", "streamId", "stream_id")
        place = (key(event.pid), key(event.tid), key(number), key(context), key(stream))
        if place not in self._places:
            self._places[place] = self._place(event, number, context, stream)
        return self._places[place]

    def _place(self, event: ChromeEvent, number: object, context: object, stream: object) -> DeviceTrack:
        pid, tid = key(event.pid), key(event.tid)
        label, thread = self._names.get(pid, ""), self._threads.get((pid, tid), "")
        gpu = _GPU.match(label)
        if number is None and gpu:
            number = int(gpu[1])
        if pid in self._timeline:
            number, stream = self._timeline[pid]
        elif pid == _AUTOGRAD:
            number, pid = tid, _AUTOGRAD_HOST
        elif xprof := _XPROF.match(label):
            number = int(xprof[1])
            pid = next((one for one, name in self._names.items() if name == _XPROF_HOST), pid)
        named = _STREAM.search(thread)
        if stream is None:
            stream = int(named[1]) if named else tid
        inside = _CONTEXT.search(thread)
        if context is None:
            context = int(inside[1]) if inside else 0
        process = self._process(pid)
        device = None if number is None else self._device(number, gpu[2] if gpu else None)
        where = self._target.context(process, key(context), device=device)
        name = thread if thread and not named else None
        ours = self._target.stream(process, where, key(stream), device=device, name=name)
        return DeviceTrack(process, device, where, ours)

    def _device(self, number: object, name: str | None) -> int:
        columns: dict[str, Any] = {"name": name} if name else {}
        if isinstance(number, int) and 0 <= number < 1 << 31:
            columns["index"] = number
        return self._target.device((self._target.scope, key(number)), **columns)


def _first(details: dict[str, Any], *names: str) -> object:
    return next((details[n] for n in names if details.get(n) is not None), None)


def key(value: object) -> object:
    """A pid or tid as a lookup key: numeric strings become numbers."""
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, (int, str)) or value is None else text(value)
