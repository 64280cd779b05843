"""The sections around the events: metadata, devices, strings. Counts are checked against the bytes available."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from warpsight.formats import varint
from warpsight_plugins.sbt import layout
from warpsight_plugins.sbt.layout import Metadata, SbtDevice, SbtHeader


class Damaged(ValueError):
    """A section that cannot be read; `offset` is where in the file."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(problem)
        self.offset = offset
        self.problem = problem


class Cursor:
    """Reads numbers and strings in sequence."""

    def __init__(self, data: memoryview, at: int) -> None:
        """Begin at byte `at`."""
        self.data = data
        self.at = at

    def section(self, kind: int, name: str) -> None:
        """Pass a section's type byte."""
        if self.at >= len(self.data) or self.data[self.at] != kind:
            raise Damaged(self.at, f"the {name} section is expected here (a byte {kind})")
        self.at += 1

    def number(self) -> int:
        """The next number."""
        try:
            value, self.at = varint.decode_one(self.data, self.at)
        except varint.Overlong as error:
            raise Damaged(error.offset, "a number does not end") from None
        return value

    def text(self) -> bytes:
        """The next string."""
        begin = self.at
        length = self.number()
        if length > len(self.data) - self.at:
            raise Damaged(
                begin, f"a string of {length:,} bytes where only {len(self.data) - self.at:,} are left"
            )
        value = bytes(self.data[self.at : self.at + length])
        self.at += length
        return value

    def count(self, what: str, smallest: int) -> int:
        """A count of entries that take at least `smallest` bytes each."""
        begin = self.at
        count = self.number()
        if count * smallest > len(self.data) - self.at:
            raise Damaged(
                begin, f"{count:,} {what} cannot fit in the {len(self.data) - self.at:,} remaining bytes"
            )
        return count


def read_metadata(data: memoryview, at: int) -> Metadata:
    """The metadata section at byte `at`."""
    cursor = Cursor(data, at)
    cursor.section(layout.METADATA, "metadata")
    application, command = _decode(cursor.text()), _decode(cursor.text())
    start, end = cursor.number(), cursor.number()
    host = _decode(cursor.text())
    return Metadata(application, command, start, end, host, cursor.number())


def pack_metadata(metadata: Metadata) -> bytes:
    """The bytes of the metadata section."""
    return (
        bytes([layout.METADATA])
        + _text(metadata.application)
        + _text(metadata.command)
        + varint.encode_one(metadata.start)
        + varint.encode_one(metadata.end)
        + _text(metadata.host)
        + varint.encode_one(metadata.pid)
    )


def read_devices(data: memoryview, at: int) -> tuple[SbtDevice, ...]:
    """The device section at byte `at`."""
    cursor = Cursor(data, at)
    cursor.section(layout.DEVICES, "device")
    devices = []
    for _ in range(cursor.count("devices", 12)):
        number, name, vendor = cursor.number(), _decode(cursor.text()), _decode(cursor.text())
        devices.append(SbtDevice(number, name, vendor, *(cursor.number() for _ in range(9))))
    return tuple(devices)


def pack_devices(devices: Sequence[SbtDevice]) -> bytes:
    """The bytes of the device section."""
    out = bytearray([layout.DEVICES]) + varint.encode_one(len(devices))
    for device in devices:
        for column in fields(device):
            value = getattr(device, column.name)
            out += _text(value) if isinstance(value, str) else varint.encode_one(value)
    return bytes(out)


def read_strings(data: memoryview, at: int) -> list[bytes]:
    """The string table at byte `at`."""
    cursor = Cursor(data, at)
    cursor.section(layout.STRINGS, "string")
    return [cursor.text() for _ in range(cursor.count("strings", 1))]


def pack_strings(strings: Sequence[bytes]) -> bytes:
    """The bytes of the string table."""
    parts = [bytes([layout.STRINGS]), varint.encode_one(len(strings))]
    for text in strings:
        parts += (varint.encode_one(len(text)), text)
    return b"".join(parts)


def assemble(
    header: SbtHeader, metadata: bytes, devices: bytes, events: Sequence[bytes], strings: bytes
) -> list[bytes]:
    """The pieces of a whole file in TraceSmith's order; `header` has the fields that are not offsets."""
    at = layout.HEADER.size
    offsets = []
    for size in (len(metadata), len(devices), sum(map(len, events))):
        offsets.append(at if size else 0)
        at += size
    packed = SbtHeader(
        header.major, header.minor, header.flags, header.size, offsets[0], at, offsets[1], offsets[2], 0,
        header.count, header.compression, header.reserved,
    ).pack()  # fmt: skip
    return [packed, metadata, devices, *events, strings, bytes([layout.END])]


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return varint.encode_one(len(data)) + data


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
