"""Reading segment files: every valid block as arrays, everything else as a loss.

A segment is a sequence of 64 KiB slots. Each slot is checked on its own: a block with a wrong header or CRC is reported, and
reading continues with the next slot, so damage costs only the blocks it touched. An unsealed block is read up to its committed
length.
"""

from __future__ import annotations

import itertools
import mmap
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight._native import library_path, load
from warpsight.capture.columns import pick, spread
from warpsight.capture.segments import layout
from warpsight.model.any_bytes import decoded

HEADER = layout.dtype(layout.BLOCK_HEADER)
DTYPES: dict[int, np.dtype[Any]] = {record.kind: layout.dtype(record) for record in layout.RECORDS}
#: Offset of the CRC in a block header; the CRC covers everything before it and the committed payload.
_CRC_OFFSET = layout.BLOCK_HEADER_BYTES - 4
#: Place of the record kind among a header's fields.
_KIND = layout.BLOCK_HEADER.fields.index(next(f for f in layout.BLOCK_HEADER.fields if f.name == "kind"))
#: Blocks decoded to columns at once: half of a second-level cache.
_BLOCKS_AT_ONCE = 8

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Damage:
    """Something that is missing from a segment. `offset` is in bytes from the start of the file."""

    path: Path
    offset: int
    cause: str
    kind: int = 0


