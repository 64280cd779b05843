"""Finding the rows that an export of ours encloses, and reading them instead of its events."""

from __future__ import annotations

import base64
import binascii
import mmap
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from warpsight.formats.enclosed import sections
from warpsight.formats.enclosed.writing import BEGIN, FIELD, LAST, MAGIC, VERSION
from warpsight.formats.writing.protobuf import data as message
from warpsight.model.definitions import FRAME_COLUMNS
from warpsight.model.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

#: A compressed file with neither in its header is not ours.
_OURS = (b'"recorder": "warpsight"', b'"recorder":"warpsight"', MAGIC)
#: The end of a JSON file: the place of the member, and the checksum of everything before its last entry.
_TAIL = re.compile(rb'\],"at":(\d{1,18})(,"crc32":(\d{1,10})\}\}\s*)$')
_PIECE = 1 << 20
#: Maximum decompressed size of a block: the writer's 8 MiB, plus one section of a table.
_LARGEST = 1 << 30
CHANGED = "the file was changed after warpsight wrote it, so its events were read, which hold less than its embedded rows"


def read(source: Source, target: Target) -> bool:
    """Read a file's embedded rows into a trace; False if there are none or the file has been changed."""
    if source.is_directory or (source.compression and not any(mark in source.head for mark in _OURS)):
        return False
    with _mapped(source) as data:
        found = _in_json(data) or _in_packets(data)
        if found is None:
            return False
        if found.place < 0 or _checksum(data, found.end) != found.crc32:
            target.note(CHANGED)
            return False
        try:
            return _restored(found.blocks, target)
        except (
            ValueError,
            KeyError,
            IndexError,
            msgspec.MsgspecError,
            pa.ArrowException,
            binascii.Error,
        ) as error:
            raise source.error(f"encloses rows that cannot be read: {error}", offset=found.place) from None


@contextmanager
def _mapped(source: Source) -> Iterator[Any]:
    with source.local().open("rb") as file:
        if not file.seek(0, 2):
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as area:
            yield area


@dataclass(frozen=True)
class _Found:
    """Blocks from byte `place` on (-1: not where the file says), and the checksum of everything before byte `end`."""

    place: int
    end: int
    crc32: int
    blocks: Iterator[bytes]


def _in_json(data: mmap.mmap) -> _Found | None:
    tail = _TAIL.search(data[-96:])
    if tail is None:
        return None
    place, end = int(tail[1]), len(data) - len(tail[2])
    if data[place : place + len(BEGIN)] != BEGIN:
        place = -1
    return _Found(place, end, int(tail[3]), _members(data, place + len(BEGIN), end))


def _members(data: mmap.mmap, place: int, end: int) -> Iterator[bytes]:
    """The strings of a JSON array, none of which contain quotes."""
    while (begin := data.find(b'"', place, end)) >= 0 and data[begin + 1 : begin + 4] != b'at"':
        place = data.find(b'"', begin + 1, end) + 1
        yield base64.b64decode(data[begin + 1 : place - 1])


def _in_packets(data: mmap.mmap) -> _Found | None:
    last = message(1, message(FIELD, LAST.pack(MAGIC, 0, 0)))
    end = len(data) - len(last)
    if end < 0 or data[end : end + len(last) - LAST.size] != last[: -LAST.size]:
        return None
    magic, place, crc32 = LAST.unpack(data[len(data) - LAST.size :])
    return _Found(place, end, crc32, _fields(data, place, end)) if magic == MAGIC else None


def _fields(data: mmap.mmap, place: int, end: int) -> Iterator[bytes]:
    """The bytes of our field in packets that hold nothing else."""
    while place < end:
        size, first = _sized(data, place)
        inner, begin = _sized(data, first)
        yield data[begin : begin + inner]
        place = first + size


def _sized(data: mmap.mmap, place: int) -> tuple[int, int]:
    """Length and start of a message or bytes field."""
    from warpsight.formats.perfetto.framing import varint

    head = data[place : place + 20]
    tag = varint(head, 0)
    length = varint(head, tag[1]) if tag is not None else None
    if length is None:
        raise ValueError("a packet ends early")
    return length[0], place + length[1]


def _checksum(data: mmap.mmap, end: int) -> int:
    crc32 = 0
    for place in range(0, end, _PIECE):
        crc32 = zlib.crc32(data[place : min(place + _PIECE, end)], crc32)
    return crc32


def _restored(blocks: Iterator[bytes], target: Target) -> bool:
    head = msgspec.json.decode(_unpacked(next(blocks)))
    if head["version"] != VERSION or head["schema"] > SCHEMA_VERSION:
        target.note(
            "a newer version of warpsight wrote the file: its events were read, not the rows that it encloses"
        )
        return False
    restoring = _Restoring(target, head["of"], head["part"])
    for block in blocks:
        for table, rows in sections.decode(_unpacked(block)):
            restoring.add(table, rows)
    target.source.update(rows="enclosed", recording=head["manifest"].pop("source", None))
    target.describe(**head["manifest"])
    return True


