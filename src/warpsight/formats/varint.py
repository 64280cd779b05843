"""Unsigned LEB128 numbers in NumPy: seven bits per byte, low bits first; the top bit means that more follow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

#: Bytes of the longest encoding of a 64-bit number.
LONGEST = 10


class Overlong(ValueError):
    """A number that does not end within ten bytes or before the end of the data; `offset` is its start."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"a number at byte {offset} does not end")
        self.offset = offset


def decode(data: Column, at: Column) -> tuple[Column, Column]:
    """The numbers that start at the given bytes, and the end of each.

    Args:
        data: uint8[bytes].
        at: int64[n], places in `data`.

    Returns:
        uint64[n] values, modulo 2^64, and int64[n] places after them.

    Raises:
        Overlong: for an unterminated number.
    """
    if len(at) and int(at.max()) >= len(data):
        raise Overlong(int(at.max()))
    byte = data[at]
    value = (byte & 0x7F).astype(np.uint64)
    end = at + 1
    going = np.flatnonzero(byte >= 0x80)
    for place in range(1, LONGEST):
        if not len(going):
            return value, end
        where = end[going]
        if int(where.max()) >= len(data):
            raise Overlong(int(at[going[np.argmax(where)]]))
        byte = data[where]
        value[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
        end[going] += 1
        going = going[byte >= 0x80]
    if len(going):
        raise Overlong(int(at[going[0]]))
    return value, end


def decode_one(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Decode one number; returns it and its end.

    Raises:
        Overlong: when it is unterminated.
    """
    value = 0
    for place in range(LONGEST):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + place + 1
    raise Overlong(at)


def lengths(values: Column) -> Column:
    """Bytes each number takes, as int64[n]."""
    size = np.ones(len(values), np.int64)
    bound = 7
    while bound < 64:
        larger = values >= np.uint64(1 << bound)
        if not larger.any():
            break
        size += larger
        bound += 7
    return size


def encode_into(out: Column, at: Column, values: Column, size: Column) -> None:
    """Write numbers at the given places of `out`; `size` comes from :func:`lengths`."""
    longest = int(size.max(initial=1))
    if longest == 1:
        out[at] = values
        return
    low = values.astype(np.uint8)  # the lowest eight bits
    out[at] = (low & np.uint8(0x7F)) | ((size > 1).astype(np.uint8) << np.uint8(7))
    rows = np.flatnonzero(size > 1)
    for place in range(1, longest):
        if len(rows) != len(values):
            at, size, values = at[rows], size[rows], values[rows]
        byte = (values >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(0x7F)
        more = size > place + 1
        out[at + place] = byte | (more.astype(np.uint8) << np.uint8(7))
        rows = np.flatnonzero(more)


def encode_one(value: int) -> bytes:
    """One number, taken modulo 2^64."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def ragged(starts: Column, counts: Column) -> Column:
    """The positions `start, start + 1, … start + count - 1` of every row, in sequence."""
    total = int(counts.sum())
    if not total:
        return np.empty(0, np.int64)
    ends = np.cumsum(counts)
    places: Column = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return places
