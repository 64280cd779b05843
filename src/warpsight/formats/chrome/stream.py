"""Trace Event JSON of any size as lists of events: the file is never held as a whole.

The array of events is cut at the end of an event, `[…]` is put around each piece, and the piece is decoded at once. That
a piece decodes proves that the cut lay between two events: the decoder came from a place between events too, and the
closing bracket was the array's. So a cut inside a string or a nested object cannot pass, and is tried again earlier.

Array and object forms are read, arrays that are not closed, and files that end anywhere. What is damaged in the middle
is skipped up to the next event that decodes, and said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO, Any, Generic, TypeVar

import msgspec

from warpsight.formats.source import Source

T = TypeVar("T")
#: Bytes decoded at a time: some ten thousand events.
PIECE_BYTES = 4 << 20
#: What one event or one value beside the events may take.
LONGEST = 256 << 20
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_LAST = re.compile(rb"\}\s*\]")
_BYTE = re.compile(r"\(byte (\d+)\)")
_BLANK = b" \t\r\n"
#: Events that were skipped in this many places end the reading: it is no JSON.
MAX_DAMAGE = 1000


class EventStream(Generic[T]):
    """The events of one file, piece by piece; iterate over it once, then look at `header` and the counts."""

    def __init__(
        self,
        source: Source,
        decode: Callable[[bytes], list[T]] | None = None,
        *,
        begin: Callable[[bytes, int], list[T]] | None = None,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """`decode` takes `[event,event,…]` and raises msgspec.DecodeError where that is no JSON.

        `begin` may stand for it: it takes a buffer and the size of the `event,event,…` that the buffer begins with, so nothing is
        copied; places in its errors count from a bracket before it all the same.
        """
        self._source = source
        self._decoder = begin if begin is not None else _bracketed(decode)
        self._piece_bytes = piece_bytes
        self._file: IO[bytes] = source.open()
        self._buffer = b""
        #: Bytes of the file before the buffer.
        self._offset = 0
        self._ended = False
        self._separator = b""
        self._any = False
        #: Values beside the events, by key; complete after the iteration.
        self.header: dict[str, Any] = {}
        #: Places where something was skipped, as offsets.
        self.damaged: list[int] = []
        #: Bytes read so far.
        self.bytes = 0

    def __iter__(self) -> Iterator[list[T]]:
        """Lists of events in file order.

        Raises:
            FormatError: when it is no trace event JSON at all, or more damage than data.
        """
        with self._file:
            self._fill()
            first = self._skip_blanks()
            if first == b"[":
                self._advance(1)
                yield from self._events()
            elif first == b"{":
                self._advance(1)
                yield from self._members()
            else:
                raise self._error("is no JSON object or array of trace events")

    # The object around the events

    def _members(self) -> Iterator[list[T]]:
        while (first := self._skip_blanks()) != b"}":
            if first == b",":
                self._advance(1)
                continue
            key = self._value() if first == b'"' else None
            if key is None or self._skip_blanks() != b":":
                return self._broken("a key and a colon are expected")
            self._advance(1)
            if key == "traceEvents" and self._skip_blanks() == b"[":
                self._advance(1)
                yield from self._events()
            else:
                self.header[key] = self._value()

    def _broken(self, problem: str) -> None:
        """The object ends early or is damaged: what was read stays when there were events."""
        if not self._ended and not self._any:
            raise self._error(problem)
        where = "ends" if self._ended else "is damaged"
        self._source.ended_early(f"the JSON {where} beside the events, at byte {self._offset:,}")

    def _value(self) -> Any:
        """Decode and take one JSON value; None when the file ends inside of it or it is damaged."""
        size = 1 << 16
        self._skip_blanks()
        while size <= LONGEST:
            while len(self._buffer) < size and not self._ended:
                self._fill()
            try:
                end, value = _value(self._buffer, self._ended)
            except msgspec.DecodeError:
                return None
            if end is not None:
                self._advance(end)
                return value
            if self._ended:
                break
            size *= 4
        return None

    # The events

    def _events(self) -> Iterator[list[T]]:
        """Events up to the array's end."""
        while True:
            first = self._skip_blanks()
            if first == b",":
                self._advance(1)
                continue
            while len(self._buffer) < self._piece_bytes and not self._ended:
                self._fill(self._piece_bytes - len(self._buffer))
            if first in (b"]", b""):
                if first == b"":
                    self._source.ended_early("the array of events is not closed")
                self._advance(1)
                return
            events, finished = self._piece()
            if events:
                self._any = True
                yield events
            if finished:
                return

    def _piece(self) -> tuple[list[T], bool]:
        """Decode the longest run of whole events at the front of the buffer; True when the array ended with it."""
        end = self._last_cut(len(self._buffer))
        last = _LAST.search(self._buffer, end or 0)
        if last is not None:
            try:
                events = self._decode(last.start() + 1)
            except msgspec.DecodeError:
                pass  # a nested array, or values behind the events
            else:
                self._advance(last.end())
                return events, True
        attempts = 0
        while True:
            if end is None:
                return self._rest()
            try:
                events = self._decode(end)
            except msgspec.DecodeError as error:
                place = _place(error)
                if place is not None and "trailing characters" in str(error):
                    return self._closed(place - 1)
                attempts += 1
                if attempts > 8 or (place is not None and place < end // 2):
                    return self._around(min(place or 1, end)), False
                end = self._last_cut(end)
                continue
            self._advance(end)
            return events, False

    def _last_cut(self, before: int) -> int | None:
        """The last place before `before` where an event seems to end and another to begin."""
        if self._separator:
            place = self._buffer.rfind(self._separator, 0, before)
            if place >= 0:
                return place + 1
        window = 4096
        while True:
            begin = max(0, before - window)
            found = list(_BETWEEN.finditer(self._buffer, begin, before))
            if found:
                self._separator = found[-1].group()
                return found[-1].start() + 1
            if begin == 0:
                return None
            window *= 8

    def _closed(self, place: int) -> tuple[list[T], bool]:
        """The array ended with the bracket before `place`."""
        end = self._buffer.rfind(b"]", 0, place)
        events = self._decode(end)
        self._advance(end + 1)
        return events, True

    def _rest(self) -> tuple[list[T], bool]:
        """The buffer holds no two events: one that is longer than a piece, or the last one."""
        if not self._ended and len(self._buffer) < LONGEST:
            size = len(self._buffer) + PIECE_BYTES
            while len(self._buffer) < size and not self._ended:
                self._fill()
            return [], False
        try:
            return self._decode_last(), True
        except msgspec.DecodeError:
            pass
        whole = self._buffer.rfind(b"}") + 1
        while whole:
            try:
                events = self._decode(whole)
            except msgspec.DecodeError:
                whole = self._buffer.rfind(b"}", 0, whole - 1) + 1
                continue
            self._advance(whole)
            if self._skip_blanks():
                self._source.ended_early(f"the JSON ends inside an event at byte {self._offset:,}")
            else:
                self._source.ended_early("the array of events is not closed")
            self._buffer = b""
            return events, True
        self._source.ended_early(f"the JSON ends inside an event at byte {self._offset:,}")
        self._buffer = b""
        return [], True

    def _decode_last(self) -> list[T]:
        """One event and the array's end."""
        try:
            _ARRAY.decode(b"[" + self._buffer)
        except msgspec.DecodeError as error:
            place = _place(error)
            if place is None or "trailing characters" not in str(error):
                raise
            return self._closed(place - 1)[0]
        events = self._decode(self._buffer.rfind(b"]"))
        self._buffer = b""
        return events

    def _around(self, place: int) -> list[T]:
        """Decode what lies before the damage at `place`, and go on behind it."""
        self.damaged.append(self._offset + place)
        if len(self.damaged) > MAX_DAMAGE:
            raise self._error("is damaged in too many places to be read", place)
        events: list[T] = []
        end = self._last_cut(place)
        while end is not None:
            try:
                events = self._decode(end)
                break
            except msgspec.DecodeError:
                end = self._last_cut(end)
        following = _BETWEEN.search(self._buffer, max(place, end or 0))
        self._advance(following.end() - 1 if following else len(self._buffer))
        return events

    def _decode(self, size: int) -> list[T]:
        """Decode the front of the buffer; bytes that are no UTF-8 become replacement characters."""
        try:
            return self._decoder(self._buffer, size)
        except UnicodeDecodeError:
            repaired = self._buffer[:size].decode("utf-8", "replace").encode()
            return self._decoder(repaired, len(repaired))

    # Bytes

    def _fill(self, size: int = PIECE_BYTES) -> None:
        data = self._file.read(size)
        self._ended = not data
        self.bytes += len(data)
        self._buffer = self._buffer + data if self._buffer else data

    def _skip_blanks(self) -> bytes:
        """Drop blanks (a byte-order mark too) and return the next byte, empty at the end of the file."""
        while True:
            if self._offset == 0 and self._buffer.startswith(b"\xef\xbb\xbf"):
                self._advance(3)
            stripped = self._buffer.lstrip(_BLANK)
            self._offset += len(self._buffer) - len(stripped)
            self._buffer = stripped
            if stripped or self._ended:
                return stripped[:1]
            self._fill()

    def _advance(self, count: int) -> None:
        self._offset += min(count, len(self._buffer))
        self._buffer = self._buffer[count:]

    def _error(self, problem: str, place: int = 0) -> Exception:
        return self._source.error(problem, offset=self._offset + place)


def _bracketed(decode: Callable[[bytes], list[T]] | None) -> Callable[[bytes, int], list[T]]:
    if decode is None:
        raise TypeError("a decoder is needed")
    return lambda buffer, size: decode(b"[" + buffer[:size] + b"]")


def _place(error: msgspec.DecodeError) -> int | None:
    found = _BYTE.search(str(error))
    return int(found[1]) - 1 if found else None


def _value(data: bytes, whole: bool) -> tuple[int | None, Any]:
    """The JSON value at the beginning and where it ends; None when it may go on behind the data.

    The decoder itself tells where a value ends: by what it calls trailing characters.

    Raises:
        msgspec.DecodeError: when it is no JSON.
    """
    try:
        value = msgspec.json.decode(data)
    except UnicodeDecodeError:
        return _value(data.decode("latin-1").encode("ascii", "replace"), whole)
    except msgspec.DecodeError as error:
        place = _place(error)
        if place is not None and "trailing characters" in str(error):
            return place, msgspec.json.decode(data[:place])
        if place is None:
            return None, None
        raise
    return (len(data), value) if whole or data[:1] in (b"{", b"[", b'"') else (None, None)
