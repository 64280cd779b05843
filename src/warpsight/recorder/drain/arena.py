"""Arenas in the launcher: the header of another process's, and its own for counters and samples."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from functools import cache
from pathlib import Path

from warpsight import _native
from warpsight.capture.segments import layout

RECORD, STOP = layout.CONTROL_RECORD, layout.CONTROL_STOP
LOSS_NOTE, LOSS_DATA, LOSS_ENDED = 1, 2, 3
_SCALARS = {"u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "u8": "Q", "i8": "q", "f8": "d"}


def _offsets() -> dict[str, int]:
    offsets, at = {}, 0
    for field in layout.ARENA_HEADER.fields:
        offsets[field.name] = at
        at += layout.TYPES[field.type] * field.count
    return offsets


_OFFSETS = _offsets()


class ArenaHeader:
    """The shared header of an arena: the process's own state, and the control word we set.

    Raises:
        OSError, ValueError: when the descriptor cannot be mapped or is not an arena.
    """

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, layout.ARENA_HEADER_BYTES)
        if self._number("magic", "Q") != layout.ARENA_MAGIC:
            self._map.close()
            raise ValueError("not an arena")

    @property
    def arena(self) -> str:
        """The arena's random id, 16 hex digits."""
        return f"{self._number('arena', 'Q'):016x}"

    @property
    def state(self) -> int:
        """The process's state, one of layout.STATE_*."""
        return self._number("state", "I")

    def set_control(self, bits: int) -> None:
        """Ask the process to record, pause or stop."""
        self._store("control", bits)

    @property
    def steps(self) -> int:
        """Iterations that the program has completed."""
        return self._number("steps", "Q")

    def set_steps(self, first: int, last: int) -> None:
        """Ask the process to record from the end of one step to the end of another (0: no end)."""
        for name, value in (("last_step", last), ("first_step", first)):
            ctypes.c_uint64.from_buffer(self._map, _OFFSETS[name]).value = value

    def ask_flush(self, *, forced: bool) -> None:
        """Ask the process to hand over everything complete; with `forced`, also incomplete records, without their times."""
        request = self._number("flush_request", "I") + 1 & 0xFFFFFFFF
        if forced:
            self._store("forced_flush", request)  # first: the process looks when it sees the request
        self._store("flush_request", request)

    @property
    def flushed(self) -> bool:
        """Whether the last requested flush is done."""
        return self._number("flush_request", "I") == self._number("flush_done", "I")

    def own_time(self) -> dict[str, tuple[int, int]]:
        """For each of layout.OWN_SITES, the number of recorder callbacks on the program's threads, and their time (ns)."""
        calls, times = (self._numbers(name) for name in ("own_calls", "own_ns"))
        return {site: (calls[i], times[i]) for i, site in enumerate(layout.OWN_SITES) if calls[i]}

    def close(self) -> None:
        """Unmap."""
        self._map.close()

    def _numbers(self, name: str) -> tuple[int, ...]:
        return struct.unpack_from("<4Q", self._map, _OFFSETS[name])

    def _number(self, name: str, kind: str) -> int:
        return int(struct.unpack_from("<" + kind, self._map, _OFFSETS[name])[0])

    def _store(self, name: str, value: int) -> None:
        # One aligned 32-bit store: the process reads the word while we write it.
        ctypes.c_uint32.from_buffer(self._map, _OFFSETS[name]).value = value


class OwnRows:
    """Rows that the launcher itself adds to the trace; each thread has its own rings."""

    def __init__(self, arenas: Path | None = None) -> None:
        """`arenas`: the folder in memory for the arena's file, so that it outlives this process."""
        self._library = _native.load()
        self.fd = int(self._library.ws_arena_create(os.fsencode(arenas) if arenas is not None else None))
        if self.fd < 0:
            raise OSError(-self.fd, os.strerror(-self.fd))
        header = ArenaHeader(self.fd)
        self.arena = header.arena
        header.close()

    def intern(self, text: str) -> int:
        """The id of a string in this arena; 0 if it had to be dropped."""
        data = text.encode("utf-8", "replace")
        return int(self._library.ws_intern(data, len(data)))

    def write(self, kind: str, **values: float) -> bool:
        """Append one row; missing fields are zero. False if it was dropped (and counted)."""
        number, packer, names = _row_format(kind)
        row = packer.pack(*(values.get(name, 0) for name in names))
        return int(self._library.ws_write_row(number, row, len(row))) == 0

    def loss(
        self, source: str, cause: str, *, count: int = 1, severity: int = LOSS_DATA, start: int = 0
    ) -> None:
        """Note that something is missing from the trace, or how it was recorded."""
        now = int(self._library.ws_now())
        self.write("Loss", time=now, start=start, end=now, count=count, cause=self.intern(cause),
                   source=self.intern(source), severity=severity)  # fmt: skip


@cache
def _row_format(kind: str) -> tuple[int, struct.Struct, tuple[str, ...]]:
    """Number, packing and scalar fields of a record kind; reserved arrays are packed as zero bytes."""
    record = layout.BY_NAME[kind]
    codes = "".join(
        _SCALARS[f.type] if f.count == 1 else f"{layout.TYPES[f.type] * f.count}x" for f in record.fields
    )
    return record.kind, struct.Struct("<" + codes), tuple(f.name for f in record.fields if f.count == 1)


class Drainer:
    """Copies one arena's rows to segment files in a folder.

    Raises:
        OSError: when the descriptor is not a valid arena, or the folder cannot be used.
    """

    def __init__(self, fd: int, folder: Path) -> None:
        self._library = _native.load()
        ctypes.set_errno(0)
        self._handle = self._library.ws_drain_open(fd, os.fsencode(folder), 0)
        if not self._handle:
            raise OSError(ctypes.get_errno(), f"its rings cannot be drained to {folder}")
        self._rotated = 0

    def poll(self, checkpoint: bool) -> int:
        """Visit the rings once; returns the number of blocks written, or -errno."""
        return int(self._library.ws_drain_poll(self._handle, int(checkpoint)))

    @property
    def blocks(self) -> int:
        """Blocks written so far."""
        return self._statistic(0)

    @property
    def bytes(self) -> int:
        """Bytes written so far."""
        return self._statistic(1)

    @property
    def lost_rows(self) -> int:
        """Rows lost in full rings or to write errors so far."""
        return self._statistic(4) + self._statistic(6)

    @property
    def write_error(self) -> int:
        """The errno of the last failed write, 0 if none failed."""
        return self._statistic(5)

    def rotate(self) -> bool:
        """Close the segments if they contain new data; returns whether they did."""
        written = self.blocks
        if written == self._rotated:
            return False
        self._library.ws_drain_rotate(self._handle)
        self._rotated = written
        return True

    def close(self) -> int:
        """Take the remaining rows and close the files; 0 or -errno. No other method may be called afterwards."""
        handle, self._handle = self._handle, None
        return int(self._library.ws_drain_close(handle)) if handle else 0

    def _statistic(self, which: int) -> int:
        return int(self._library.ws_drain_statistic(self._handle, which))
