"""The file of an event trace: `WSEVENT1`, then blocks of kind, CRC-32, length and payload (native/sanitizer/event_file.cpp).

A file that ends early gives the blocks up to there, and a file with a damaged block gives the others. Both cases are noted.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.source import Source

MAGIC = b"WSEVENT1"
_HEADER = struct.Struct("<IIQ")
_EVENTS = struct.Struct("<QII")
_DESCRIPTION, _RECORDS, _CUBIN, _MAP = 1, 2, 3, 4
_LARGEST = 1 << 33
#: Fields that a description must have.
_FIELDS: dict[str, dict[str, type]] = {
    "process": {"pid": int, "monotonic": int, "realtime": int, "request": dict},
    "function": {"module": int, "name": str, "pc": int, "bytes": int},
    "launch": {
        "launch": int, "index": int, "module": int, "name": str, "pc": int, "grid": list, "block": list, "cluster": list,
        "stream": int, "context": int, "thread": int, "monotonic": int, "graph": int,
    },
    "loss": {"cause": str, "count": int},
    "order": {"what": str, "event": int, "stream": int},
    "operands": {"module": int, "name": str, "pc": int},
    "sites": {"module": int, "kernels": dict},
}  # fmt: skip


@dataclass(frozen=True)
class Records:
    """Records as they were stored in a context's ring.

    Attributes:
        ring: number of the context's ring; sequence: position of the first word in the ring, counted from 0 without gaps.
        lengths: words of each record; words: all of them.
    """

    ring: int
    sequence: int
    lengths: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]


@dataclass
class EventFile:
    """The contents of a file.

    Attributes:
        process: the tracer's description of its process; functions, launches: descriptions of these; cubins: cubins by module.
        order: launches, event records and waits, in the order of the host's calls.
        maps: maps of probes: launch, number of the map, its words (probe_maps.py).
        operands: instructions of each function, with the registers recorded for each.
        sites: accesses of kernels with compiled checks, by module and kernel: number, text, and function, file and line of each
            frame.
        losses: cause and count of what is missing.
        complete: whether the file is complete.
    """

    process: dict[str, Any] = field(default_factory=dict)
    functions: list[dict[str, Any]] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    order: list[dict[str, Any]] = field(default_factory=list)
    operands: list[dict[str, Any]] = field(default_factory=list)
    sites: dict[tuple[int, str], list[tuple[int, str, list[tuple[str, str, int]]]]] = field(
        default_factory=dict
    )
    cubins: dict[int, bytes] = field(default_factory=dict)
    records: list[Records] = field(default_factory=list)
    maps: list[tuple[int, int, npt.NDArray[np.uint64]]] = field(default_factory=list)
    losses: list[tuple[str, int]] = field(default_factory=list)
    complete: bool = False

    @property
    def recorded(self) -> int:
        """How many records the file holds."""
        return sum(len(block.lengths) for block in self.records)


def read(source: Source) -> EventFile:
    """Read a file, compressed or not.

    Raises:
        FormatError: when it is not an event trace.
    """
    found = EventFile()
    for kind, payload in _blocks(source, found):
        if kind == _DESCRIPTION:
            _describe(found, payload)
        elif kind == _RECORDS:
            _add_records(found, payload)
        elif kind == _CUBIN and len(payload) > 4:
            found.cubins[int.from_bytes(payload[:4], "little")] = payload[4:]
        elif kind == _MAP and len(payload) >= 16 and len(payload) % 8 == 0:
            launch, number = np.frombuffer(payload, np.uint32, 2).tolist()
            found.maps.append((launch, number, np.frombuffer(payload, np.uint64, offset=8)))
    _check_order(found)
    if source.truncated:
        found.losses.append((f"{source.damage}; what came before was read", 0))
    elif not found.complete:
        found.losses.append(
            ("the program ended before its trace did; everything written until then was read", 0)
        )
    return found


def _blocks(source: Source, found: EventFile) -> Iterator[tuple[int, bytes]]:
    with source.open() as file:
        if file.read(len(MAGIC)) != MAGIC:
            if source.truncated:
                raise source.error(f"{source.damage}, before anything can be read")
            raise source.error("not an event trace; record one with: warpsight sass trace -- PROGRAM")
        at = len(MAGIC)
        while head := file.read(_HEADER.size):
            if len(head) < _HEADER.size:
                source.ended_early(f"the file ends inside a block's header at byte {at}")
                return
            kind, checksum, size = _HEADER.unpack(head)
            payload = file.read(size) if size <= _LARGEST else b""
            if len(payload) < size:
                source.ended_early(f"the file ends inside a block that begins at byte {at}")
                return
            if zlib.crc32(payload) == checksum:
                yield kind, payload
            else:
                found.losses.append((f"the block at byte {at} is damaged (checksum) and was left out", 1))
            at += _HEADER.size + size


def _describe(found: EventFile, payload: bytes) -> None:
    try:
        said = json.loads(payload.decode("utf-8", "replace"))
        kind = said.pop("kind", None)
        whole = all(_is(said[field], wanted) for field, wanted in _FIELDS.get(kind, {}).items())
        whole = whole and (kind != "operands" or all(map(_is_instruction, said["instructions"])))
        whole = whole and (
            kind != "sites" or all(_is_site(one) for own in said["kernels"].values() for one in own)
        )
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        whole = False
    if not whole:
        found.losses.append(("an invalid description was left out", 1))
    elif kind == "process":
        found.process = said
    elif kind == "function":
        found.functions.append(said)
    elif kind == "launch":
        found.launches.append(said)
        found.order.append(said)
    elif kind == "order":
        found.order.append(said)
    elif kind == "operands":
        found.operands.append(said)
    elif kind == "sites":
        found.sites.update({(said["module"], name): own for name, own in said["kernels"].items()})
    elif kind == "loss":
        found.losses.append((said["cause"], said["count"]))
    elif kind == "end":
        found.complete = True


def _is(value: object, wanted: type) -> bool:
    """Whether a field is a string, a non-negative 64-bit integer, or three sizes."""
    if wanted is list:
        return isinstance(value, list) and len(value) == 3 and all(_is(v, int) and v < 1 << 31 for v in value)
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
    return isinstance(value, wanted)


def _is_instruction(value: Sequence[Any]) -> bool:
    """Whether a field holds an offset, a string and register numbers."""
    offset, text, registers = value
    return _is(offset, int) and isinstance(text, str) and all(_is(r, int) and r < 1 << 15 for r in registers)


def _is_site(value: Sequence[Any]) -> bool:
    """Whether a field holds a number, a string and frames: function, file and line."""
    number, text, frames = value
    return (
        _is(number, int)
        and isinstance(text, str)
        and all(
            isinstance(function, str) and isinstance(file, str) and _is(line, int)
            for function, file, line in frames
        )
    )


def _add_records(found: EventFile, payload: bytes) -> None:
    sequence, ring, count = _EVENTS.unpack_from(payload)
    lengths = np.frombuffer(payload, np.uint8, count, _EVENTS.size)
    begin = _EVENTS.size + count + (8 - count % 8) % 8
    words = np.frombuffer(payload[begin:], np.uint64)
    if int(lengths.sum()) != len(words):
        found.losses.append(("a block's records do not have the stated length; it was left out", count))
        return
    found.records.append(Records(ring, sequence, lengths, words))


def _check_order(found: EventFile) -> None:
    """Positions in a ring are contiguous, so a gap means a missing block."""
    reached: dict[int, int] = {}
    for records in found.records:
        missing = records.sequence - reached.get(records.ring, 0)
        if missing:
            found.losses.append((f"{missing} words of ring {records.ring} are missing", 1))
        reached[records.ring] = records.sequence + len(records.words)
