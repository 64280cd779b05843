"""Events as text into spans of their fields, thousands at a time.

torch writes events with a handful of format strings, so most events of a file differ only in their values. One event of each kind
is decoded, and the positions of its values become a layout: a list of literals with values in between. All other events are
compared with the literals as arrays of bytes: those that agree have their values in the same places, counted from the keys (a key
ends at `":`), and the others are decoded individually. Nothing is guessed: literals are compared completely, and parsing detects
a value of an unexpected type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from warpsight.formats.chrome.stream import EmptyObjects, Text

Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]
Raw = msgspec.Raw
_BLOCK = 1 << 18
#: Minimum bytes of an event with a phase and a time; text with more braces than such events cannot consist of events.
_SHORTEST = 16
#: Maximum number of event kinds in one piece; files with more do not use layouts.
_KINDS = 512
#: Maximum layouts remembered per set of keys, and bytes of all; files with more are only read more slowly.
_LAYOUTS = 64
_LAYOUT_BYTES = 8 << 20
_LAYOUT_KINDS = 8 * _KINDS
#: Events compared at a time, so that their text is still in the cache for the next literal.
_ROWS = 4096
#: Maximum layouts tried for events with the same keys, before each is decoded individually.
_TRIES = 32
#: Fields that may become part of a layout, how many layouts per kind may have some, and how many events are examined.
_FIXED = frozenset(
    (
        ".name",
        ".pid",
        ".tid",
        ".s",
        ".bp",
        "Record function id",
        "device",
        "context",
        "stream",
        "queued",
        "Device Id",
        "Device Type",
        "Python module id",
    )
)
_FIXING = 4
_SAMPLE = 32
#: Maximum separators between events that are remembered.
_SEPARATORS = 8
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_RAWS = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)
_BETWEEN = re.compile(rb"\}\s{0,64},\s{0,64}\{\s{0,64}\"[^\"\\]{2,32}\"(?=:)")
#: Fields that are the same in all events of a layout.
_CONSTANT = ("ph", "cat")
#: Prefix of a field of the event itself; all others are members of `args`.
OWN = "."


@dataclass(frozen=True)
class _Layout:
    """Where the values of events are: `literals[0] value literals[1] value … literals[-1]`."""

    phase: str
    category: str
    fields: tuple[str, ...]
    literals: tuple[bytes, ...]
    #: By field: the index among the event's keys, and the offset of its value after that key.
    keys: tuple[int, ...]
    distances: tuple[int, ...]
    #: Fields with the same value in all events of the layout: field, containing literal, offset in it, value.
    fixed: tuple[tuple[str, int, int, bytes], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of memory it takes, about."""
        texts = (*self.literals, *self.fields, *(text for _, _, _, text in self.fixed))
        return 1024 + sum(map(len, texts)) + 128 * len(texts)


@dataclass
class LayoutEvents:
    """Events of one layout: their index in the piece, their start, and the start and end of each field's values."""

    layout: _Layout
    rows: Int64
    begins: Int64
    starts: list[Int64]
    ends: list[Int64]


class Piece:
    """Some ten thousand events of a file, with their layouts."""

    def __init__(self, text: Text, events: int, found: list[LayoutEvents]) -> None:
        """`text` holds the events that `found` points into."""
        self.text = text
        self.events = events
        self.found = found


