"""SBT 0.1 byte by byte, straight from the description of the layout: what the vectorised code is compared with."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

MASK = 2**64 - 1


@dataclass
class Event:
    kind: int
    time: int
    duration: int = 0
    device: int = 0
    stream: int = 0
    correlation: int = 0
    name: str = ""
    kernel: tuple[int, ...] | None = None
    memory: tuple[int, ...] | None = None
    #: thread and frames (address, function, file, line)
    stack: tuple[int, tuple[tuple[int, str, str, int], ...]] | None = None
    #: Bits that no version defines
    odd_flags: int = 0


@dataclass
class File:
    events: list[Event] = field(default_factory=list)
    #: application, command line, start, end, host, pid
    metadata: tuple[str, str, int, int, str, int] | None = None
    #: id, name, vendor and nine numbers
    devices: list[tuple[int | str, ...]] | None = None
    version: tuple[int, int] = (0, 1)
    reserved: bytes = bytes(7)
    extra_strings: tuple[str, ...] = ()


def varint(value: int) -> bytes:
    value &= MASK
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def string(text: str) -> bytes:
    return varint(len(text.encode())) + text.encode()


def write(file: File) -> bytes:
    strings: dict[str, int] = {}

    def number(text: str) -> bytes:
        return varint(strings.setdefault(text, len(strings)))

    offsets = dict.fromkeys(("metadata", "strings", "devices", "events"), 0)
    body = b""
    if file.metadata is not None:
        offsets["metadata"] = 72 + len(body)
        application, command, start, end, host, pid = file.metadata
        body += (
            b"\1"
            + string(application)
            + string(command)
            + varint(start)
            + varint(end)
            + string(host)
            + varint(pid)
        )
    if file.devices is not None:
        offsets["devices"] = 72 + len(body)
        body += b"\3" + varint(len(file.devices))
        for device in file.devices:
            body += b"".join(string(v) if isinstance(v, str) else varint(v) for v in device)
    if file.events:
        offsets["events"] = 72 + len(body)
        previous = file.events[0].time
        body += b"\4" + varint(previous)
        for event in file.events:
            flags = (event.duration > 0) | 2 * (event.kernel is not None) | 4 * (event.memory is not None)
            flags |= 8 * (event.stack is not None) | event.odd_flags
            body += bytes([event.kind, flags]) + varint(event.time - previous)
            previous = event.time
            if event.duration:
                body += varint(event.duration)
            body += (
                varint(event.device) + varint(event.stream) + varint(event.correlation) + number(event.name)
            )
            for value in (*(event.kernel or ()), *(event.memory or ())):
                body += varint(value)
            if event.stack is not None:
                thread, frames = event.stack
                body += varint(thread) + varint(len(frames))
                for address, function, path, line in frames:
                    body += varint(address) + number(function) + number(path) + varint(line)
    offsets["strings"] = 72 + len(body)
    for text in file.extra_strings:
        number(text)
    body += b"\2" + varint(len(strings)) + b"".join(string(text) for text in strings) + b"\xff"
    header = struct.pack(
        "<4sHHIIQQQQQQB7s", b"SBT\0", *file.version, 3 if strings else 1, 72, offsets["metadata"], offsets["strings"],
        offsets["devices"], offsets["events"], 0, len(file.events), 0, file.reserved,
    )  # fmt: skip
    return header + body


def read_events(data: bytes) -> list[Event]:
    """The events by TraceSmith's rules: offsets are trusted, the devices are not read."""
    strings_at, events_at, count = (struct.unpack_from("<Q", data, at)[0] for at in (24, 40, 56))
    at = 0

    def next_varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & MASK
            shift += 7

    at = strings_at
    assert data[at] == 2
    at += 1
    strings = []
    for _ in range(next_varint()):
        length = next_varint()
        strings.append(data[at : at + length].decode())
        at += length
    assert data[at:] == b"\xff"
    if not events_at:
        return []
    at = events_at
    assert data[at] == 4
    at += 1
    time, found = next_varint(), []
    for _ in range(count):
        kind, flags = data[at], data[at + 1]
        at += 2
        time = (time + next_varint()) & MASK
        event = Event(kind, time, next_varint() if flags & 1 else 0, odd_flags=flags & 0xF0)
        event.device, event.stream = next_varint() & 0xFFFFFFFF, next_varint() & 0xFFFFFFFF
        event.correlation, event.name = next_varint(), strings[next_varint()]
        if flags & 2:
            event.kernel = tuple(next_varint() for _ in range(8))
        if flags & 4:
            event.memory = tuple(next_varint() for _ in range(3))
        if flags & 8:
            thread, count = next_varint(), next_varint()
            frames = [
                (next_varint(), strings[next_varint()], strings[next_varint()], next_varint())
                for _ in range(count)
            ]
            event.stack = (thread, tuple(frames))
        found.append(event)
    return found
