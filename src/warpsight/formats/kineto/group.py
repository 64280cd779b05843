"""Events of one phase and category as columns: numbers, times, texts, and codes for repeated values."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.formats.chrome.stream import Text
from warpsight.formats.chrome.times import MISSING, nanoseconds
from warpsight.formats.kineto import digits
from warpsight.formats.kineto.digits import Words8
from warpsight.formats.kineto.layouts import OWN, LayoutEvents, Piece
from warpsight.model import arrow

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Bools = NDArray[np.bool_]
Spans = tuple[Int64, Int64]
_TEXT = msgspec.json.Decoder(str)
_INT = msgspec.json.Decoder(int | None)


class EventGroup:
    """Some events of a piece, in file order. A field missing from an event has an empty span."""

    def __init__(
        self, text: Text, rows: int, fields: dict[str, Spans], same: Mapping[str, bytes] | None = None
    ) -> None:
        """`fields` gives where values start and end in `text`, by name; those of the event itself begin with a dot.

        `same` gives the text of fields that are equal in all events.
        """
        self._same = same or {}
        self.text = text
        self.rows = rows
        self.fields = fields
        #: Rows whose value is not of the type asked for, by field.
        self.misfits: dict[str, list[int]] = {}
        self._codes: dict[str, tuple[Int32, list[bytes]]] = {}
        self._words = Words8(text)

    def __contains__(self, field: str) -> bool:
        """Whether any event has a field."""
        return field in self.fields

    def chosen(self, rows: NDArray[Any]) -> EventGroup:
        """Some of the events, by a mask or by their numbers."""
        count = int(rows.sum()) if rows.dtype == bool else len(rows)
        fields = {name: (starts[rows], ends[rows]) for name, (starts, ends) in self.fields.items()}
        kept = {name: spans for name, spans in fields.items() if name in self._same or spans[1].any()}
        return EventGroup(self.text, count, kept, self._same)

    def there(self, field: str) -> Bools:
        """Which events have a field."""
        spans = self.fields.get(field)
        return np.zeros(self.rows, bool) if spans is None else spans[1] > 0

    def codes(self, field: str) -> tuple[Int32, list[bytes]]:
        """The distinct JSON texts of a field, and each event's index into them, -1 if absent."""
        known = self._codes.get(field)
        if known is None:
            known = self._codes[field] = self._encoded(field)
        return known

    def _encoded(self, field: str) -> tuple[Int32, list[bytes]]:
        if field not in self.fields:
            return np.full(self.rows, -1, np.int32), []
        if field in self._same:
            return np.zeros(self.rows, np.int32), [self._same[field]]
        starts, ends = self.fields[field]
        there = ends > 0
        if there.all():
            return _distinct(self.text, self._words, starts, ends)
        codes = np.full(self.rows, -1, np.int32)
        codes[there], texts = _distinct(self.text, self._words, starts[there], ends[there])
        return codes, texts

    def combinations(self, *fields: str) -> tuple[NDArray[np.int64], list[tuple[bytes | None, ...]]]:
        """The distinct combinations of several fields' strings, and each event's index into them."""
        codes = np.zeros(self.rows, np.int64)
        listed: list[tuple[bytes | None, ...]] = [()]
        for field in fields:
            if field not in self.fields:
                listed = [(*row, None) for row in listed]
                continue
            own, texts = self.codes(field)
            values: list[bytes | None] = [None, *texts]
            if len(values) == 2 and bool((own == 0).all()):
                listed = [(*row, values[1]) for row in listed]
                continue
            codes, kept = _ranked(codes * len(values) + own + 1, len(listed) * len(values))
            listed = [(*listed[k // len(values)], values[k % len(values)]) for k in kept]
        return codes, listed

    def mapped(self, make: Callable[..., Any], kind: pa.DataType, *fields: str) -> pa.Array:
        """A column computed from distinct combinations of fields; `make` takes their JSON text (None: absent)."""
        codes, listed = self.combinations(*fields)
        return arrow.take(pa.array([make(*row) for row in listed], kind), pa.array(codes))

    def integers(self, field: str) -> pa.Array:
        """A field as int64; null if it is absent, null, or not an integer."""
        spans = self.fields.get(field)
        if spans is None:
            return pa.nulls(self.rows, pa.int64())
        if field in self._same:
            return self._same_integer(field)
        starts, ends = spans
        there = ends > 0
        first = self._words.at(starts)
        there &= first != ord("n")
        begins = starts
        if not there.all():
            begins, ends, first = starts[there], ends[there], first[there]
        negative = first == ord("-")
        values, wrong = digits.unsigned(self._words, begins + negative, ends)
        if negative.any():
            np.negative(values, out=values, where=negative)
        absent = ~there
        if len(begins) < self.rows or wrong.any():
            filled = np.zeros(self.rows, np.int64)
            filled[there] = np.where(wrong, 0, values)
            values = filled
            self._one_by_one(field, np.flatnonzero(there)[wrong], values, absent)
        return pa.array(values, mask=absent) if absent.any() else pa.array(values)

    def _one_by_one(self, field: str, rows: Int64, values: Int64, absent: Bools) -> None:
        """Integers with more than a few digits: large ones, null, and invalid ones."""
        misfits = []
        for row in rows.tolist():
            value = None
            try:
                value = _INT.decode(self.raw(field, row))
            except (msgspec.DecodeError, UnicodeDecodeError):
                misfits.append(row)
            if value is not None and not -(1 << 63) <= value < 1 << 63:
                value = value - (1 << 64) if 0 <= value < 1 << 64 else None
            absent[row] = value is None
            values[row] = value or 0
        if misfits:
            self.misfits[field] = misfits

    def _same_integer(self, field: str) -> pa.Array:
        values, absent = np.zeros(self.rows, np.int64), np.zeros(self.rows, bool)
        self._one_by_one(field, np.zeros(min(self.rows, 1), np.int64), values, absent)
        if self.misfits.get(field):
            self.misfits[field] = list(range(self.rows))
        values[:], absent[:] = values[:1], absent[:1]
        return pa.array(values, mask=absent)

    def times(self, field: str) -> Int64:
        """A field in microseconds as nanoseconds, :data:`MISSING` if invalid. No number passes through a float."""
        spans = self.fields.get(field)
        if spans is None:
            return np.full(self.rows, MISSING)
        starts, ends = spans
        there = np.flatnonzero(ends)
        if len(there) < self.rows:
            starts, ends = starts[there], ends[there]
        values, wrong = digits.thousandths(self._words, starts, ends)
        if wrong.any():
            rows = np.flatnonzero(wrong)
            values[rows] = nanoseconds([self.raw(field, row) for row in there[rows].tolist()])
        if len(there) == self.rows:
            return values
        filled = np.full(self.rows, MISSING)
        filled[there] = values
        return filled

    def raw(self, field: str, row: int) -> bytes:
        """The JSON text of one event's field; empty if it is absent."""
        spans = self.fields.get(field)
        return b"" if spans is None else bytes(self.text[int(spans[0][row]) : int(spans[1][row])])

    def values(self, field: str) -> list[Any]:
        """A field as Python values, one per event; None for a missing one."""
        codes, texts = self.codes(field)
        known = [value(text) for text in texts]
        return [None if code < 0 else known[code] for code in codes.tolist()]

    def check(self, fits: Mapping[str, Callable[[Any], bool]]) -> None:
        """Count values of the wrong type for a column as misfits."""
        for field, fit in fits.items():
            if field in self.fields:
                codes, texts = self.codes(field)
                wrong = [number for number, raw in enumerate(texts) if raw != b"null" and not fit(value(raw))]
                if wrong:
                    self.misfits[field] = np.flatnonzero(np.isin(codes, wrong)).tolist()

    def extras(self, known: Container[str]) -> Iterator[tuple[int, str, str]]:
        """Row, name and JSON text of the fields that are not `known`, and of values of a wrong type; in order of rows."""
        found = []
        for field in self.fields:
            if field not in known:
                found += [(row, field) for row in np.flatnonzero(self.there(field)).tolist()]
        found += [(row, field) for field, rows in self.misfits.items() for row in rows]
        for row, field in sorted(found, key=lambda pair: pair[0]):
            yield row, field.removeprefix(OWN), json_text(self.raw(field, row))


def groups(piece: Piece) -> list[tuple[str, str, EventGroup]]:
    """The events of a piece by phase and category, in order of their first events."""
    kinds: dict[tuple[str, str], list[LayoutEvents]] = {}
    for found in piece.found:
        kinds.setdefault((found.layout.phase, found.layout.category), []).append(found)
    made = [(int(min(f.rows[0] for f in found)), kind, found) for kind, found in kinds.items()]
    return [(*kind, _group(piece.text, found)) for _, kind, found in sorted(made, key=lambda m: m[0])]


def _group(text: Text, found: Sequence[LayoutEvents]) -> EventGroup:
    rows = np.concatenate([f.rows for f in found])
    order = np.argsort(rows, kind="stable")
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    fields: dict[str, Spans] = {}
    first = 0

    def put(field: str, where: Int64, starts: Int64, ends: Int64) -> None:
        if field not in fields:
            fields[field] = (np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))
        fields[field][0][where] = starts
        fields[field][1][where] = ends

    same = {field: told for field, _, _, told in found[0].layout.fixed}
    for f in found:
        where = place[first : first + len(f.rows)]
        first += len(f.rows)
        for field, starts, ends in zip(f.layout.fields, f.starts, f.ends, strict=True):
            put(field, where, starts, ends)
        own = {field: told for field, _, _, told in f.layout.fixed}
        same = {field: told for field, told in same.items() if own.get(field) == told}
        for field, literal, offset, told in f.layout.fixed:
            begins = (f.ends[literal - 1] if literal else f.begins) + offset
            put(field, where, begins, begins + len(told))
    return EventGroup(text, len(rows), fields, same)


def _distinct(text: Text, words: Words8, starts: Int64, ends: Int64) -> tuple[Int32, list[bytes]]:
    """The distinct strings of spans, and each span's index into them."""
    if int((ends - starts).max(initial=0)) <= digits.SHORT:
        found = arrow.encoded(pa.array(digits.short(words, starts, ends)))
        return found.indices.to_numpy(), [digits.of_short(word) for word in found.dictionary.to_pylist()]
    found = arrow.encoded(_texts(text, starts, ends))
    return found.indices.to_numpy(), found.dictionary.to_pylist()


def _texts(text: Text, starts: Int64, ends: Int64) -> pa.Array:
    """Spans as Arrow's binary values. In an array of all borders, the spans are every second value.

    Arrow makes room by the mean length of all values, so the last border, which belongs to no span, makes that the spans' own.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    borders = np.empty(2 * count + 1, np.int32)
    borders[0:-1:2] = starts
    borders[1::2] = ends
    borders[-1] = min(int(starts[0]) + 2 * int((ends - starts).sum()), len(text))
    every = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(borders), pa.py_buffer(text)])
    return arrow.take(every, pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def _ranked(codes: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], list[int]]:
    """Codes below `size` renumbered without gaps, and the old code of each new one."""
    if size > 4 * len(codes) + 1024:
        kept, ranked = np.unique(codes, return_inverse=True)
        return ranked, kept.tolist()
    used = np.zeros(size, bool)
    used[codes] = True
    return (np.cumsum(used) - 1)[codes], np.flatnonzero(used).tolist()


def value(raw: bytes | None) -> object:
    """A JSON value, or None; invalid JSON as a string."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw.decode("utf-8", "replace").strip('"')


def text(raw: bytes | None) -> str | None:
    """A JSON string; None if absent or not a string. Strings with stray quotes or bytes are used unchanged."""
    if raw is None or raw[:1] != b'"':
        return None
    try:
        return _TEXT.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw[1:-1].decode("utf-8", "replace")


def integer(raw: bytes | None) -> int | None:
    """A JSON integer; None if absent or invalid."""
    found = value(raw)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def json_text(raw: bytes) -> str:
    """A value's JSON on one line; as a JSON string if it is invalid."""
    try:
        return msgspec.json.format(raw, indent=0).decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.encode(raw.decode("utf-8", "replace")).decode()
