"""Numbers and short texts parsed in place, eight bytes at a time.

A value's last eight bytes are one load; what is before the value is masked out. Digits in a word become a number in three
multiplications (pairs, quads, all eight), so nothing is copied out of the text and nothing passes through a float.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.formats.chrome.stream import Text

Int64 = NDArray[np.int64]
Words = NDArray[np.uint64]
Bools = NDArray[np.bool_]
#: Number of digits that always fits in a signed 64-bit integer.
MOST_DIGITS = 18
#: Means eight digits in every word.
_WHOLE = None
#: Spans parsed at a time.
_PART = 8192
#: Longest string that leaves room for its length in a word, in bytes.
SHORT = 7
#: By number of bytes: a mask of the last ones of a word.
_LAST = np.array(
    [0, *((0xFFFFFFFFFFFFFFFF << (64 - 8 * n)) & 0xFFFFFFFFFFFFFFFF for n in range(1, 9))], np.uint64
)
#: By number of bytes that a word lacks: bits to move it.
_MISSING = np.array([0, 8, 16, 24, 32, 40, 48, 56, 0], np.uint64)
_ZEROS = np.uint64(0x3030303030303030)
_SIXES = np.uint64(0x0606060606060606)
_HIGH = np.uint64(0xF0F0F0F0F0F0F0F0)
_PAIRS = np.uint64(0x00FF00FF00FF00FF)
_QUADS = np.uint64(0x0000FFFF0000FFFF)
_HALF = np.uint64(0x00000000FFFFFFFF)


class Words8:
    """The eight bytes before any place of a text; zero bytes precede its start."""

    def __init__(self, text: Text) -> None:
        """Copies only strings shorter than a word."""
        if len(text) < 8:
            text = bytes(text) + bytes(8 - len(text))
        self._bytes = np.frombuffer(text, np.uint8)
        self._every = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))

    def at(self, places: Int64) -> NDArray[np.uint8]:
        """The bytes at some places."""
        found: NDArray[np.uint8] = self._bytes[places]
        return found

    def before(self, places: Int64) -> Words:
        """Words that end at `places`, the last byte in the highest bits."""
        begins = places - 8
        if not len(begins) or int(begins.min()) >= 0:
            found: Words = self._every[begins]
            return found
        found = self._every[np.maximum(begins, 0)]
        front = np.flatnonzero(begins < 0)
        found[front] <<= _MISSING[np.minimum(-begins[front], 8)]
        found[front[begins[front] <= -8]] = 0
        return found


def of_short(word: int) -> bytes:
    """Decode the string encoded by :func:`short`."""
    size = word & 0xFF
    return word.to_bytes(8, "little", signed=True)[8 - size :]


def short(words: Words8, starts: Int64, ends: Int64) -> NDArray[np.int64]:
    """Strings of at most :data:`SHORT` bytes as numbers: equal numbers mean equal strings."""
    lengths = ends - starts
    found = words.before(ends)
    found &= _LAST[lengths]
    found |= lengths.view(np.uint64)  # the lowest byte is free
    return found.view(np.int64)


def _eight(found: Words, lengths: Int64 | np.int64 | None, wrong: object) -> Words:
    """Convert words whose last `lengths` bytes are digits to numbers; `wrong` gets bits set for other characters."""
    found ^= _ZEROS
    if lengths is not _WHOLE:
        found &= _LAST[lengths]
    wrong |= (found | (found + _SIXES)) & _HIGH
    number: Words = found >> np.uint64(8)
    found *= np.uint64(10)
    number += found
    number &= _PAIRS
    for shift, scale, mask in ((16, 100, _QUADS), (32, 10_000, _HALF)):
        rest = number >> np.uint64(shift)
        number *= np.uint64(scale)
        number += rest
        number &= mask
    return number


def unsigned(words: Words8, starts: Int64, ends: Int64) -> tuple[Int64, Bools]:
    """Numbers of 1 to :data:`MOST_DIGITS` digits, and which spans are invalid."""
    return _in_parts(_unsigned, words, starts, ends)


def thousandths(words: Words8, starts: Int64, ends: Int64) -> tuple[Int64, Bools]:
    """Unsigned numbers with at most three decimals, times 1000, and which spans are invalid (or too large)."""
    return _in_parts(_thousandths, words, starts, ends)


def _in_parts(
    parse: Callable[[Words8, Int64, Int64], tuple[Int64, Bools]], words: Words8, starts: Int64, ends: Int64
) -> tuple[Int64, Bools]:
    """Parts small enough for their intermediate columns to stay in the cache."""
    values, wrong = np.empty(len(starts), np.int64), np.empty(len(starts), bool)
    for begin in range(0, len(starts), _PART):
        part = slice(begin, begin + _PART)
        values[part], wrong[part] = parse(words, starts[part], ends[part])
    return values, wrong


def _unsigned(words: Words8, starts: Int64, ends: Int64) -> tuple[Int64, Bools]:
    lengths: Any = ends - starts
    shortest, longest = int(lengths.min()), int(lengths.max())
    outside = np.zeros(len(starts), bool)
    if shortest < 1 or longest > MOST_DIGITS:
        outside = (lengths < 1) | (lengths > MOST_DIGITS)
        lengths = np.clip(lengths, 0, MOST_DIGITS)
        shortest, longest = max(shortest, 0), min(longest, MOST_DIGITS)
    if shortest == longest:
        lengths = shortest  # one mask for all
    wrong = np.zeros(len(starts), np.uint64)
    number = _eight(words.before(ends), _WHOLE if shortest >= 8 else np.minimum(lengths, 8), wrong)
    for done, scale in ((8, 10**8), (16, 10**16)):
        if longest > done:
            rest = _WHOLE if shortest >= done + 8 else np.clip(lengths - done, 0, 8)
            number += _eight(words.before(ends - done), rest, wrong) * np.uint64(scale)
    return number.view(np.int64), outside | (wrong != 0)


def _point(last: Words, decimals: int) -> Bools:
    """Whether a point is before some last digits."""
    found: Bools = (last >> np.uint64(56 - 8 * decimals)) & np.uint64(0xFF) == ord(".")
    return found


def _thousandths(words: Words8, starts: Int64, ends: Int64) -> tuple[Int64, Bools]:
    last = words.before(ends)
    lengths = ends - starts
    decimals: Any = 3  # as torch writes them
    if int(lengths.min()) <= 4 or not _point(last, 3).all():
        decimals = np.select(
            [_point(last, count) & (lengths > count + 1) for count in (3, 2, 1)], [3, 2, 1], 0
        )
    number, wrong = _unsigned(words, starts, ends - (decimals + (decimals > 0)))
    wrong |= number >= 1 << 52
    last ^= _ZEROS
    last &= _LAST[decimals]
    wrong |= (last | (last + _SIXES)) & _HIGH != 0
    # Digits are at the high end of the word; moved to the low end, the first one is the lowest byte.
    last >>= _SHIFTS[decimals]
    number = np.where(wrong, 0, number) * 1000 if wrong.any() else number * 1000
    for shift, scale in ((0, 100), (8, 10), (16, 1)):
        digit = (last >> np.uint64(shift)) & np.uint64(0xFF)
        number += digit.view(np.int64) * scale
    return number, wrong


#: By number of decimals: how far they have to move; without any the word is zero already.
_SHIFTS = np.array([0, 56, 48, 40], np.uint64)
