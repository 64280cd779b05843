"""The records of XRay logs as columns, following llvm/lib/XRay (Trace.cpp, RecordInitializer.cpp, FDRTraceExpander.cpp)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

ENTER, EXIT, TAIL_EXIT, ENTER_ARG = 0, 1, 2, 3
HEADER = struct.Struct("<HHIQ16s")
BASIC, FDR = 0, 1
_BASIC_RECORD = np.dtype(
    [("type", "<u2"), ("cpu", "u1"), ("kind", "u1"), ("function", "<i4"), ("tsc", "<u8"), ("tid", "<u4"), ("pid", "<u4"),
     ("pad", "V8")]
)  # fmt: skip
_METADATA_BYTES = 16


@dataclass(frozen=True)
class XrayHeader:
    """The first 32 bytes. `frequency` is the TSC's in Hz, 0 when unknown; `buffer` the size of FDR buffers."""

    version: int
    type: int
    constant: bool
    nonstop: bool
    frequency: int
    buffer: int

    @classmethod
    def unpack(cls, data: bytes) -> XrayHeader:
        """Read 32 bytes."""
        version, kind, bits, frequency, free = HEADER.unpack(data[: HEADER.size])
        return cls(
            version, kind, bool(bits & 1), bool(bits & 2), frequency, int.from_bytes(free[:8], "little")
        )


@dataclass
class XrayRecords:
    """Function entries and exits: kind, function id, tsc (uint64), thread, process, the argument logged (or none)."""

    kind: Column
    function: Column
    tsc: Column
    tid: Column
    pid: Column
    #: Custom and typed events: tsc, tid, pid, type (-1 custom), data
    events: list[tuple[int, int, int, int, bytes]] = field(default_factory=list)
    #: Arguments of calls by the record's place
    arguments: dict[int, int] = field(default_factory=dict)
    #: How the data was truncated or damaged; empty if it was not
    damage: str = ""


def basic(data: bytes, header: XrayHeader) -> XrayRecords:
    """Basic ("naive") mode: records of 32 bytes, with argument payloads after their record."""
    body = memoryview(data)[HEADER.size :]
    count, rest = divmod(len(body), _BASIC_RECORD.itemsize)
    rows = np.frombuffer(body, _BASIC_RECORD, count)
    calls = np.flatnonzero(rows["type"] == 0)
    chosen = rows[calls]
    pid = chosen["pid"] if header.version >= 3 else np.zeros(len(chosen), np.uint32)
    arguments = {}
    for row in np.flatnonzero(rows["type"] == 1).tolist():
        # u16 type, 2 bytes, i32 function, u32 tid, u32 pid, u64 argument
        value = struct.unpack_from("<Q", body, row * 32 + 16)[0]
        place = int(np.searchsorted(calls, row)) - 1
        if place >= 0:
            arguments[place] = value
    unknown = int((rows["type"] > 1).sum())
    damage = f"{rest} bytes after the last complete record" if rest else ""
    damage = damage or (f"{unknown:,} records of unknown types" if unknown else "")
    return XrayRecords(
        chosen["kind"].astype(np.int64), chosen["function"].astype(np.int64), chosen["tsc"].copy(),
        chosen["tid"].astype(np.int64), pid.astype(np.int64), arguments=arguments, damage=damage,
    )  # fmt: skip