class Layouts:
    """Finds the fields of events; remembers the layouts of a file."""

    def __init__(self, skipped: Callable[[str, str], bool]) -> None:
        """`skipped` lists, by phase and category, the events to ignore."""
        self._skipped = skipped
        self._known: dict[int, list[_Layout]] = {}
        #: Their approximate size.
        self._bytes = 0
        #: The text between two events, from one's closing brace to the end of the next one's first key.
        self._separators: list[bytes] = []

    def __call__(self, text: Text, size: int) -> list[Piece]:
        """The events of `event,event,…`, the first `size` bytes of a text, as one piece; what is not an object is left out.

        Raises:
            msgspec.DecodeError: when it is not JSON; its place counts from an opening bracket.
        """
        data = np.frombuffer(text, np.uint8, size)
        keys, words = _keys(data)
        if not self._separators:
            self._learn(text[:size])
        begins, ends = self._borders(text, size, keys, words)
        try:
            found = self._all(text, data, keys, words, begins, ends)
        except msgspec.DecodeError:
            begins, ends, found = self._again(text, size, keys, words)
        return [Piece(text, len(begins), found)]

    def _again(
        self, text: Text, size: int, keys: Int64, words: Words
    ) -> tuple[Int64, Int64, list[LayoutEvents]]:
        """Handle events with separators not seen before; if that is not the problem, the decoder finds them."""
        data = np.frombuffer(text, np.uint8, size)
        if self._learn(text[:size]):
            begins, ends = self._borders(text, size, keys, words)
            try:
                return begins, ends, self._all(text, data, keys, words, begins, ends)
            except msgspec.DecodeError:
                pass
        if size > _BLOCK and np.count_nonzero(data == ord("{")) * _SHORTEST > size:
            raise EmptyObjects
        begins, ends = _decoded(text[:size])
        try:
            return begins, ends, self._all(text, data, keys, words, begins, ends)
        except msgspec.DecodeError:  # values that are not objects
            places = enumerate(zip(begins.tolist(), ends.tolist(), strict=True))
            return (
                begins,
                ends,
                [_single(text, row, a, b) for row, (a, b) in places if text[a : a + 1] == b"{"],
            )

    def _borders(self, text: Text, size: int, keys: Int64, words: Words) -> tuple[Int64, Int64]:
        """Where events start and end, recognizing only separators that have been seen before."""
        closing = [np.zeros(0, np.int64)]
        shifts = [np.zeros(0, np.int64)]
        for separator in self._separators:
            places = keys[words == np.frombuffer(separator[-5:-1], np.uint32)[0]] + 1 - len(separator)
            closing.append(places[_equal(text, places, separator)])
            shifts.append(np.full(len(closing[-1]), separator.index(b"{")))
        places, shift = np.concatenate(closing), np.concatenate(shifts)
        if len(self._separators) > 1:
            order = np.argsort(places, kind="stable")
            places, shift = places[order], shift[order]
        return np.concatenate([[0], places + shift]), np.concatenate([places + 1, [size]])

    def _learn(self, text: Text) -> bool:
        """Learn new separators between events; False if there are none."""
        new = set(_BETWEEN.findall(text)).difference(self._separators)
        self._separators += sorted(new)[: _SEPARATORS - len(self._separators)]
        return bool(new)

    def _all(
        self, text: Text, data: Bytes, keys: Int64, words: Words, begins: Int64, ends: Int64
    ) -> list[LayoutEvents]:
        first = np.searchsorted(keys, begins)
        counts = np.diff(np.append(first, len(keys)))
        if not len(keys) or not counts.all():
            raise msgspec.DecodeError("not all events have keys")
        kinds, which = np.unique(_hashes(words, first), return_inverse=True)
        if len(kinds) > _KINDS:
            raise msgspec.DecodeError("there are too many kinds of events")
        found: list[LayoutEvents] = []
        order = np.argsort(which.astype(np.int16), kind="stable")
        borders = np.searchsorted(which[order], np.arange(len(kinds) + 1))
        for kind, a, b in zip(kinds.tolist(), borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            self._kind(kind, _Events(text, data, keys, order[a:b], first, begins, ends), found)
        return found

    def _kind(self, kind: int, events: _Events, found: list[LayoutEvents]) -> None:
        """Find the layouts of events that seem to have the same keys."""
        if kind not in self._known:
            if len(self._known) >= _LAYOUT_KINDS:
                self._forget()
            self._known[kind] = []
        known = self._known[kind]
        for layout in known[:]:
            if not len(events.rows):
                return
            self._take(layout, events, found)
        for _ in range(_TRIES):
            if not len(events.rows):
                return
            layout = events.layout(fixing=len(known) < _FIXING)
            if not self._take(layout, events, found):
                break
            self._keep(known, layout)
        found += [
            _single(events.text, row, int(events.begins[row]), int(events.ends[row]))
            for row in events.rows.tolist()
        ]

    def _keep(self, known: list[_Layout], layout: _Layout) -> None:
        """Remember a layout; if there are too many, first drop those of its own kind, then all."""
        if len(known) >= _LAYOUTS:
            self._bytes -= known.pop(0).size
        self._bytes += layout.size
        known.append(layout)
        if self._bytes > _LAYOUT_BYTES:
            self._forget()

    def _forget(self) -> None:
        for known in self._known.values():
            known.clear()
        self._known.clear()
        self._bytes = 0

    def _take(self, layout: _Layout, events: _Events, found: list[LayoutEvents]) -> bool:
        """Move the events that match the layout to `found`; False if there are none."""
        rows, starts, ends = events.take(layout)
        if len(rows) and not self._skipped(layout.phase, layout.category):
            found.append(LayoutEvents(layout, rows, events.begins[rows], starts, ends))
        return len(rows) > 0


@dataclass
class _Events:
    """Events of one kind without a layout so far, by their numbers `rows`."""

    text: Text
    data: Bytes
    keys: Int64
    rows: Int64
    first: Int64
    begins: Int64
    ends: Int64

    def layout(self, fixing: bool) -> _Layout:
        """The layout of the first event. `fixing`: values shared by all events of a sample become part of the layout.

        Raises:
            msgspec.DecodeError: when it is not a JSON object.
        """
        row = int(self.rows[0])
        begin, end = int(self.begins[row]), int(self.ends[row])
        last = self.first[row + 1] if row + 1 < len(self.first) else len(self.keys)
        keys = self.keys[self.first[row] : last] - begin
        layout = _layout(bytes(self.text[begin:end]), keys)
        if not fixing or len(self.rows) < _SAMPLE:
            return layout
        sample = self.rows[:: len(self.rows) // _SAMPLE]
        fits, starts, ends = self._fitting(layout, sample)
        same = set()
        for field, start, stop in zip(layout.fields, starts, ends, strict=True):
            if field not in _FIXED:
                continue
            spans = zip(start[fits].tolist(), stop[fits].tolist(), strict=True)
            if len({bytes(self.text[a:b]) for a, b in spans}) == 1:
                same.add(field)
        return _layout(bytes(self.text[begin:end]), keys, same)

    def take(self, layout: _Layout) -> tuple[Int64, list[Int64], list[Int64]]:
        """Indices of the events that match the layout, and where their values are; removes them from `rows`."""
        rows = self.rows
        fits, starts, ends = self._fitting(layout, rows)
        if fits.all():
            self.rows = rows[:0]
            return rows, starts, ends
        self.rows = rows[~fits]
        return rows[fits], [s[fits] for s in starts], [e[fits] for e in ends]

    def _fitting(self, layout: _Layout, rows: Int64) -> tuple[NDArray[np.bool_], list[Int64], list[Int64]]:
        """Which of some events match the layout, and where their values start and end."""
        starts = np.empty((len(layout.keys), len(rows)), np.int64)
        ends = np.empty_like(starts)
        fits = np.empty(len(rows), bool)
        for first in range(0, len(rows), _ROWS):
            part = slice(first, first + _ROWS)
            fits[part] = self._compared(layout, rows[part], starts[:, part], ends[:, part])
        return fits, list(starts), list(ends)

    def _compared(self, layout: _Layout, rows: Int64, starts: Int64, ends: Int64) -> NDArray[np.bool_]:
        """Fill in where the values of events start and end, and return which events really have the layout."""
        sizes = np.array([[len(literal)] for literal in layout.literals])
        begins, last = self.begins[rows], self.ends[rows] - sizes[-1]
        if len(starts):
            index = self.first[rows] + np.array(layout.keys)[:, None]
            starts[:] = self.keys[np.minimum(index, len(self.keys) - 1, out=index)]
            starts += np.array(layout.distances)[:, None]
            np.subtract(starts[1:], sizes[1:-1], out=ends[:-1])
            ends[-1] = last
            place = starts[0] - sizes[0]
            fits = (ends[1:] > ends[:-1]).all(axis=0)
            fits &= place == begins
            fits &= ends[0] > place
            fits &= last > starts[-1]
        else:
            fits = last == begins
        for literal, place in zip(layout.literals, (begins, *ends), strict=True):
            if fits.all():
                fits = _equal(self.text, place, literal)
            else:
                inside = np.flatnonzero(fits)
                fits[inside] = _equal(self.text, place[inside], literal)
        return fits


def _keys(data: Bytes) -> tuple[Int64, Words]:
    """Where `":` ends a key, and the last four bytes of each key; searched in blocks that fit the cache."""
    mask = np.empty(_BLOCK, bool)
    places, words = (
        np.empty(len(data) // 16 + _BLOCK, np.int64),
        np.empty(len(data) // 16 + _BLOCK, np.uint32),
    )
    every: Words = np.ndarray(max(len(data) - 3, 0), np.uint32, data, strides=(1,))
    count = 0
    for begin in range(1, len(data), _BLOCK):
        end = min(begin + _BLOCK, len(data))
        found = np.equal(data[begin:end], ord(":"), out=mask[: end - begin]).nonzero()[0]
        found += begin - 1
        found = found[data[found] == ord('"')]
        after = count + len(found)
        if after > len(places):
            places, words = (
                np.concatenate([a[:count], np.empty(len(data), a.dtype)]) for a in (places, words)
            )
        places[count:after] = found
        found -= 4
        np.maximum(found, 0, out=found)
        words[count:after] = every[found] if len(every) else 0
        count = after
    places, words = places[:count], words[:count]
    escaped = words >= ord("\\") << 24
    escaped &= words < (ord("\\") + 1) << 24
    return (places[~escaped], words[~escaped]) if escaped.any() else (places, words)


def _hashes(words: Words, first: Int64) -> NDArray[np.uint64]:
    """A number per event that rarely collides for events with different keys."""
    mixed = np.empty(len(words), np.uint64)
    for begin in range(0, len(words), _BLOCK // 8):
        part = mixed[begin : begin + _BLOCK // 8]
        part[:] = words[begin : begin + _BLOCK // 8]
        part *= part + np.uint64(0x9E3779B97F4A7C15)
        part ^= part >> np.uint64(29)
    return np.add.reduceat(mixed, first)


def _equal(text: Text, places: Int64, literal: bytes) -> NDArray[np.bool_]:
    """Whether `literal` is at each of some places."""
    size, count = len(literal), len(places)
    if not count or not size:
        return np.ones(count, bool)
    if int(places.min()) < 0 or int(places.max()) > len(text) - size:
        inside = (places >= 0) & (places <= len(text) - size)
        fits = np.zeros(count, bool)
        fits[inside] = _equal(text, places[inside], literal)
        return fits
    there = np.ndarray(len(text) - size + 1, f"V{size}", text, strides=(1,))[places].tobytes()
    if there == literal * count:
        return np.ones(count, bool)
    table = np.frombuffer(there, np.uint8).reshape(count, size)
    same: NDArray[np.bool_] = (table == np.frombuffer(literal, np.uint8)).all(axis=1)
    return same


def _members(text: bytes) -> tuple[dict[str, str], list[tuple[str, int, int]]]:
    """Phase and category of an event, and all other values: field, start and end.

    Raises:
        msgspec.DecodeError: when it is not a JSON object.
    """
    constant: dict[str, str] = {}
    listed: list[tuple[str, int, int]] = []
    base = _address(text)
    for field, raw in _OBJECT.decode(text).items():
        if field in _CONSTANT and bytes(raw[:1] if isinstance(raw, bytes) else raw)[:1] == b'"':
            constant[field] = _TEXT.decode(raw)
        elif field == "args" and bytes(raw)[:1] == b"{":
            listed += [(name, *_place(value, base)) for name, value in _OBJECT.decode(raw).items()]
        else:
            listed.append((OWN + field, *_place(raw, base)))
    return constant, sorted(listed, key=lambda member: member[1])


def _address(data: bytes | memoryview) -> int:
    place: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return place


def _place(raw: bytes | memoryview, base: int) -> tuple[int, int]:
    begin = _address(raw) - base
    return begin, begin + len(bytes(raw))


def _layout(text: bytes, keys: Int64, same: Collection[str] = ()) -> _Layout:
    """The layout of an event whose keys end at `keys`; the fields in `same` become part of it."""
    constant, members = _members(text)
    literals: list[bytes] = []
    numbers, distances, fields, fixed = [], [], [], []
    before = 0
    for field, begin, end in members:
        if field in same:
            fixed.append((field, len(literals), begin - before, text[begin:end]))
            continue
        number = max(int(np.searchsorted(keys, begin)) - 1, 0)
        fields.append(field)
        literals.append(text[before:begin])
        numbers.append(number)
        distances.append(begin - int(keys[number]))
        before = end
    literals.append(text[before:])
    return _Layout(constant.get("ph", ""), constant.get("cat", ""), tuple(fields), tuple(literals), tuple(numbers),
                  tuple(distances), tuple(fixed))  # fmt: skip


def _single(text: Text, row: int, begin: int, end: int) -> LayoutEvents:
    """One event on its own."""
    constant, members = _members(bytes(text[begin:end]))
    layout = _Layout(
        constant.get("ph", ""), constant.get("cat", ""), tuple(m[0] for m in members), (), (), ()
    )
    starts = [np.array([begin + first], np.int64) for _, first, _ in members]
    ends = [np.array([begin + last], np.int64) for _, _, last in members]
    return LayoutEvents(layout, np.array([row]), np.array([begin]), starts, ends)


def _decoded(text: Text) -> tuple[Int64, Int64]:
    """Where the values of an array start and end, by decoding it.

    Raises:
        msgspec.DecodeError: when it is not JSON.
    """
    whole = b"".join((b"[", text, b"]"))
    base = _address(whole) + 1
    places = [_place(raw, base) for raw in _RAWS.decode(whole)]
    return np.array([a for a, _ in places], np.int64), np.array([b for _, b in places], np.int64)
