"""Trace Event JSON of any size as lists of events: the file is never held as a whole.

The array of events is cut at the end of an event, `[…]` is put around each piece, and the piece is decoded at once. That
a piece decodes proves that the cut lay between two events: the decoder came from a place between events too, and the
closing bracket was the array's. So a cut inside a string or a nested object cannot pass, and is tried again earlier.

Array and object forms are read, as are unclosed arrays and files that end anywhere. Damage in the middle is reported and skipped
up to the next event that decodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO, Any, Generic, TypeVar

import msgspec

from warpsight.formats.chrome.lenient import strict
from warpsight.formats.chrome.window import ByteWindow
from warpsight.formats.source import Source

T = TypeVar("T")
Text = bytes | memoryview
#: Bytes decoded at a time: about ten thousand events.
PIECE_BYTES = 4 << 20
#: Maximum size of one event, or of one value besides the events.
LONGEST = 128 << 20
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_LAST = re.compile(rb"\}\s*,?\s*\]")
_BYTE = re.compile(r"\(byte (\d+)\)")
_MALFORMED = re.compile("malformed(?!.*trailing characters)")
#: Number of positions tried one by one for the end of the last complete event.
_SINGLE_STEPS = 32
#: Maximum failed attempts to repair a piece into strict JSON.
_VAIN = 8
#: Reading stops after damage in this many places: the file is not JSON.
_MAX_DAMAGE = 1000


class EmptyObjects(ValueError):
    """Counts millions of empty objects, each of which would otherwise take fifty times its size in memory."""


class EventStream(Generic[T]):
    """The events of one file in pieces; iterate over it once, then read `header` and the counts."""

    def __init__(
        self,
        source: Source,
        decode: Callable[[bytes], list[T]] | None = None,
        *,
        begin: Callable[[Text, int], list[T]] | None = None,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """`decode` takes `[event,event,…]` and raises msgspec.DecodeError if that is not valid JSON.

        `begin` may stand for it: it takes a text and the size of the `event,event,…` that the text begins with. Nothing is
        copied, so what it returns may look into the text until the next list is requested; places in its errors count from
        a bracket before it all the same.
        """
        self._source = source
        self._decoder = begin if begin is not None else _bracketed(decode)
        self._piece_bytes = piece_bytes
        self._file: IO[bytes] = source.open()
        self._window = ByteWindow(self._file)
        self._separator = b""
        self._any = False
        self._attempts = _VAIN
        #: Values besides the events, by key; complete after the iteration.
        self.header: dict[str, Any] = {}
        #: Places where something was skipped, as offsets.
        self.damaged: list[int] = []

    def __iter__(self) -> Iterator[list[T]]:
        """Lists of events in file order.

        Raises:
            FormatError: when it is not trace event JSON at all, or more damage than data.
        """
        with self._file:
            self._fill()
            first = self._skip_blanks()
            if first == b"[":
                self._window.advance(1)
                yield from self._events()
            elif first == b"{":
                self._window.advance(1)
                yield from self._members()
            else:
                raise self._error("is not a JSON object or array of trace events")
            if not self._source.truncated and self._skip_blanks() in (b"[", b"{"):
                self._source.ended_early(f"a second JSON document begins at byte {self._window.offset:,}")

    # The object around the events

    def _members(self) -> Iterator[list[T]]:
        while (first := self._skip_blanks()) != b"}":
            if first == b",":
                self._window.advance(1)
                continue
            key: Any = self._value() if first == b'"' else None
            if key is None or self._skip_blanks() != b":":
                return self._broken("a key and a colon are expected")
            self._window.advance(1)
            if key == "traceEvents" and self._skip_blanks() == b"[":
                self._window.advance(1)
                yield from self._events()
            else:
                self.header[key] = self._value()
        self._window.advance(1)

    def _broken(self, problem: str) -> None:
        """The object is truncated or damaged: the events read so far are kept."""
        if not self._window.ended and not self._any:
            raise self._error(problem)
        where = "ends" if self._window.ended else "is damaged"
        self._source.ended_early(f"the JSON {where} beside the events, at byte {self._window.offset:,}")

    def _value(self) -> object:
        """Decode and consume one JSON value; None if the file ends inside it or it is damaged."""
        size = 1 << 16
        self._skip_blanks()
        while size <= LONGEST:
            while len(self._window) < size and not self._window.ended:
                self._fill()
            try:
                end, value = _value(self._window.view(), self._window.ended)
            except msgspec.DecodeError:
                return None
            if end is not None:
                self._window.advance(end)
                return value
            if self._window.ended:
                break
            size *= 4
        return None

    # The events

    def _events(self) -> Iterator[list[T]]:
        """Events up to the array's end."""
        while True:
            first = self._skip_blanks()
            if first == b",":
                self._window.advance(1)
                continue
            while len(self._window) < self._piece_bytes and not self._window.ended:
                self._fill(self._piece_bytes - len(self._window))
            if first in (b"]", b""):
                if first == b"":
                    self._source.ended_early("the array of events is not closed")
                self._window.advance(1)
                return
            events, finished = self._piece()
            if events:
                self._any = True
                yield events
            if finished:
                return

    def _piece(self) -> tuple[list[T], bool]:
        """Decode the longest run of complete events at the front of the window; True once the array has ended."""
        end = self._last_cut(len(self._window))
        last = self._window.search(_LAST, end or 0)
        if last is not None:
            try:
                events = self._decode(last[0] + 1)
            except msgspec.DecodeError:
                pass  # a nested array, or values behind the events
            else:
                self._window.advance(last[1])
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
            self._window.advance(end)
            return events, False

    def _last_cut(self, before: int) -> int | None:
        """The last position before `before` where an event seems to end and another to begin."""
        if self._separator:
            place = self._window.last(self._separator, before)
            if place >= 0:
                return place + 1
        width = 4096
        while True:
            begin = max(0, before - width)
            found = self._window.last_match(_BETWEEN, begin, before)
            if found:
                place, self._separator = found
                return place + 1
            if begin == 0:
                return None
            width *= 8

    def _closed(self, place: int) -> tuple[list[T], bool]:
        """The array ended with the bracket before `place`."""
        end = self._window.last(b"]", place)
        events = self._decode(end)
        self._window.advance(end + 1)
        return events, True

    def _rest(self) -> tuple[list[T], bool]:
        """The window contains no two events: a single one longer than a piece, or the last one."""
        if not self._window.ended and len(self._window) < LONGEST:
            size = len(self._window) + PIECE_BYTES
            while len(self._window) < size and not self._window.ended:
                self._fill()
            return [], False
        try:
            return self._decode_last(), True
        except msgspec.DecodeError:
            pass
        whole, tries = self._window.last(b"}") + 1, 0
        while whole > 0:
            try:
                events = self._decode(whole)
            except msgspec.DecodeError:
                # Every try decodes from the window's start: where many fail (braces without end), the steps back double.
                tries += 1
                step = 1 << max(tries - _SINGLE_STEPS, 0)
                whole = self._window.last(b"}", max(whole - step, 0)) + 1
                continue
            self._window.advance(whole)
            if self._window.skip_blanks():
                self._source.ended_early(f"the JSON ends inside an event at byte {self._window.offset:,}")
            else:
                self._source.ended_early("the array of events is not closed")
            self._window.advance(len(self._window))
            return events, True
        self._source.ended_early(f"the JSON ends inside an event at byte {self._window.offset:,}")
        self._window.advance(len(self._window))
        return [], True

    def _decode_last(self) -> list[T]:
        """One event and the array's end."""
        try:
            _ARRAY.decode(b"[" + self._window.view())
        except msgspec.DecodeError as error:
            place = _place(error)
            if place is None or "trailing characters" not in str(error):
                raise
            return self._closed(place - 1)[0]
        events = self._decode(self._window.last(b"]"))
        self._window.advance(len(self._window))
        return events

    def _around(self, place: int) -> list[T]:
        """Decode everything before the damage at `place`, and continue after it."""
        self.damaged.append(self._window.offset + place)
        if len(self.damaged) > _MAX_DAMAGE:
            raise self._error("is damaged in too many places to be read", place)
        events: list[T] = []
        end, tries = self._last_cut(place), 0
        while end is not None:
            try:
                events = self._decode(end)
                break
            except msgspec.DecodeError:
                tries += 1
                end = self._last_cut(max(end - (1 << max(tries - _SINGLE_STEPS, 0)) + 1, 0))
        following = self._window.search(_BETWEEN, max(place, end or 0))
        self._window.advance(following[1] - 1 if following else len(self._window))
        return events

    def _decode(self, size: int) -> list[T]:
        """Decode the front of the window; bytes that are not UTF-8 become replacement characters."""
        try:
            return self._decoder(self._window.view(), size)
        except UnicodeDecodeError:
            repaired = str(self._window.view(size), "utf-8", "replace").encode()
            return self._decoder(repaired, len(repaired))
        except EmptyObjects:
            raise self._error("holds millions of empty objects where events should be") from None
        except msgspec.DecodeError as error:
            if not self._attempts or not _MALFORMED.search(str(error)):
                raise
            text = strict(str(self._window.view(size), "utf-8", "replace").encode())
            try:
                return self._decoder(text, len(text))
            except msgspec.DecodeError:
                self._attempts -= 1
            raise

    # Bytes

    def _fill(self, size: int = PIECE_BYTES) -> None:
        self._window.fill(size)

    def _skip_blanks(self) -> bytes:
        """Skip whitespace (and a byte-order mark) and return the next byte, empty at the end of the file."""
        while True:
            if self._window.offset == 0 and self._window.starts_with(b"\xef\xbb\xbf"):
                self._window.advance(3)
            first = self._window.skip_blanks()
            if first or self._window.ended:
                return first
            self._fill()

    def _error(self, problem: str, place: int = 0) -> Exception:
        return self._source.error(problem, offset=self._window.offset + place)


def _bracketed(decode: Callable[[bytes], list[T]] | None) -> Callable[[Text, int], list[T]]:
    if decode is None:
        raise TypeError("a decoder is needed")
    return lambda text, size: decode(b"".join((b"[", text[:size], b"]")))


def _place(error: msgspec.DecodeError) -> int | None:
    found = _BYTE.search(str(error))
    return int(found[1]) - 1 if found else None


def _value(data: Text, whole: bool) -> tuple[int | None, Any]:
    """The JSON value at the start and its end; None if it may continue after the data.

    The decoder itself shows where a value ends: by what it calls trailing characters.

    Raises:
        msgspec.DecodeError: when it is not JSON.
    """
    try:
        value = msgspec.json.decode(data)
    except UnicodeDecodeError:
        return _value(str(data, "latin-1").encode("ascii", "replace"), whole)
    except msgspec.DecodeError as error:
        place = _place(error)
        if place is not None and "trailing characters" in str(error):
            return place, msgspec.json.decode(data[:place])
        if place is None:
            return None, None
        raise
    return (len(data), value) if whole or data[:1] in (b"{", b"[", b'"') else (None, None)
