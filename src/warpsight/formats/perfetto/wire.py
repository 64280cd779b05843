"""Protobuf wire bytes of many alike messages at once, from NumPy columns.

All rows share one list of parts. The parts are laid out in a matrix of one row per message, each varint in as many
columns as the longest of the chunk needs, beside a mask of the bytes that are there; `matrix[mask]` is the encoding,
with minimal varints. There is no loop over rows. Wire format: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
#: Rows encoded at a time: the matrix stays in the second-level cache.
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
    """A string or bytes field, or a message that is encoded already."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return tag(field, 2) + varint(len(data)) + data


@dataclass(frozen=True)
class Constant:
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


Part = Constant | Varint | Fixed64 | Message


def encode(parts: Sequence[Part], begin: int, end: int) -> bytes:
    """Concatenated bytes of the rows from `begin` to before `end`, each made of `parts`."""
    pieces = []
    for first in range(begin, end, CHUNK_ROWS):
        last = min(first + CHUNK_ROWS, end)
        pieces.append(_Chunk(last - first).encode([_cut(part, first, last) for part in parts]))
    return b"".join(pieces)


def _cut(part: Part, begin: int, end: int) -> Part:
    if isinstance(part, Constant):
        return part
    present = None if part.present is None else part.present[begin:end]
    if present is not None and present.all():
        present = None
    if isinstance(part, Message):
        return Message(part.field, [_cut(p, begin, end) for p in part.parts], present)
    return type(part)(part.field, part.values[begin:end], present)


class _Chunk:
    """The matrix of one chunk of rows: cells are collected first, since the width is known only at the end."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.template = bytearray()
        #: (column, values, mask of the rows that have this byte or None)
        self.cells: list[tuple[int, Column, Column | None]] = []
        #: (first column, last column + 1, mask) of columns that some rows lack
        self.masks: list[tuple[int, int, Column]] = []

    def encode(self, parts: Sequence[Part]) -> bytes:
        self._lay(parts)
        width = len(self.template)
        matrix = np.empty((self.rows, width), np.uint8)
        matrix[:] = np.frombuffer(bytes(self.template), np.uint8)
        for column, values, _ in self.cells:
            if values.ndim == 2:
                matrix[:, column : column + values.shape[1]] = values
            else:
                matrix[:, column] = values
        if not self.masks and all(mask is None for _, _, mask in self.cells):
            return matrix.tobytes()
        mask = np.ones((self.rows, width), bool)
        for column, _, there in self.cells:
            if there is not None:
                mask[:, column] = there
        for first, last, there in self.masks:
            mask[:, first:last] &= there[:, None]
        return matrix[mask].tobytes()

    def _lay(self, parts: Sequence[Part]) -> Column | int:
        """Add cells for the parts; returns their bytes per row, one number when all rows agree."""
        total: Column | int = 0
        for part in parts:
            first = len(self.template)
            if isinstance(part, Constant):
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
        self.cells.append(
            (len(self.template), np.ascontiguousarray(part.values).view(np.uint8).reshape(-1, 8), None)
        )
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
            length: Column | int = len(prefix)
        else:
            length = self._lay_varint(size)
        shift = len(self.template)
        self.template += body.template
        self.cells += [(column + shift, values, mask) for column, values, mask in body.cells]
        self.masks += [(first + shift, last + shift, mask) for first, last, mask in body.masks]
        return length + size + len(key)

    def _lay_varint(self, values: Column) -> Column | int:
        top = int(values.max()) if len(values) else 0
        width = max(1, (top.bit_length() + 6) // 7)
        first = len(self.template)
        self.template += bytes(width)
        small = values.astype(np.uint32 if top < 1 << 32 else np.uint64, copy=False)
        if width == 1:
            self.cells.append((first, small.astype(np.uint8), None))
            return 1
        longer = [small >= (1 << 7 * i) for i in range(1, width)]
        for i in range(width):
            byte = (small >> (7 * i)).astype(np.uint8)
            byte &= 0x7F
            if i < width - 1:
                byte |= longer[i].view(np.uint8) << 7
            self.cells.append((first + i, byte, longer[i - 1] if i else None))
        if all(there.all() for there in longer):
            return width
        sizes: Column = np.add.reduce([there.view(np.uint8) for there in longer], axis=0, dtype=np.int64) + 1
        return sizes
