"""The packets of a Perfetto trace in sequence, without loading the file: a Trace is just field 1, repeated."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpsight.formats.source import Source

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

PIECE_BYTES = 1 << 20
#: Tracing services write packets of at most 256 KiB; this limits the cost of a damaged length.
LONGEST = 64 << 20
#: Maximum decompressed size of compressed packets.
_LONGEST_UNFOLDED = 256 << 20
_FIXED = {1: 8, 5: 4}


def varint(data: bytes, place: int) -> tuple[int, int] | None:
    """A number and its end; None if the data ends inside it.

    Raises:
        ValueError: when it is longer than ten bytes.
    """
    value = shift = 0
    while place < len(data):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than ten bytes")
    return None


class Packets:
    """The packets of a file; iterating gives (offset, bytes of a TracePacket)."""

    def __init__(self, source: Source) -> None:
        """Nothing is read yet."""
        self._source = source
        self.count = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Every packet.

        Raises:
            FormatError: when no packet can be read at all.
        """
        with self._source.open() as file:
            buffer, base, place, ended = b"", 0, 0, False
            while True:
                try:
                    found = next_field(buffer, place)
                except ValueError as error:
                    return self._stop(f"{error}, at byte {base + place:,}", base + place)
                if found is not None:
                    start, end, is_packet = found
                    if is_packet:
                        self.count += 1
                        yield base + start, buffer[start:end]
                    place = end
                    continue
                if ended:
                    if place < len(buffer):
                        self._stop(
                            f"the file ends inside a packet that begins at byte {base + place:,}",
                            base + place,
                        )
                    return None
                buffer, base, place = buffer[place:], base + place, 0
                data = file.read(max(PIECE_BYTES, len(buffer)))
                ended = not data
                buffer += data

    def _stop(self, problem: str, offset: int) -> None:
        if not self.count:
            raise self._source.error(problem, offset=offset)
        self._source.ended_early(problem)


def next_field(data: bytes, place: int) -> tuple[int, int, bool] | None:
    """Start, end and packet flag of the field at a place; None if more bytes are needed."""
    tag = varint(data, place)
    if tag is None:
        return None
    field, wire_type = tag[0] >> 3, tag[0] & 7
    if wire_type in _FIXED:
        end = tag[1] + _FIXED[wire_type]
        return None if end > len(data) else (tag[1], end, False)
    if wire_type not in (0, 2) or field == 0:
        raise ValueError(f"field {field} of wire type {wire_type} is not used by traces")
    length = varint(data, tag[1])
    if length is None:
        return None
    if wire_type == 0:
        return (length[1], length[1], False)
    if length[0] > LONGEST:
        raise ValueError(f"a packet of {length[0]:,} bytes is longer than any in a real trace")
    end = length[1] + length[0]
    return None if end > len(data) else (length[1], end, field == 1)


def unfold(packet: TracePacket) -> Iterator[bytes]:
    """The packets inside a packet with compressed ones.

    Raises:
        ValueError: when they cannot be decompressed, or are implausibly large.
    """
    data = b""
    if packet.HasField("compressed_packets"):
        inflater = zlib.decompressobj()
        try:
            data = inflater.decompress(packet.compressed_packets, _LONGEST_UNFOLDED)
        except zlib.error as error:
            raise ValueError(f"compressed packets are damaged ({error})") from None
        if inflater.unconsumed_tail:
            raise ValueError("compressed packets unfold to more than a trace can hold")
    place = 0
    while (found := next_field(data, place)) is not None:
        start, place, is_packet = found
        if is_packet:
            yield data[start:place]
