"""Writes the rows behind the events of an export: as a member of a JSON object, or as Perfetto packets."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

import msgspec

from warpsight.formats.enclosed import sections
from warpsight.formats.selection import DEVICE_TABLES, KINDS, Selection
from warpsight.formats.writing.protobuf import data as message
from warpsight.model.schema import SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

#: Increase when older versions cannot read the new form; they then read the events instead.
VERSION = 1
#: The member of a JSON file's object, and its first bytes.
MEMBER = "warpsight"
BEGIN = b',"warpsight":{"version":1,"blocks":['
#: A field of Perfetto's TracePacket that its definitions do not use: readers skip it.
FIELD = 53_616_811
#: Contents of the last packet: this magic, the offset of the first embedded packet, and the checksum of everything before.
LAST = struct.Struct("<8sQI")
MAGIC = b"warpsigh"
#: Bytes of sections that are compressed as one block, and rows of a table in a section.
_BLOCK_BYTES = 8 << 20
_ROWS = 1 << 18
_LEVEL = 3
#: Definition tables: a file includes only the rows its other rows refer to.
_INTERNED = ("name", "shape", "frame", "stack")
_DEFINITIONS = ("process", "device", "context", "stream", "thread", "module")
#: Time columns of tables without start and duration.
_INSTANTS = {"memory": "time", "counter": "time", "sample": "time", "event": "time"}
#: Entries of a manifest that a reader writes itself.
_OWN_ENTRIES = frozenset(("format", "schema", "warpsight", "rows", "processes", "devices", "loss"))


class Summed:
    """An output file that tracks its length and checksum."""

    def __init__(self, file: IO[bytes]) -> None:
        """Everything goes on to `file`."""
        self._file = file
        self.size = 0
        self.crc32 = 0

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Write some bytes."""
        self.size += len(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        return self._file.write(data)


def as_member(trace: StoredTrace, selection: Selection, file: Summed) -> None:
    """Write the rows as the last member of a JSON object, in front of its closing brace.

    A reader finds the member through its position, which is stored at the end of the file beside the checksum of everything
    before.
    """
    if not selection.enclosed:
        return
    place = file.size
    file.write(BEGIN)
    for number, block in enumerate(_blocks(trace, selection)):
        file.write((b',"' if number else b'"') + base64.b64encode(block) + b'"')
    file.write(b'],"at":%d' % place)
    file.write(b',"crc32":%d}' % file.crc32)


def marker(selection: Selection) -> bytes:
    """A field for the first packet of a Perfetto file, so that a compressed file need not be scanned completely."""
    return message(FIELD, MAGIC) if selection.enclosed else b""


def as_packets(trace: StoredTrace, selection: Selection, file: Summed) -> None:
    """Write the rows as packets at the end of a Perfetto file."""
    if not selection.enclosed:
        return
    place = file.size
    for block in _blocks(trace, selection):
        file.write(message(1, message(FIELD, block)))
    file.write(message(1, message(FIELD, LAST.pack(MAGIC, place, file.crc32))))


def _blocks(trace: StoredTrace, selection: Selection) -> Iterator[bytes]:
    """Compressed blocks: the manifest, the definitions that rows use, then the rows."""
    import zstandard

    packer = zstandard.ZstdCompressor(level=_LEVEL)
    head = {
        "version": VERSION,
        "schema": SCHEMA_VERSION,
        "manifest": _manifest(trace),
        "of": _identity(trace),
        "part": zlib.crc32(repr(replace(selection, processes=(), overlays=())).encode()),
    }
    yield packer.compress(msgspec.json.encode(head))
    waiting, size = [], 0
    for table, rows in _tables(trace, selection):
        waiting.append(sections.encode(table, rows))
        size += len(waiting[-1])
        if size >= _BLOCK_BYTES:
            yield packer.compress(b"".join(waiting))
            waiting, size = [], 0
    if waiting:
        yield packer.compress(b"".join(waiting))


def _manifest(trace: StoredTrace) -> dict[str, Any]:
    return {key: value for key, value in trace.manifest.items() if key not in _OWN_ENTRIES}


def _identity(trace: StoredTrace) -> int:
    """An id shared by all files of an export: together they give one trace again."""
    rows = trace.sql(
        'SELECT process, pid, host, start FROM process UNION ALL SELECT device, "index", uuid, 0 FROM device'
    )
    return zlib.crc32(repr(sorted(rows.fetchall())).encode())


def _tables(trace: StoredTrace, selection: Selection) -> Iterator[tuple[str, pa.Table]]:
    chosen = {table: where for table in TABLES if (where := _where(trace, table, selection)) is not None}
    for table, ids in _used(chosen).items():
        yield from _rows(trace, table, f"id IN ({ids})")
    for table in (*_DEFINITIONS, *(name for name in chosen if name not in _DEFINITIONS)):
        yield from _rows(trace, table, chosen[table])


def _rows(trace: StoredTrace, table: str, where: str) -> Iterator[tuple[str, pa.Table]]:
    import pyarrow as pa

    columns = ", ".join(f'"{column.name}"' for column in TABLES[table].columns)
    order = " ORDER BY id" if TABLES[table].columns[0].name == "id" else ""
    found = trace.sql(f"SELECT {columns} FROM {_source(table)} WHERE {where}{order}")
    # DuckDB 1.4 renamed it.
    reader = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
    for batch in reader(_ROWS):
        if len(batch):
            yield table, pa.Table.from_batches([batch])


def _source(table: str) -> str:
    return f"{table}_ids" if any(column.name == "name_id" for column in TABLES[table].columns) else table


def _where(trace: StoredTrace, table: str, selection: Selection) -> str | None:
    """The SQL condition for the rows of a table in an export; None if there are none."""
    columns = {column.name for column in TABLES[table].columns}
    shown = next((kind for kind, tables in KINDS.items() if table in tables), None)
    if table in _INTERNED or not trace.count(table):
        return "true" if table in _DEFINITIONS else None
    if (shown or selection.kinds) and table not in _DEFINITIONS and not selection.wants(table):
        return None
    if table == "flow" and not selection.flows:
        return None
    part = selection.begin is not None or selection.end is not None or selection.devices or selection.streams
    terms = ["true"]
    if table == "attribute" and part:
        terms.append("\"table\" = 'trace'")  # others refer to rows by their number
    if selection.processes and "process" in columns:
        chosen = ", ".join(str(int(number)) for number in selection.processes)
        terms.append(f"(process IN ({chosen}) OR process IS NULL)")
    if table in DEVICE_TABLES or table == "event":
        for column, numbers in (("device", selection.devices), ("stream", selection.streams)):
            if numbers:
                terms.append(f"{column} IN ({', '.join(str(int(number)) for number in numbers)})")
    time = _INSTANTS.get(table, "start" if {"start", "duration"} <= columns else None)
    if time is not None:
        if selection.end is not None:
            terms.append(f"{time} < {int(selection.end)}")
        if selection.begin is not None:
            late = f"{time} >= {int(selection.begin)}"
            reaches = (
                f" OR start + duration > {int(selection.begin)} OR duration IS NULL"
                if time == "start"
                else ""
            )
            terms.append(f"({late}{reaches})")
    return " AND ".join(terms)


def _used(chosen: dict[str, str]) -> dict[str, str]:
    """SQL for the ids of names, shapes, frames and stacks that the selected rows use."""

    def used(column: str) -> str:
        parts = [
            f"SELECT {column} FROM {_source(table)} WHERE {where}"
            for table, where in chosen.items()
            if any(known.name == column for known in TABLES[table].columns)
        ]
        return " UNION ".join(parts) or "SELECT NULL"

    stacks = f"""WITH RECURSIVE used(id) AS ({used("stack")} UNION
                 SELECT s.parent FROM stack s JOIN used ON s.id = used.id WHERE s.parent IS NOT NULL) SELECT id FROM used"""
    return {
        "name": used("name_id"),
        "shape": used("shape_id"),
        "frame": f"SELECT frame FROM stack WHERE id IN ({stacks})",
        "stack": stacks,
    }
