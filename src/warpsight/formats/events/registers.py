"""Registers of an event trace, as arrays (native/nvbit/tool_format.h has the layout).

After the header and operand A, a register record has a word of codes (4 bits per register), units of 32 bits (two per word), and
the words of registers that have one unit per lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

HEADER_WORDS = 4
#: Maximum registers in a record.
AT_ONCE = 12
#: Numbers from here on are uniform registers; :data:`PREDICATES` and the next are all predicates as bits, the latter uniform.
UNIFORM, PREDICATES, UNIFORM_PREDICATES = 256, 512, 513
_ONE, _AFFINE, _ADD, _XOR, _FEW, _EACH = 1, 2, 3, 4, 4, 9
#: Units by code; codes that devices never write have none and are refused.
_UNITS = np.array([0, 1, 2, 6, 6, 3, 6, 11, 20, 0, 0, 0, 0, 0, 0, 0], np.int64)
_LANES = np.arange(32, dtype=np.uint32)
_BITS = np.asarray(_LANES[None, :] >> np.arange(5, dtype=np.uint32)[:, None] & 1, bool)


@dataclass(frozen=True)
class RegisterValues:
    """Registers, a row each, in the order of their records.

    Attributes:
        record: row of its record; slot: its place in the record; value: (rows, 32), 0 where the guard predicate does not hold.
    """

    record: Array
    slot: Array
    value: Array


def name_of(number: int) -> str:
    """The name of a register: R5, UR4, or P and UP for all predicates."""
    if number in (PREDICATES, UNIFORM_PREDICATES):
        return "P" if number == PREDICATES else "UP"
    return f"R{number}" if number < UNIFORM else f"UR{number - UNIFORM}"


def _codes(words: Array, at: Array, size: Array) -> Array:
    """(records, 12): the code of each register, 0 where the record has fewer."""
    word = words[np.minimum(at, len(words) - 1)] if len(words) else np.zeros(len(at), np.uint64)
    shifts = np.arange(AT_ONCE, dtype=np.uint64) * np.uint64(4)
    codes = (word[:, None] >> shifts & np.uint64(15)).astype(np.int64)
    return np.where(np.arange(AT_ONCE) < size[:, None], codes, 0)


def lengths(words: Array, offset: Array, encodings: Array, size: Array, count: Array) -> Array:
    """Words of register records, 0 for invalid records. `count` is the number of lanes whose guard holds."""
    start = offset + HEADER_WORDS + ((encodings & 3) != 0)
    codes = _codes(words, start, size)
    units = _UNITS[codes].sum(axis=1)
    each = (codes == _EACH).sum(axis=1) * ((count + 1) // 2)
    sound = (codes <= _EACH).all(axis=1) & (size > 0) & (size <= AT_ONCE)
    return np.where(sound, start + 1 + (units + 1) // 2 + each - offset, 0)


def values(words: Array, offset: Array, encodings: Array, size: Array, guard: Array) -> RegisterValues:
    """The registers of records. `guard` has the lanes whose guard predicate holds."""
    start = offset + HEADER_WORDS + ((encodings & 3) != 0)
    codes = _codes(words, start, size)
    active = np.asarray(guard[:, None] >> _LANES & 1, bool)
    ranks = np.cumsum(active, axis=1, dtype=np.int64) - active
    own = _UNITS[codes]
    unit = np.cumsum(own, axis=1) - own + 2 * (start + 1)[:, None]
    is_each = codes == _EACH
    behind = start + 1 + (own.sum(axis=1) + 1) // 2
    per = ((active.sum(axis=1) + 1) // 2)[:, None]
    each = 2 * (behind[:, None] + (np.cumsum(is_each, axis=1) - is_each) * per)
    halves = np.append(words, np.zeros(1, np.uint64)).view(np.uint32)
    record, slot = np.nonzero(np.arange(AT_ONCE) < size[:, None])
    found = np.zeros((len(record), 32), np.uint32)
    code, first = codes[record, slot], np.where(is_each, each, unit)[record, slot]
    for number, rule in _RULES.items():
        rows = np.flatnonzero(code == number)
        if len(rows):
            found[rows] = rule(halves, first[rows], ranks[record[rows]])
    found[~active[record]] = 0
    return RegisterValues(record, slot, found)


def units(stored: Array, place: Array) -> Array:
    """Units at some positions; inactive lanes may ask for positions after the last record."""
    return stored[np.minimum(place, len(stored) - 1)]


def _one(halves: Array, first: Array, ranks: Array) -> Array:
    return np.repeat(units(halves, first)[:, None], 32, axis=1)


def _affine(halves: Array, first: Array, ranks: Array) -> Array:
    return np.asarray(
        units(halves, first)[:, None] + units(halves, first + 1)[:, None] * ranks.astype(np.uint32)
    )


def _add(halves: Array, first: Array, ranks: Array) -> Array:
    found = _one(halves, first, ranks)
    for bit in range(5):
        found += np.where(_BITS[bit], units(halves, first + 1 + bit)[:, None], np.uint32(0))
    return found


def _xor(halves: Array, first: Array, ranks: Array) -> Array:
    found = _one(halves, first, ranks)
    for bit in range(5):
        found ^= np.where(_BITS[bit], units(halves, first + 1 + bit)[:, None], np.uint32(0))
    return found


def _few(planes: int) -> Callable[[Array, Array, Array], Array]:
    def rule(halves: Array, first: Array, ranks: Array) -> Array:
        number = np.zeros((len(first), 32), np.int64)
        for plane in range(planes):
            bits = units(halves, first + (1 << planes) + plane)
            number |= (bits[:, None] >> _LANES & 1).astype(np.int64) << plane
        return units(halves, first[:, None] + number)

    return rule


def _each(halves: Array, first: Array, ranks: Array) -> Array:
    return units(halves, first[:, None] + ranks)


_RULES: dict[int, Any] = {
    _ONE: _one, _AFFINE: _affine, _ADD: _add, _XOR: _xor, _EACH: _each,
    **{_FEW + planes: _few(planes) for planes in (1, 2, 3, 4)},
}  # fmt: skip
