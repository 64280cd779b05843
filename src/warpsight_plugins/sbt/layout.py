"""The parts of an SBT 0.1 file.

`header(72) [metadata] [devices] [events] strings FF`; sections begin with a type byte, have no length and are found by
the header's offsets. Numbers outside the header are LEB128 without zig-zag: a time that runs backwards is a difference
modulo 2^64. TraceSmith's reader checks only the magic and never reads the devices.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGIC = b"SBT\0"
HEADER = struct.Struct("<4sHHIIQQQQQQB7s")
METADATA, STRINGS, DEVICES, EVENTS, END = 1, 2, 3, 4, 255
LITTLE_ENDIAN, HAS_CALLSTACKS = 1, 2
#: Bits of an event's second byte.
DURATION, KERNEL, MEMORY, STACK = 1, 2, 4, 8
#: Type byte, flags and five numbers of a byte each.
SHORTEST_EVENT = 7

KERNEL_FIELDS = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared", "registers")
MEMORY_FIELDS = ("source", "destination", "bytes")

EVENT_TYPES = {
    0: "Unknown", 1: "KernelLaunch", 2: "KernelComplete", 3: "MemcpyH2D", 4: "MemcpyD2H", 5: "MemcpyD2D",
    6: "MemsetDevice", 7: "StreamSync", 8: "DeviceSync", 9: "EventRecord", 10: "EventSync", 11: "StreamCreate",
    12: "StreamDestroy", 13: "ContextCreate", 14: "ContextDestroy", 15: "MemAlloc", 16: "MemFree", 17: "Marker",
    18: "RangeStart", 19: "RangeEnd", 20: "NCCLStart", 21: "NCCLComplete", 255: "Custom",
}  # fmt: skip


@dataclass(frozen=True)
class SbtHeader:
    """The first 72 bytes; offsets count from the start of the file, 0 means absent."""

    major: int = 0
    minor: int = 1
    flags: int = LITTLE_ENDIAN
    size: int = HEADER.size
    metadata: int = 0
    strings: int = 0
    devices: int = 0
    events: int = 0
    stacks: int = 0
    count: int = 0
    compression: int = 0
    reserved: bytes = bytes(7)

    def pack(self) -> bytes:
        """The header as bytes."""
        return HEADER.pack(
            MAGIC, self.major, self.minor, self.flags, self.size, self.metadata, self.strings, self.devices,
            self.events, self.stacks, self.count, self.compression, self.reserved,
        )  # fmt: skip

    @classmethod
    def unpack(cls, data: bytes) -> SbtHeader:
        """Read 72 bytes (the magic is the caller's to check)."""
        return cls(*HEADER.unpack(data[: HEADER.size])[1:])


@dataclass(frozen=True)
class Metadata:
    """The metadata section."""

    application: str = ""
    command: str = ""
    start: int = 0
    end: int = 0
    host: str = ""
    pid: int = 0


@dataclass(frozen=True)
class SbtDevice:
    """One entry of the device section; clocks in kHz, bus width in bits."""

    device: int
    name: str
    vendor: str
    major: int = 0
    minor: int = 0
    memory: int = 0
    memory_clock: int = 0
    bus_width: int = 0
    multiprocessors: int = 0
    threads: int = 0
    clock: int = 0
    warp: int = 32
