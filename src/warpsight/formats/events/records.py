"""Records of an event trace as arrays (native/sanitizer/event_format.h has the layout)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.events import registers, tensor_copies
from warpsight.formats.events.blocks import Records
from warpsight.formats.events.kinds import (
    ACCESSES,
    BY_NAME,
    EXECUTED,
    KINDS,
    READ_REGISTERS,
    TENSOR_COPY,
    TENSOR_MAP,
)
from warpsight.formats.events.registers import HEADER_WORDS

_AFFINE, _OFFSETS, _LIST = 1, 2, 3
_ONE, _EACH = 1, 2
#: Copies have two addresses and no values.
_COPY = BY_NAME["copy_async"].number
_MATRIX = BY_NAME["matrix"].number
_LANES = np.arange(32, dtype=np.uint32)
_LOW = np.uint64(0xFFFFFFFF)
_BASE = np.uint64((1 << 48) - 1)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Events:
    """One row per record, in the order in which the device assigned their places.

    Attributes:
        ring, sequence: ring and position in it, which orders the events of a context.
        launch, block, warp: launch of the trace, block of the grid (x fastest), warp of the block.
        kind, flags, size: see :mod:`warpsight.formats.events.kinds`; size in bytes of a lane.
        lanes: a bit for each lane that took part; pc: low half of the address; sm: multiprocessor; time: ns of the device's
            global timer. encodings, offset: where the operands are in `words`; :meth:`operand` and :meth:`values` read them.
    """

    ring: Array
    sequence: Array
    launch: Array
    block: Array
    warp: Array
    kind: Array
    flags: Array
    size: Array
    lanes: Array
    pc: Array
    sm: Array
    time: Array
    encodings: Array
    offset: Array
    words: Array

    def __len__(self) -> int:
        return len(self.sequence)

    def batches(self, rows: int = 1 << 16) -> Iterator[Events]:
        """The rows in batches, because questions about lanes take 32 numbers per row."""
        for begin in range(0, len(self), rows):
            yield self.take(np.arange(begin, min(begin + rows, len(self))))

    def take(self, rows: Array) -> Events:
        """Some of the rows."""
        taken = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "words"}
        return Events(**taken, words=self.words)

    @property
    def is_access(self) -> Array:
        """Rows whose operand A is the address of an access."""
        return np.isin(self.kind, ACCESSES)

    @property
    def guard(self) -> Array:
        """The active lanes whose guard predicate holds, if the record has them."""
        found = self.lanes.copy()
        rows = np.flatnonzero(_executed(self.kind) & ((self.encodings & 3) != 0))
        found[rows] = (self.words[self.offset[rows] + HEADER_WORDS] & _LOW).astype(np.uint32)
        return np.asarray(found)

    def registers(self) -> registers.RegisterValues:
        """The registers of rows of that kind; other rows have empty ones."""
        size = np.where(self.kind == READ_REGISTERS.number, self.size, 0).astype(np.int64)
        return registers.values(self.words, self.offset, self.encodings, size, self.guard)

    def tensor_copies(self) -> tensor_copies.CopyRecords:
        """The parts of rows of that kind, which all have to be."""
        return tensor_copies.records(self.words, self.offset, self.size.astype(np.int64))

    @property
    def active(self) -> Array:
        """(rows, 32): the active lanes."""
        return np.asarray(self.lanes[:, None] >> _LANES & 1, bool)

    @property
    def accessing(self) -> Array:
        """(rows, 32): the lanes whose address is accessed; a matrix instruction uses eight lanes for each of its matrices."""
        rows = np.flatnonzero(self.kind == _MATRIX)
        found = self.active
        found[rows] &= (8 * self.take(rows).first_operand(1).astype(np.int64))[:, None] > _LANES
        return found

    def _ranks(self) -> Array:
        """(rows, 32): the rank of each lane among the active ones."""
        active = self.active
        return np.asarray(np.cumsum(active, axis=1, dtype=np.int64) - active)

    def operand(self, which: int) -> Array:
        """(rows, 32): operand 0 (A) or 1 (B) of each lane; 0 for inactive lanes."""
        start = self._start(which)
        linear = _linear_words(self.encodings, self.kind, which)
        encoding = np.where(linear == 0, self.encodings >> 2 * which & 3, 0)
        ranks = self._ranks()
        found = np.zeros((len(self), 32), np.uint64)
        for chosen, bits in ((2, 16), (3, 24)):
            rows = np.flatnonzero(linear == chosen)
            if len(rows):
                xor = (self.encodings[rows] >> 2 * which & 1) != 0
                found[rows] = _linear(self.words, start[rows], bits, xor)
        for chosen, rule in ((_AFFINE, _affine), (_OFFSETS, _offsets), (_LIST, _listed)):
            rows = np.flatnonzero(encoding == chosen)
            if len(rows):
                found[rows] = rule(self.words, start[rows], ranks[rows])
        found[~self.active] = 0
        return found

    def first_operand(self, which: int) -> Array:
        """Operand 0 or 1 of the first active lane, with which every encoding begins."""
        linear = _linear_words(self.encodings, self.kind, which) != 0
        encoding = self.encodings >> 2 * which & 3
        start = self._start(which)
        found = np.zeros(len(self), np.uint64)
        present = linear | (encoding != 0)
        found[present] = self.words[start[present]]
        return np.where(linear | (encoding == _AFFINE), found & _BASE, found)

    def _start(self, which: int) -> Array:
        """Where an operand's first word is."""
        start = self.offset + HEADER_WORDS
        return start + _words_of(self, 0) if which else start

    @property
    def has_values(self) -> Array:
        """Rows that carry loaded or stored values."""
        return np.asarray(((self.encodings >> 4 & 3) != 0) & (self.kind != _COPY))

    def values(self) -> Array:
        """(rows, 32, 2): low and high half of what each lane loaded or stored, 0 if unknown."""
        start = self.offset + HEADER_WORDS + _words_of(self, 0) + _words_of(self, 1)
        encoding, ranks = np.where(self.has_values, self.encodings >> 4 & 3, 0), self._ranks()
        found = np.zeros((len(self), 32, 2), np.uint64)
        words = np.append(self.words, np.zeros(2, np.uint64))  # reads past the last lane's own value
        for rows in (
            np.flatnonzero((encoding == _ONE) & (self.size <= 8)),
            np.flatnonzero((encoding == _ONE) & (self.size > 8)),
        ):
            found[rows, :, 0] = words[start[rows]][:, None]
        wide = np.flatnonzero((encoding == _ONE) & (self.size > 8))
        found[wide, :, 1] = words[start[wide] + 1][:, None]
        each = encoding == _EACH
        rows = np.flatnonzero(each & (self.size <= 4))
        found[rows, :, 0] = _half(words, start[rows, None], ranks[rows])
        rows = np.flatnonzero(each & (self.size > 4) & (self.size <= 8))
        found[rows, :, 0] = registers.units(words, start[rows, None] + ranks[rows])
        rows = np.flatnonzero(each & (self.size > 8))
        for half in (0, 1):
            found[rows, :, half] = registers.units(words, start[rows, None] + 2 * ranks[rows] + half)
        found[~self.active] = 0
        return found


