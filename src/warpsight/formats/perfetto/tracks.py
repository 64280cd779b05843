"""The process, thread, device and stream that a track of a Perfetto trace stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warpsight.formats.chrome.tracks import DeviceTrack
from warpsight.formats.target import Target

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackDescriptor

_GPU = re.compile(r"^(?:GPU|Device)\s+(\d+)(?::\s*(.*))?$")
_STREAM = re.compile(r"[Ss]tream\s+(-?\d+)")
_CONTEXT = re.compile(r"[Cc]ontext\s+(-?\d+)")


@dataclass
class Slice:
    """A range on a track, in the form from which the readers of Chrome's dialects make rows; `pid` is the track."""

    pid: int
    name: str
    cat: str
    told: dict[str, Any] = field(default_factory=dict)
    tid: Any = None
    ph: str = "X"

    def arguments(self) -> dict[str, Any]:
        """Annotations by name."""
        return self.told


class TrackDescriptors:
    """Track descriptors, and ids for the described objects."""

    def __init__(self, target: Target) -> None:
        """Ids are those of `target`."""
        self._target = target
        self._described: dict[int, TrackDescriptor] = {}
        self._hosts: dict[int, tuple[int, int]] = {}
        self._places: dict[tuple[Any, ...], DeviceTrack] = {}

    def learn(self, descriptor: TrackDescriptor) -> None:
        """Register a descriptor; a later one of the same track replaces it."""
        self._described[descriptor.uuid] = descriptor

    def name(self, uuid: int) -> str:
        """Name of a track."""
        found = self._described.get(uuid)
        return "" if found is None else found.name or found.static_name

    def counter(self, uuid: int) -> tuple[str, str]:
        """Name and unit of a counter track."""
        found = self._described.get(uuid)
        if found is None:
            return f"track {uuid}", "1"
        unit = found.counter.unit_name or {1: "ns", 2: "1", 3: "B"}.get(found.counter.unit, "1")
        return self.name(uuid) or f"track {uuid}", unit

    def process_of(self, uuid: int) -> int:
        """Id of the process a track belongs to."""
        return self._home(uuid)[0]

    def host(self, event: Slice) -> tuple[int, int]:
        """Process and thread of a slice."""
        return self._home(event.pid)

    def _home(self, uuid: int) -> tuple[int, int]:
        if uuid not in self._hosts:
            self._hosts[uuid] = self._resolve(uuid)
        return self._hosts[uuid]

    def _resolve(self, uuid: int) -> tuple[int, int]:
        for above in self._chain(uuid):
            if above.HasField("thread"):
                process = self._target.process(above.thread.pid)
                name = above.thread.thread_name or None
                return process, self._target.thread(process, above.thread.tid, name)
            if above.HasField("process"):
                process = self._process(above)
                return process, self._target.thread(process, f"track {uuid}", self.name(uuid) or None)
        process = self._target.process("unknown process")
        return process, self._target.thread(process, f"track {uuid}", self.name(uuid) or None)

    def _process(self, descriptor: TrackDescriptor) -> int:
        words = list(descriptor.process.cmdline) or [descriptor.process.process_name]
        command = " ".join(word for word in words if word)
        columns = {"command": command} if command else {}
        return self._target.process(descriptor.process.pid, **columns)

    def _chain(self, uuid: int) -> list[TrackDescriptor]:
        """A track and its ancestors, innermost first."""
        chain: list[TrackDescriptor] = []
        while (found := self._described.get(uuid)) is not None and found not in chain and len(chain) < 64:
            chain.append(found)
            uuid = found.parent_uuid
        return chain

    def of_a_device(self, event: object) -> bool:
        """Whether a slice is device work, which Perfetto marks with categories."""
        del event
        return False

    def device(self, event: Slice, told: dict[str, Any]) -> DeviceTrack:
        """Device, context and stream of a slice, from the names of its track and that track's ancestors."""
        key = (event.pid, told.get("device"), told.get("stream"), told.get("context"))
        if key not in self._places:
            self._places[key] = self._place(event.pid, *key[1:])
        return self._places[key]

    def _place(self, uuid: int, number: object, stream: object, context: object) -> DeviceTrack:
        names = [self.name(above.uuid) for above in self._chain(uuid)]
        gpu = next((found for name in names if (found := _GPU.match(name))), None)
        own = names[0] if names else ""
        named, inside = _STREAM.search(own), _CONTEXT.search(own)
        number = int(gpu[1]) if number is None and gpu else number
        stream = (int(named[1]) if named else f"track {uuid}") if stream is None else stream
        context = (int(inside[1]) if inside else 0) if context is None else context
        process = self.process_of_device(uuid)
        device = None
        if number is not None:
            columns = {"index": number} if isinstance(number, int) and 0 <= number < 1 << 31 else {}
            name = gpu[2] if gpu and gpu[2] else None
            device = self._target.device((self._target.scope, str(number)), name=name, **columns)
        where = self._target.context(process, context, device=device)
        label = own if own and not named else None
        return DeviceTrack(
            process, device, where, self._target.stream(process, where, stream, device=device, name=label)
        )

    def process_of_device(self, uuid: int) -> int:
        """Id of the process behind a device's track."""
        for above in self._chain(uuid):
            if above.HasField("process"):
                return self._process(above)
        return self._target.process("unknown process")