class _Reader:
    """One pass over the buffers of an FDR log: words of function records in runs, metadata one by one."""

    def __init__(self, data: bytes, header: XrayHeader) -> None:
        self.data = data
        self.header = header
        self.tsc = self.tid = self.pid = 0
        self.pieces: list[tuple[Column, Column, Column, int, int]] = []
        self.rows = 0
        self.events: list[tuple[int, int, int, int, bytes]] = []
        self.arguments: dict[int, int] = {}
        self.damage = ""

    def buffer(self, at: int, end: int) -> None:
        """The records from byte `at` to `end`, up to the record that ends a buffer."""
        data = self.data
        while at + 8 <= end:
            if data[at] & 1:
                if at + _METADATA_BYTES > end:
                    self.damage = self.damage or f"a record at byte {at:,} is cut off"
                    return
                done = self.metadata(at, end)
                if done <= at:
                    return
                at = done
            else:
                at = self.functions(at, end)

    def functions(self, at: int, end: int) -> int:
        """A run of function records: 32 bits of kind and function id, 32 bits of TSC since the record before."""
        words = np.frombuffer(self.data, "<u8", (end - at) // 8, at)
        other = np.flatnonzero(words & np.uint64(1))
        words = words[: int(other[0])] if len(other) else words
        low = (words & np.uint64(0xFFFF_FFFF)).astype(np.int64)
        tsc = np.cumsum(words >> np.uint64(32), dtype=np.uint64) + np.uint64(self.tsc)
        kind, function = low >> 1 & 7, low >> 4
        # Padding at the end of a buffer is zero: an entry for function 0, which does not exist.
        self.pieces.append((kind, function, tsc, self.tid, self.pid))
        self.rows += len(words)
        self.tsc = int(tsc[-1])
        return at + 8 * len(words)

    def metadata(self, at: int, end: int) -> int:
        """One metadata record; returns the next place, `at` itself at the buffer's end."""
        kind = self.data[at] >> 1
        body = self.data[at + 1 : at + _METADATA_BYTES]
        after = at + _METADATA_BYTES
        if kind == 0:
            self.tid = int.from_bytes(body[:4], "little")
        elif kind == 1:
            return at
        elif kind == 2:
            self.tsc = int.from_bytes(body[2:10], "little")
        elif kind == 3:
            self.tsc = int.from_bytes(body[:8], "little")
        elif kind == 6:
            self.arguments[self.rows - 1] = int.from_bytes(body[:8], "little")
        elif kind == 9:
            self.pid = int.from_bytes(body[:4], "little")
        elif kind in (5, 8):
            return self._event(at, kind, body, after, end)
        elif kind not in (4, 7):
            self.damage = self.damage or f"a metadata record of unknown kind {kind} at byte {at:,}"
            return at
        return after

    def _event(self, at: int, kind: int, body: bytes, after: int, end: int) -> int:
        """A custom or typed event and its data."""
        size = int.from_bytes(body[:4], "little", signed=True)
        if size < 0 or after + size > end:
            self.damage = (
                self.damage or f"an event of {size:,} bytes at byte {at:,} is longer than its buffer"
            )
            return at
        typed = int.from_bytes(body[8:10], "little") if kind == 8 else -1
        if self.header.version >= 5 or kind == 8:
            self.tsc += int.from_bytes(body[4:8], "little", signed=True)
            tsc = self.tsc
        else:
            tsc = int.from_bytes(body[4:12], "little")
        self.events.append((tsc, self.tid, self.pid, typed, self.data[after : after + size]))
        return after + size

    def records(self) -> XrayRecords:
        """All that was read."""
        kind, function, tsc = (
            np.concatenate([piece[i] for piece in self.pieces]) if self.pieces else np.empty(0, t)
            for i, t in ((0, np.int64), (1, np.int64), (2, np.uint64))
        )
        lengths = [len(piece[0]) for piece in self.pieces]
        tid, pid = (np.repeat(np.array([p[i] for p in self.pieces], np.int64), lengths) for i in (3, 4))
        return XrayRecords(kind, function, tsc, tid, pid, self.events, self.arguments, self.damage)


def fdr(data: bytes, header: XrayHeader) -> XrayRecords:
    """FDR mode: from version 3 on, each buffer starts with its extent; in earlier versions, all have the same size."""
    reader = _Reader(data, header)
    at = HEADER.size
    if header.version < 3:
        size = header.buffer
        if size < _METADATA_BYTES:
            reader.damage = f"buffers of {size:,} bytes"
            return reader.records()
        while at < len(data):
            reader.buffer(at, min(at + size, len(data)))
            at += size
        if (len(data) - HEADER.size) % size:
            reader.damage = reader.damage or "the last buffer is cut off"
        return reader.records()
    buffers = 0
    while at + _METADATA_BYTES <= len(data):
        if data[at] != 7 << 1 | 1:
            at += 8  # padding between buffers
            continue
        size = int.from_bytes(data[at + 1 : at + 9], "little")
        end = at + _METADATA_BYTES + size
        if end > len(data):
            reader.damage = (
                reader.damage
                or f"the buffer at byte {at:,} is {end - len(data):,} bytes longer than the file"
            )
        reader.buffer(at + _METADATA_BYTES, min(end, len(data)))
        at, buffers = end, buffers + 1
    if not buffers and len(data) > HEADER.size:
        reader.damage = f"no buffer begins after the header, in {len(data) - HEADER.size:,} bytes"
    return reader.records()