def _half(words: Array, start: Array, ranks: Array) -> Array:
    return np.asarray(registers.units(words, start + ranks // 2) >> (ranks % 2 * 32).astype(np.uint64) & _LOW)


def _affine(words: Array, start: Array, ranks: Array) -> Array:
    word = words[start]
    step = (word >> np.uint64(48)).astype(np.uint16).astype(np.int16).astype(np.int64)
    return np.asarray((word & _BASE)[:, None] + (step[:, None] * ranks).astype(np.uint64))


def _offsets(words: Array, start: Array, ranks: Array) -> Array:
    offsets = _half(words, start[:, None] + 1, ranks).astype(np.uint32).astype(np.int32)
    return words[start][:, None] + offsets.astype(np.int64).astype(np.uint64)


def _listed(words: Array, start: Array, ranks: Array) -> Array:
    return registers.units(words, start[:, None] + ranks)


def _operand_words(encoding: Array, lanes: Array) -> Array:
    """Words that an operand takes."""
    count = _population(lanes)
    return np.select(
        [encoding == _AFFINE, encoding == _OFFSETS, encoding == _LIST],
        [np.ones_like(count), 1 + (count + 1) // 2, count],
        0,
    )


def _linear_words(encodings: Array, kind: Array, which: int) -> Array:
    """Words of operand 0 (A) or 1 (B) where it is linear in the bits of the lane's number, else 0."""
    bits = encodings >> 6 if which == 0 else np.where(kind == _COPY, encodings >> 4 & 3, 0)
    return np.array([0, 2, 3, 255])[bits]  # no device writes the last


def _words_of(events: Events, which: int) -> Array:
    """Words that operand 0 (A) or 1 (B) takes."""
    linear = _linear_words(events.encodings, events.kind, which)
    return np.where(linear != 0, linear, _operand_words(events.encodings >> 2 * which & 3, events.lanes))


def _linear(words: Array, start: Array, bits: int, xor: Array) -> Array:
    """A 48-bit base, followed by a term with this many bits for each bit of the lane's number."""
    parts = [words[np.minimum(start + i, len(words) - 1)] for i in range(bits // 8)]
    base = parts[0] & _BASE
    found = np.repeat(base[:, None], 32, axis=1)
    for bit in range(5):
        word, shift = divmod(48 + bit * bits, 64)
        term = parts[word] >> np.uint64(shift)
        if shift + bits > 64:
            term = term | parts[word + 1] << np.uint64(64 - shift)
        term = term & np.uint64((1 << bits) - 1)
        signed = (term ^ np.uint64(1 << bits - 1)) - np.uint64(1 << bits - 1)
        lanes = np.asarray(_LANES >> bit & 1, bool)
        found[:, lanes] = np.where(
            xor[:, None], found[:, lanes] ^ term[:, None], found[:, lanes] + signed[:, None]
        )
    return found


def _executed(kind: Array) -> Array:
    return np.isin(kind, (EXECUTED.number, READ_REGISTERS.number))


def _population(lanes: Array) -> Array:
    return np.asarray((lanes[:, None] >> _LANES & 1).sum(axis=1).astype(np.int64))


def _value_words(encodings: Array, size: Array, lanes: Array) -> Array:
    """Words that the values take."""
    encoding, count, wide = encodings >> 4 & 3, _population(lanes), size > 8
    each = np.select([size <= 4, ~wide], [(count + 1) // 2, count], 2 * count)
    return np.select([encoding == _ONE, encoding == _EACH], [1 + wide.astype(np.int64), each], 0)


def _sound(events: Events, lengths: Array) -> Array:
    """Whether records are valid: with lanes, a known kind, a possible access size, and the length of their parts."""
    words = (
        HEADER_WORDS
        + _words_of(events, 0)
        + _words_of(events, 1)
        + np.where(events.has_values, _value_words(events.encodings, events.size, events.lanes), 0)
    )
    rows = np.flatnonzero(events.kind == READ_REGISTERS.number)
    if len(rows):
        own = events.take(rows)
        count = _population(own.guard)
        words[rows] = registers.lengths(
            own.words, own.offset, own.encodings, own.size.astype(np.int64), count
        )
    rows = np.flatnonzero(events.kind == TENSOR_COPY.number)
    words[rows] = tensor_copies.lengths(events.size[rows].astype(np.int64))
    words[events.kind == TENSOR_MAP.number] = HEADER_WORDS + 1 + tensor_copies.MAP_WORDS
    # A record that only notes an instruction's existence has no operands and no size.
    sizes = ~events.is_access | np.isin(events.size, (1, 2, 4, 8, 16)) | (events.encodings == 0)
    return np.asarray((words == lengths) & (events.lanes != 0) & np.isin(events.kind, tuple(KINDS)) & sizes)


def decode(blocks: Sequence[Records]) -> Events:
    """The records of blocks, in ring order, without invalid records."""
    ordered = sorted(blocks, key=lambda block: (block.ring, block.sequence))
    words = np.concatenate([block.words for block in ordered] or [np.zeros(0, np.uint64)])
    lengths = np.concatenate([block.lengths for block in ordered] or [np.zeros(0, np.uint8)]).astype(np.int64)
    offset = np.cumsum(lengths) - lengths
    ring = np.repeat(np.array([b.ring for b in ordered], np.uint32), [len(b.lengths) for b in ordered])
    first = np.array([b.sequence for b in ordered], np.uint64)
    begins = np.cumsum([0, *(len(b.words) for b in ordered)])[:-1]
    block = np.repeat(np.arange(len(ordered)), [len(b.lengths) for b in ordered])
    sequence = (
        first[block] + (offset - begins[block]).astype(np.uint64) if len(offset) else np.zeros(0, np.uint64)
    )
    head, place, who, time = (words[offset + i] if len(offset) else words for i in range(HEADER_WORDS))
    events = Events(
        ring=ring, sequence=sequence, words=words, offset=offset,
        lanes=(head & _LOW).astype(np.uint32), kind=(head >> np.uint64(32)).astype(np.uint8),
        encodings=(head >> np.uint64(48)).astype(np.uint8), size=(head >> np.uint64(56)).astype(np.uint8),
        pc=(place & _LOW).astype(np.uint32), block=(place >> np.uint64(32)).astype(np.uint32),
        launch=(who & _LOW).astype(np.uint32), warp=(who >> np.uint64(32)).astype(np.uint8),
        flags=(who >> np.uint64(40)).astype(np.uint8), sm=(who >> np.uint64(48)).astype(np.uint16),
        time=time.astype(np.int64),
    )  # fmt: skip
    sound = _sound(events, lengths)
    return events if sound.all() else events.take(sound)
