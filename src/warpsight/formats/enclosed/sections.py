"""One table as bytes: delta columns split into byte planes, which compress three times as well as Parquet's pages.

A section is the length of its head (u32, little endian), the head (JSON: table, rows, columns) and the columns in sequence.
A column that may be null begins with a bit per row, 1 for a value. Then come

* numbers: differences to the row before, zigzag (0, -1, 1, -2 → 0, 1, 2, 3), as planes: the lowest byte of all rows, then the
  next one, as many as the largest difference needs. Starts 1000, 1300, 1700 are 2000, 600, 800, so the planes D0 58 20, 07 02 03;
* floats: the eight planes of their bits;
* texts: their places in a list, as numbers, behind the list: its length (u32) and JSON.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.model.schema import TABLES

Column = NDArray[Any]
_LENGTH = struct.Struct("<I")


class _Head(msgspec.Struct):
    """A section's contents.

    Holds each column's name, whether it has nulls, and its planes (-1: the list of a string column comes first).
    """

    table: str
    rows: int
    columns: list[tuple[str, bool, int]]


def encode(table: str, data: pa.Table) -> bytes:
    """A section of some rows of a table."""
    head, parts = _Head(table, len(data), []), []
    for name in data.column_names:
        column = data.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # no rows
            column = pa.array([], column.type)
        if column.null_count:
            parts.append(np.packbits(column.is_valid().to_numpy(zero_copy_only=False)).tobytes())
        planes, content = _column(column)
        head.columns.append((name, bool(column.null_count), planes))
        parts += content
    text = msgspec.json.encode(head)
    return b"".join((_LENGTH.pack(len(text)), text, *parts))


def _column(column: pa.Array) -> tuple[int, list[bytes]]:
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        texts = msgspec.json.encode(coded.dictionary.to_pylist())
        planes, content = _numbers(coded.indices.fill_null(0).to_numpy().astype(np.int64))
        return -1 - planes, [_LENGTH.pack(len(texts)), texts, *content]
    if pa.types.is_floating(column.type):
        bits = column.fill_null(0.0).to_numpy().view(np.uint64)
        return 8, [_planes(bits, 8)]
    filled = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    values = filled.to_numpy(zero_copy_only=False)
    return _numbers(values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64))


def _numbers(values: Column) -> tuple[int, list[bytes]]:
    steps = np.diff(values, prepend=np.int64(0))  # wraps, and so does the sum that undoes it
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    planes = (int(zigzag.max(initial=0)).bit_length() + 7) // 8
    return planes, [_planes(zigzag, planes)]


def _planes(values: Column, count: int) -> bytes:
    return np.ascontiguousarray(values.view(np.uint8).reshape(-1, 8)[:, :count].T).tobytes()


def decode(data: bytes) -> Iterator[tuple[str, pa.Table]]:
    """The sections of a block, by table, with the schema's types.

    Raises:
        ValueError: for data that no encoder writes.
    """
    place = 0
    while place < len(data):
        length, place = _length(data, place)
        head = msgspec.json.decode(data[place : place + length], type=_Head)
        place += length
        schema = TABLES[head.table].schema() if head.table in TABLES else None
        columns: dict[str, pa.Array] = {}
        for name, nulls, planes in head.columns:
            if schema is None or name not in schema.names:
                raise ValueError(f"there is no column {head.table}.{name}")
            valid = None
            if nulls:
                bits = _taken(data, place, (head.rows + 7) // 8)
                valid = np.unpackbits(bits, count=head.rows).astype(bool)
                place += len(bits)
            columns[name], place = _decoded(data, place, head.rows, planes, valid, schema.field(name).type)
        yield head.table, pa.table(columns)


def _decoded(
    data: bytes, place: int, rows: int, planes: int, valid: Column | None, kind: pa.DataType
) -> tuple[pa.Array, int]:
    texts = None
    if planes < 0:
        length, place = _length(data, place)
        texts = pa.array(msgspec.json.decode(data[place : place + length], type=list[str]), pa.string())
        place, planes = place + length, -1 - planes
    raw = _taken(data, place, planes * rows)
    place += len(raw)
    wide = np.zeros((rows, 8), np.uint8)
    wide[:, :planes] = raw.reshape(planes, rows).T
    bits = wide.view(np.uint64).reshape(-1)
    if pa.types.is_floating(kind):
        return pa.array(bits.view(np.float64), kind, mask=None if valid is None else ~valid), place
    steps = (bits >> np.uint64(1)).view(np.int64) ^ -(bits & np.uint64(1)).view(np.int64)
    values = np.cumsum(steps, dtype=np.int64)
    null = None if valid is None else ~valid
    if texts is not None:
        return texts.take(pa.array(values, mask=null)), place
    if pa.types.is_boolean(kind):
        return pa.array(values != 0, mask=null), place
    full = pa.array(values.view(np.uint64) if kind == pa.uint64() else values, mask=null)
    return full.cast(kind), place


def _length(data: bytes, place: int) -> tuple[int, int]:
    if place + _LENGTH.size > len(data):
        raise ValueError("a section ends early")
    (length,) = _LENGTH.unpack_from(data, place)
    if place + _LENGTH.size + length > len(data):
        raise ValueError("a section ends early")
    return int(length), place + _LENGTH.size


def _taken(data: bytes, place: int, size: int) -> Column:
    if size < 0 or place + size > len(data):
        raise ValueError("a section ends early")
    return np.frombuffer(data, np.uint8, size, place)
