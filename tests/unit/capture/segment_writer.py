"""Segment files written from NumPy arrays, as the recorder in a program writes them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import DTYPES, HEADER

Array = npt.NDArray[Any]


class SegmentWriter:
    """Appends valid blocks to one segment file of one process, for any number of writers.

    `sequences` may be shared between the writers of one arena's files, so blocks are numbered across files.
    """

    def __init__(self, path: Path, *, pid: int, arena: int, sequences: dict[int, int] | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = path
        self._pid = pid
        self._arena = arena
        self._sequences = {} if sequences is None else sequences
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")

    def write(
        self,
        kind: str,
        rows: Mapping[str, Any] | Array,
        *,
        thread: int = 0,
        session: int = 0,
        writer: int | None = None,
        rows_per_block: int = 0,
    ) -> None:
        """Write rows of `kind`, a structured array or columns (missing columns are zero)."""
        record = layout.BY_NAME[kind]
        array = rows if isinstance(rows, np.ndarray) else _structured(record.kind, rows)
        fit = layout.BLOCK_PAYLOAD_BYTES // record.size
        step = min(rows_per_block, fit) if rows_per_block else fit
        for first in range(0, len(array), step):
            payload = array[first : first + step].tobytes()
            self._block(record.kind, payload, record.size, thread, session, writer, len(payload))

    def write_strings(
        self, strings: Mapping[int, str], *, thread: int = 0, writer: int | None = None
    ) -> None:
        """Write string definitions, id → text."""
        record = layout.BY_NAME["String"]
        payload = bytearray()
        for number, text in strings.items():
            data = text.encode()
            row = (
                number.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data + bytes(-len(data) % 8)
            )
            if len(payload) + len(row) > layout.BLOCK_PAYLOAD_BYTES:
                self._block(record.kind, bytes(payload), 0, thread, 0, writer, len(payload))
                payload.clear()
            payload += row
        if payload:
            self._block(record.kind, bytes(payload), 0, thread, 0, writer, len(payload))

    def write_block(
        self,
        kind: str,
        payload: bytes,
        *,
        thread: int = 0,
        session: int = 0,
        writer: int = 0,
        sequence: int | None = None,
        sealed: bool = True,
        lost: int = 0,
    ) -> None:
        """Write one block as it is, to build what a drainer may leave: open blocks, repeated blocks, gaps."""
        record = layout.BY_NAME[kind]
        if sequence is not None:
            self._sequences[writer] = sequence
        self._block(
            record.kind,
            payload,
            0 if record.variable else record.size,
            thread,
            session,
            writer,
            len(payload),
            sealed,
            lost,
        )

    def _block(
        self,
        kind: int,
        payload: bytes,
        row_bytes: int,
        thread: int,
        session: int,
        writer: int | None,
        committed: int,
        sealed: bool = True,
        lost: int = 0,
    ) -> None:
        number = (thread << 8 | kind) & 0xFFFFFFFF if writer is None else writer
        sequence = self._sequences.get(number, 0)
        self._sequences[number] = sequence + 1
        header = np.zeros(1, HEADER)
        values = {
            "magic": layout.BLOCK_MAGIC,
            "version": layout.LAYOUT_VERSION,
            "kind": kind,
            "pid": self._pid,
            "thread": thread,
            "arena": self._arena,
            "sequence": sequence,
            "lost": lost,
            "writer": number,
            "session": session,
            "row_bytes": row_bytes,
            "committed": committed,
            "flags": int(sealed),
        }
        for name, value in values.items():
            header[name] = value
        header["crc"] = zlib.crc32(payload, zlib.crc32(header.tobytes()[:-4]))
        self._file.write(header.tobytes() + payload + bytes(layout.BLOCK_PAYLOAD_BYTES - len(payload)))

    def close(self) -> None:
        """Close the file; it is complete afterwards."""
        self._file.close()

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _structured(kind: int, columns: Mapping[str, Any]) -> Array:
    count = max((np.size(values) for values in columns.values()), default=0)
    rows = np.zeros(count, DTYPES[kind])
    for name, values in columns.items():
        rows[name] = values
    return rows
