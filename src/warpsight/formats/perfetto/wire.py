"""Protobuf wire bytes of many similar messages at once, from NumPy columns.

All rows share one list of parts, laid out in a matrix of one row per message. A varint takes as many bytes in every row of a
chunk as the largest of the chunk needs (leading zero groups are valid, and cost 3% here), so lengths are the same in every row
and the matrix is the encoding. If some rows lack fields, a mask picks the bytes that exist. There is no loop over rows. Wire
format: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
#: Rows encoded at a time: the matrix fits in the second-level cache.
CHUNK_ROWS = 8192


def varint(value: int) -> bytes:
    """One unsigned number; a negative one is encoded like protobuf's int64."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, wire_type: int) -> bytes:
    """The key before a field's value; wire types: 0 varint, 1 eight bytes, 2 length and bytes."""
    return varint(field << 3 | wire_type)


def number(field: int, value: int) -> bytes:
    """A varint field."""
    return tag(field, 0) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    """A string or bytes field, or an already encoded message."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return tag(field, 2) + varint(len(data)) + data


@dataclass(frozen=True)
class ConstantPart:
    """The same bytes in every row."""

    data: bytes


@dataclass(frozen=True)
class Varint:
    """A varint field with a value per row (not negative); absent where `present` is false."""

    field: int
    values: Column
    present: Column | None = None


@dataclass(frozen=True)
class Fixed64:
    """An eight-byte field: uint64, int64 or float64 values."""

    field: int
    values: Column
    present: Column | None = None


@dataclass(frozen=True)
class Message:
    """A nested message, absent where `present` is false."""

    field: int
    parts: Sequence[Part]
    present: Column | None = None


Part = ConstantPart | Varint | Fixed64 | Message


def encode(parts: Sequence[Part], begin: int, end: int) -> list[bytes | bytearray]:
    """The encoded rows from `begin` to `end`, one piece at a time, each assembled from `parts`."""
    pieces = []
    for first in range(begin, end, CHUNK_ROWS):
        last = min(first + CHUNK_ROWS, end)
        pieces.append(_Chunk(last - first).encode([_cut(part, first, last) for part in parts]))
    return pieces


def _cut(part: Part, begin: int, end: int) -> Part:
    if isinstance(part, ConstantPart):
        return part
    present = None if part.present is None else part.present[begin:end]
    if present is not None and present.all():
        present = None
    elif present is not None and not present.any():
        return ConstantPart(b"")
    if isinstance(part, Message):
        return Message(part.field, [_cut(p, begin, end) for p in part.parts], present)
    return type(part)(part.field, part.values[begin:end], present)


class _Chunk:
    """The matrix of one chunk of rows: cells are collected first, because the width is known only at the end."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.template = bytearray()
        #: (first column, little-endian unsigned values that fill as many columns as their item size)
        self.cells: list[tuple[int, Column]] = []
        #: (first column, last column + 1, mask) of columns that some rows lack
        self.masks: list[tuple[int, int, Column]] = []

    def encode(self, parts: Sequence[Part]) -> bytes | bytearray:
        self._lay(parts)
        width = len(self.template)
        buffer = self.template * self.rows
        for column, values in self.cells:
            place: Column = np.ndarray(self.rows, values.dtype, buffer, column, (width,))
            place[:] = values
        if not self.masks:
            return buffer
        matrix = np.frombuffer(buffer, np.uint8).reshape(self.rows, width)
        mask = np.ones((self.rows, width), bool)
        for first, last, there in self.masks:
            mask[:, first:last] &= there[:, None]
        return matrix[mask].tobytes()

    def _lay(self, parts: Sequence[Part]) -> Column | int:
        """Add cells for the parts; returns their bytes per row, one number when all rows agree."""
        total: Column | int = 0
        for part in parts:
            first = len(self.template)
            if isinstance(part, ConstantPart):
                self.template += part.data
                total = total + len(part.data)
                continue
            size = self._lay_field(part)
            if part.present is not None:
                self.masks.append((first, len(self.template), part.present))
                size = size * part.present
            total = total + size
        return total

    def _lay_field(self, part: Varint | Fixed64 | Message) -> Column | int:
        if isinstance(part, Message):
            return self._lay_message(part)
        key = tag(part.field, 0 if isinstance(part, Varint) else 1)
        self.template += key
        if isinstance(part, Varint):
            return self._lay_varint(part.values) + len(key)
        self.cells.append((len(self.template), part.values.view("<u8")))
        self.template += bytes(8)
        return len(key) + 8

    def _lay_message(self, part: Message) -> Column | int:
        key = tag(part.field, 2)
        self.template += key
        body = _Chunk(self.rows)
        size = body._lay(part.parts)
        if isinstance(size, int):
            prefix = varint(size)
            self.template += prefix
            length = len(prefix)
        else:
            length = self._lay_varint(size)
        shift = len(self.template)
        self.template += body.template
        self.cells += [(column + shift, values) for column, values in body.cells]
        self.masks += [(first + shift, last + shift, mask) for first, last, mask in body.masks]
        return length + size + len(key)

    def _lay_varint(self, values: Column) -> int:
        """Add the cells of a varint column and return its width, that of the chunk's largest value."""
        top = int(values.max()) if len(values) else 0
        width = max(1, (top.bit_length() + 6) // 7)
        left = values if width > 4 else values.astype(np.uint32, copy=False)
        for begin in range(0, width, 4):
            count = min(width - begin, 4)
            more = begin + count < width
            self._lay_group((left & 0xFFFFFFF).astype(np.uint32) if more or begin else left, count, more)
            if more:
                left = left >> 28
        return width

    def _lay_group(self, values: Column, count: int, more: bool) -> None:
        """Add `count` bytes, at most four, of seven bits each; `more` bytes of the same varint follow."""
        column = len(self.template)
        self.template += bytes(count)
        if count == 1:
            self.cells.append((column, values.astype("<u1") | np.uint8(0x80 * more)))
        elif count == 2:
            self.cells.append((column, (_TWO_MORE if more else _TWO).take(values)))
        else:
            low = _TWO_MORE.take(values & 0x3FFF)
            high = values >> 14
            self.cells.append((column, low))
            if count == 3:
                self.cells.append((column + 2, high.astype("<u1") | np.uint8(0x80 * more)))
            else:
                self.cells.append((column + 2, (_TWO_MORE if more else _TWO).take(high)))


#: Two bytes of seven bits each, the second one the last of the varint.
_TWO: Column = (np.arange(1 << 14) & 0x7F | (np.arange(1 << 14) >> 7 << 8) | 0x80).astype("<u2")
_TWO_MORE: Column = _TWO | np.uint16(0x8000)