class Block(NamedTuple):
    """One valid block: its header fields as Python values and the committed payload as bytes in place."""

    kind: int
    pid: int
    thread: int
    arena: int
    sequence: int
    lost: int
    writer: int
    session: int
    row_bytes: int
    sealed: bool
    gap_counted: bool
    slot: int
    payload: Array

    def body(self, skip_bytes: int = 0) -> Array:
        """Bytes of the whole rows behind the first `skip_bytes`, in this version's row size."""
        size = DTYPES[self.kind].itemsize
        body = self.payload[skip_bytes:]
        if self.row_bytes != size:
            return _resized_rows(body, self.row_bytes, size)
        return body[: len(body) // size * size]

    def rows(self, skip_bytes: int = 0) -> Array:
        """The rows behind the first `skip_bytes` of payload, as a structured view (not for kind `string`)."""
        return self.body(skip_bytes).view(DTYPES[self.kind])


def _resized_rows(body: Array, row_bytes: int, size: int) -> Array:
    """Rows with more or fewer trailing fields than this version knows; missing fields are zero."""
    count = len(body) // row_bytes
    out = np.zeros((count, size), np.uint8)
    shared = min(row_bytes, size)
    out[:, :shared] = body[: count * row_bytes].reshape(count, row_bytes)[:, :shared]
    return out.reshape(-1)


@dataclass
class Segment:
    """One opened segment file. Iterate over :meth:`blocks`; unreadable parts are listed in `damage`."""

    path: Path
    data: Array
    damage: list[Damage] = field(default_factory=list)

    @property
    def growing(self) -> bool:
        """The drainer still writes this file: its last blocks may be half written, which is not damage."""
        return self.path.name.endswith(".open")

    @property
    def slots(self) -> int:
        """Whole 64 KiB slots in the file."""
        return len(self.data) // layout.BLOCK_BYTES

    def blocks(self, first: int = 0, kinds: frozenset[int] | None = None) -> Iterator[Block]:
        """Every valid block from slot `first` on, in file order; with `kinds`, only those kinds, and others are not checked."""
        size = layout.BLOCK_BYTES
        slots = self.data[first * size : self.slots * size].reshape(-1, size)
        headers = np.ascontiguousarray(slots[:, : layout.BLOCK_HEADER_BYTES]).view(HEADER)
        checksums = _checksums(slots) if kinds is None else itertools.repeat(None)
        for slot, (fields, checksum) in enumerate(
            zip(headers.ravel().tolist(), checksums, strict=False), first
        ):
            if kinds is not None and fields[_KIND] not in kinds:
                continue
            block = self._block(slot * size, self.data[slot * size : (slot + 1) * size], fields, checksum)
            if block is not None:
                yield block
        tail = len(self.data) % size
        if tail and self.slots >= first:
            yield from self._tail(len(self.data) - tail)

    def _tail(self, offset: int) -> Iterator[Block]:
        """The cut last block: complete when the cut fell behind its committed bytes."""
        rest = self.data[offset:]
        if len(rest) >= layout.BLOCK_HEADER_BYTES:
            header = rest[: layout.BLOCK_HEADER_BYTES].view(HEADER)[0]
            if int(header["committed"]) <= len(rest) - layout.BLOCK_HEADER_BYTES:
                block = self._block(offset, rest, header.tolist())
                if block is not None:
                    yield block
                return
        if not self.growing:
            self._lost(
                offset, f"the file ends {layout.BLOCK_BYTES - len(rest)} bytes before the end of a block"
            )

    def _block(
        self, offset: int, slot: Array, fields: tuple[int, ...], checksum: int | None = None
    ) -> Block | None:
        # pid to session come in the order of Block's fields
        magic, version, kind, *sender, row_bytes, committed, flags, crc = fields
        if magic != layout.BLOCK_MAGIC:
            # rows are written before their header: without one they were not written to the end
            if slot[: layout.BLOCK_HEADER_BYTES].any():
                self._lost(offset, "a block header is damaged")
            return None
        if version != layout.LAYOUT_VERSION:
            self._lost(
                offset, f"a block has layout version {version}; this version reads {layout.LAYOUT_VERSION}"
            )
            return None
        if committed > len(slot) - layout.BLOCK_HEADER_BYTES:
            self._lost(offset, "a block header is damaged")
            return None
        end = layout.BLOCK_HEADER_BYTES + committed
        if (_checksum(slot.data, end) if checksum is None else checksum) != crc:
            self._lost(offset, "a block's checksum does not match", kind)
            return None
        if kind not in DTYPES:
            self._lost(offset, f"a block has unknown record kind {kind}", kind)
            return None
        if not row_bytes and not layout.BY_KIND[kind].variable:
            self._lost(offset, "a block header is damaged", kind)
            return None
        sealed, gap_counted = bool(flags & 1), bool(flags & 2)
        payload = slot[layout.BLOCK_HEADER_BYTES : end]
        return Block._make(
            (kind, *sender, row_bytes, sealed, gap_counted, offset // layout.BLOCK_BYTES, payload)
        )

    def _lost(self, offset: int, cause: str, kind: int = 0) -> None:
        self.damage.append(Damage(self.path, offset, cause, kind))


def _checksum(block: memoryview, end: int) -> int:
    """What the CRC of a block must be whose committed payload ends at `end`."""
    return zlib.crc32(block[layout.BLOCK_HEADER_BYTES : end], zlib.crc32(block[:_CRC_OFFSET]))


def _checksums(slots: Array) -> Iterable[int | None]:
    """:func:`_checksum` of every slot at once, several times as fast; all None without the compiled part."""
    if not len(slots) or library_path() is None:
        return itertools.repeat(None)
    out = np.empty(len(slots), np.uint32)
    load().ws_block_crcs(slots.ctypes.data, len(slots), out.ctypes.data)
    found: list[int | None] = out.tolist()
    return found


def open_segment(path: Path) -> Segment:
    """Map a segment file read-only. An empty file gives a segment without slots.

    Raises:
        OSError: when the file cannot be opened or mapped.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return Segment(path, np.zeros(0, np.uint8))
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    return Segment(path, np.frombuffer(mapped, np.uint8))


def strings(payload: Array, skip_bytes: int = 0) -> tuple[list[tuple[int, str]], int]:
    """Decode rows of kind `string`: (id, string) pairs, and the number of bytes in complete rows.

    Bytes that are not UTF-8 become hexadecimal escapes, so every text can be stored and different texts stay different.
    """
    view = payload.data
    fixed = layout.BY_NAME["String"].size
    rows: list[tuple[int, str]] = []
    offset = skip_bytes
    while offset + fixed <= len(view):
        number = int.from_bytes(view[offset : offset + 4], "little")
        length = int.from_bytes(view[offset + 4 : offset + 8], "little")
        end = offset + fixed + length
        if end > len(view):
            break
        rows.append((number, decoded(bytes(view[offset + fixed : end]))))
        offset = end + -length % 8
    return rows, offset


class RecordColumns:
    """Rows of one kind as contiguous columns, used like a structured array."""

    __slots__ = ("_columns", "_dtype")

    def __init__(self, dtype: np.dtype[Any], columns: dict[str, Array]) -> None:
        self._dtype = dtype
        self._columns = columns

    @classmethod
    def of(cls, structured: Array) -> RecordColumns:
        """The rows of a structured array."""
        return cls(structured.dtype, {name: structured[name].copy() for name in structured.dtype.names or ()})

    @classmethod
    def join(cls, first: RecordColumns, second: RecordColumns) -> RecordColumns:
        """The rows of both, in order."""
        return cls(
            first._dtype, {n: np.concatenate([c, second._columns[n]]) for n, c in first._columns.items()}
        )

    def structured(self) -> Array:
        """The rows as one structured array."""
        out = np.zeros(len(self), self._dtype)
        for name, column in self._columns.items():
            out[name] = column
        return out

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._columns[key]
        return RecordColumns(self._dtype, {name: pick(column, key) for name, column in self._columns.items()})

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))


@dataclass
class Batch:
    """Rows of one kind from any number of blocks, with each row's thread and session."""

    rows: Any
    thread: Array
    session: Array


def gather(parts: list[tuple[Block, Array]], kind: int) -> Batch:
    """Join the bodies of several blocks of one kind into one structured array."""
    dtype = DTYPES[kind]
    # joined as bytes: NumPy copies structured arrays field by field
    rows = np.concatenate([body for _, body in parts]).view(dtype) if parts else np.zeros(0, dtype)
    return _batch(parts, dtype, rows)


class _Column:
    """A column being filled: only its first value while every row has it, an array from then on."""

    __slots__ = ("_array", "_count", "_first", "_type")

    def __init__(self, kind: np.dtype[Any], count: int) -> None:
        self._type = kind
        self._count = count
        self._first: Any = None
        self._array: Array | None = None

    def put(self, at: int, values: Array, varies: bool) -> None:
        """Take the rows from `at` on, which `varies` marks as different; rows come in order, without gaps."""
        if self._array is None:
            if not at:
                self._first = values[0]
            if not varies and values[0] == self._first:
                return
            self._array = np.empty(self._count, self._type)
            self._array[:at] = self._first
        self._array[at : at + len(values)] = values if varies else values[0]

    def array(self) -> Array:
        """All rows."""
        if self._array is None:
            return spread(0 if self._first is None else self._first, self._count, self._type)
        return self._array


def _changes(rows: Array, size: int) -> bytes:
    """The bits by which rows differ from their neighbors, over all rows: zero bytes are the same in every row.

    Two passes over the memory as it is, instead of one with strides per field.
    """
    words = size // 8
    differ = rows.view(np.uint64)[words:] ^ rows.view(np.uint64)[:-words]
    count = len(differ) // words
    whole = count // 64 * 64
    # first 64 rows at a time: NumPy's inner loop is then long enough
    part = np.bitwise_or.reduce(differ[: whole * words].reshape(-1, 64 * words), axis=0)
    out = np.bitwise_or.reduce(part.reshape(64, words), axis=0)
    out |= np.bitwise_or.reduce(differ[whole * words :].reshape(-1, words), axis=0)
    return bytes(out.tobytes())


def columns(parts: list[tuple[Block, Array]], kind: int) -> Batch:
    """Join blocks into columns; constant columns are read-only arrays of stride 0.

    Only a few blocks are split at a time, so that they stay in the cache.
    """
    dtype = DTYPES[kind]
    bodies = [body for _, body in parts if len(body)]
    count = sum(map(len, bodies)) // dtype.itemsize
    out = {name: _Column(dtype[name], count) for name in dtype.names or ()}
    spans = {n: slice(f[1], f[1] + f[0].itemsize) for n, f in (dtype.fields or {}).items()}
    first = 0
    for place in range(0, len(bodies), _BLOCKS_AT_ONCE):
        joined = np.concatenate(bodies[place : place + _BLOCKS_AT_ONCE])
        rows, changes = joined.view(dtype), _changes(joined, dtype.itemsize)
        for name, column in out.items():
            column.put(first, rows[name], any(changes[spans[name]]))
        first += len(rows)
    return _batch(parts, dtype, RecordColumns(dtype, {name: column.array() for name, column in out.items()}))


def _batch(parts: list[tuple[Block, Array]], dtype: np.dtype[Any], rows: object) -> Batch:
    counts = [len(body) // dtype.itemsize for _, body in parts]
    thread = _repeat(np.array([block.thread for block, _ in parts], np.uint32).view(np.int32), counts)
    session = _repeat(np.array([block.session for block, _ in parts], np.int64), counts)
    return Batch(rows, thread, session)


def _repeat(values: Array, counts: list[int]) -> Array:
    """Each block's value for each of its rows."""
    if len(values) and bool((values == values[0]).all()):
        return spread(values[0], sum(counts), values.dtype)
    return np.repeat(values, counts)


def read(path: Path) -> tuple[dict[int, Batch], list[tuple[int, str]], list[Damage]]:
    """Read a whole segment file: rows by kind, strings, and losses. For tools and tests.

    A block the drainer wrote twice (once still open) appears twice here; the converter keeps the longer one.
    """
    segment = open_segment(path)
    found: dict[int, list[tuple[Block, Array]]] = {}
    text: list[tuple[int, str]] = []
    for block in segment.blocks():
        if layout.BY_KIND[block.kind].variable:
            text += strings(block.payload)[0]
        else:
            found.setdefault(block.kind, []).append((block, block.body()))
    return {kind: gather(parts, kind) for kind, parts in found.items()}, text, segment.damage