def _unpacked(block: bytes) -> bytes:
    import zstandard

    try:
        if zstandard.get_frame_parameters(block).content_size > _LARGEST:
            raise ValueError("a block is implausibly large")
        return zstandard.ZstdDecompressor().decompress(block)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


class _Restoring:
    """Adds rows to a trace that may hold others; whatever they refer to gets its ids there first."""

    def __init__(self, target: Target, identity: int, part: int) -> None:
        self.target = target
        #: Another file of the same export has been read: a Kineto export has one per process, each repeating the rows that belong
        #: to no process.
        self.shared_known = (identity, part) in target.exports
        target.exports.add((identity, part))
        #: Files of one export describe the same processes and devices.
        self.scope = f"export {identity}"
        #: Trace ids by file id, for everything numbered.
        self.ids: dict[str, dict[int, int]] = {}
        self._tables: dict[str, Callable[[list[dict[str, Any]]], dict[int, int]]] = {
            "name": self._names, "shape": self._shapes, "frame": self._frames, "stack": self._stacks,
            "process": self._processes, "device": self._devices,
        }  # fmt: skip

    def add(self, table: str, rows: pa.Table) -> None:
        """Rows of a table; definitions come before rows that refer to them."""
        make = self._tables.get(table)
        if make is not None:
            self.ids.setdefault(table, {}).update(make(rows.to_pylist()))
        elif table in ("thread", "context", "stream"):
            self._places(table, rows.to_pylist())
        else:
            if self.shared_known:
                rows = _of_processes(rows)
            self.target.add(table, self._moved(rows))

    def _names(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        return {row["id"]: self.target.name(row["name"]) for row in rows}

    def _shapes(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        return {row.pop("id"): self.target.shape(**row) for row in rows}

    def _frames(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        frame = self.target.definitions.frame
        return {row["id"]: frame(tuple(row[c] for c in FRAME_COLUMNS)) for row in rows}

    def _stacks(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        known = self.ids.setdefault("stack", {})
        stack, frames = self.target.definitions.stack, self.ids.get("frame", {})
        for row in rows:  # a caller's stack has the lower id
            parent = 0 if row["parent"] is None else known[row["parent"]]
            known[row["id"]] = stack(parent, frames[row["frame"]], row["method"], row["cut"])
        return known

    def _processes(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        out = {}
        for row in rows:
            number = row.pop("process")
            out[number] = self.target.process((number, row["pid"]), scope=self.scope, **row)
        return out

    def _devices(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        out = {}
        for row in rows:
            number = row.pop("device")
            key = row["uuid"] or (self.scope, number)
            self.target.device(key, index=number)  # the id it had, where no other device has it
            out[number] = self.target.device(key, **row)
        return out

    def _places(self, table: str, rows: list[dict[str, Any]]) -> None:
        target = self.target
        for row in rows:
            process = self.ids["process"][row.pop("process")]
            if row.get("device") is not None:
                row["device"] = self.ids["device"][row["device"]]
            if table == "thread":
                target.thread(process, row["thread"], row["name"])
            elif table == "context":
                target.context(process, row.pop("context"), **row)
            else:
                target.stream(process, row.pop("context"), row.pop("stream"), **row)

    def _moved(self, rows: pa.Table) -> pa.Table:
        """Rows with the trace's ids."""
        for column, table in _REFERENCES.items():
            if column in rows.column_names:
                place = rows.column_names.index(column)
                moved = _mapped_ids(rows.column(place).combine_chunks(), self.ids.get(table, {}))
                rows = rows.set_column(place, column, moved)
        return rows


def _of_processes(rows: pa.Table) -> pa.Table:
    """The rows that belong to a process."""
    import pyarrow.compute as pc

    return rows.filter(pc.is_valid(rows["process"])) if "process" in rows.column_names else rows.slice(0, 0)


#: Columns that hold ids of definitions.
_REFERENCES = {
    "name_id": "name", "shape_id": "shape", "stack": "stack", "process": "process", "device": "device",
    "source_device": "device", "destination_device": "device",
}  # fmt: skip


def _mapped_ids(column: pa.Array, ids: Mapping[int, int]) -> pa.Array:
    """Map a column's numbers to ids; an id that the file does not define is unchanged."""
    coded = column.dictionary_encode()
    known = [ids.get(number, number) for number in coded.dictionary.to_pylist()]
    return pa.array(known, column.type).take(coded.indices)
