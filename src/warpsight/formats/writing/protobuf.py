"""Writing protobuf without generated code: single fields as bytes, and whole columns of messages as Arrow arrays."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from warpsight.formats import varint
from warpsight.formats.varint import Column, encode_one

_VARINT, _FIXED64, _LENGTH = 0, 1, 2


def number(field: int, value: int) -> bytes:
    """An integer, enum or bool field; omitted for 0, the default."""
    return encode_one(field << 3 | _VARINT) + encode_one(value) if value else b""


def fixed64(field: int, value: int) -> bytes:
    """A fixed64 field; omitted for 0."""
    return encode_one(field << 3 | _FIXED64) + struct.pack("<Q", value) if value else b""


def data(field: int, value: bytes) -> bytes:
    """A message or bytes field, written even if empty, because in a repeated field its position counts."""
    return encode_one(field << 3 | _LENGTH) + encode_one(len(value)) + value


def text(field: int, value: str) -> bytes:
    """A string field; omitted for the empty string."""
    return data(field, value.encode("utf-8", "replace")) if value else b""


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated integer field."""
    inner = b"".join(encode_one(value) for value in values)
    return data(field, inner) if inner else b""


# Columns: LargeBinaryArray with one value per message; an empty value is an absent field.


def varints(values: Column) -> pa.Array:
    """Numbers as varints."""
    unsigned = values.astype(np.int64, copy=False).view(np.uint64) if values.dtype != np.uint64 else values
    size = varint.lengths(unsigned)
    ends = np.cumsum(size)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    varint.encode_into(out, ends - size, unsigned, size)
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    )


def joined(*pieces: pa.Array | bytes) -> pa.Array:
    """The joined pieces of a message; a bytes piece is the same in every row."""
    import pyarrow.compute as pc

    arrays = [
        pa.scalar(p, pa.large_binary()) if isinstance(p, bytes) else p.cast(pa.large_binary()) for p in pieces
    ]
    return pc.binary_join_element_wise(*arrays, pa.scalar(b"", pa.large_binary()))


def number_column(field: int, values: Column) -> pa.Array:
    """An integer field in every message."""
    return joined(encode_one(field << 3 | _VARINT), varints(values))


def data_column(field: int, values: pa.Array, *, optional: bool = False) -> pa.Array:
    """A message, bytes or string field in every message; with `optional` empty values are left out."""
    import pyarrow.compute as pc

    content = values.cast(pa.large_binary())
    found = joined(encode_one(field << 3 | _LENGTH), delimited(content))
    if not optional:
        return found
    return pc.if_else(pc.equal(pc.binary_length(content), 0), pa.scalar(b"", pa.large_binary()), found)


def delimited(messages: pa.Array) -> pa.Array:
    """Messages prefixed with their length."""
    import pyarrow.compute as pc

    sizes = pc.binary_length(messages).to_numpy(zero_copy_only=False).astype(np.int64)
    return joined(varints(sizes), messages)


def concatenated(messages: pa.Array) -> bytes:
    """All values of a column in sequence."""
    offsets = np.frombuffer(messages.buffers()[1], np.int64)[
        messages.offset : messages.offset + len(messages) + 1
    ]
    if not len(messages) or messages.buffers()[2] is None:
        return b""
    return bytes(memoryview(messages.buffers()[2])[int(offsets[0]) : int(offsets[-1])])
