"""Rows that wait for the end of the file: their stack or process is known only then."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

#: Bytes of rows in memory; the rest goes to a temporary file, uncompressed.
MEMORY_BYTES = 96 << 20


class HeldTables:
    """Tables by name, in order of appearance."""

    def __init__(self) -> None:
        """Nothing is held yet."""
        self._tables: dict[str, list[pa.Table]] = {}
        self._bytes = 0
        self._files: dict[str, list[Path]] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def add(self, name: str, rows: pa.Table) -> None:
        """Keep rows; rows with one name must have the same columns."""
        self._tables.setdefault(name, []).append(rows)
        self._bytes += rows.nbytes
        if self._bytes > MEMORY_BYTES:
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="warpsight-")  # mode 0700
        for name, tables in self._tables.items():
            files = self._files.setdefault(name, [])
            path = Path(self._folder.name) / f"{name}-{len(files)}.arrow"
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, tables[0].schema) as writer:
                for table in tables:
                    writer.write_table(table)
            files.append(path)
        self._tables.clear()
        self._bytes = 0

    def tables(self, name: str) -> Iterator[pa.Table]:
        """The rows of a table, one piece at a time; can be read several times."""
        for path in self._files.get(name, ()):
            with pa.OSFile(str(path), "rb") as file, pa.ipc.open_file(file) as reader:
                for number in range(reader.num_record_batches):
                    yield pa.Table.from_batches([reader.get_batch(number)])
        yield from self._tables.get(name, ())

    def close(self) -> None:
        """Drop everything."""
        self._tables.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
