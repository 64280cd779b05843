"""Records of copies by the TMA, as arrays (native/nvbit/tool_format.h has the layout).

After the header, a copy has the key of its tensor map and its uniform registers, two per word. A tensor map has its key and 16 words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.events.registers import AT_ONCE, HEADER_WORDS, units

Array = npt.NDArray[Any]

MAP_WORDS = 16
_UNIFORM_REGISTERS = 63
_BLOCK, _PAIR = 7, 2
_NOT_COPIES = frozenset({"UTMACCTL", "UTMACMDFLUSH", "UTMAFENCE"})
_INSTRUCTION = re.compile(r"\s*(?:@\S+\s+)?([A-Z0-9_]+)(\S*)\s*([^;]*)")
_REGISTER = re.compile(r"UR(\d+|Z)")


@dataclass(frozen=True)
class Operand:
    """An operand of a TMA instruction.

    Attributes:
        text: as nvdisasm prints it; address: whether it is `[…]`; policy: whether it is `desc[…]`.
        slots: the places of its registers in a record; none for a number.
    """

    text: str
    address: bool
    policy: bool
    slots: tuple[int, ...]


@dataclass(frozen=True)
class CopyInstruction:
    """A TMA instruction: operation, modifiers, operands, and the numbers of the registers in its records (-1: zero)."""

    operation: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    registers: tuple[int, ...]


def instruction(text: str) -> CopyInstruction | None:
    """The parts of an instruction that copies; None for others.

    Which registers are recorded does not depend on the layout: seven from the first operand's, two of each further address and of
    a cache policy, single ones (native/nvbit/tensor_copies.cpp has the same rule).
    """
    match = _INSTRUCTION.match(text)
    if match is None or not match[1].startswith(("UTMA", "UBLK")) or match[1] in _NOT_COPIES:
        return None
    operation, modifiers, rest = match.groups()
    operands: list[Operand] = []
    numbers: list[int] = []
    for part in filter(None, map(str.strip, rest.split(","))):
        address, policy = part.startswith("["), part.startswith("desc")
        first = address and not any(operand.address for operand in operands)
        count = _BLOCK if first and operation.startswith("UTMA") else _PAIR if address or policy else 1
        named = _REGISTER.search(part)
        begin = len(numbers)
        if named:
            own = [
                -1 if named[1] == "Z" or int(named[1]) + i >= _UNIFORM_REGISTERS else int(named[1]) + i
                for i in range(count)
            ]
            numbers += own[: AT_ONCE - begin]
        operands.append(Operand(part, address, policy, tuple(range(begin, len(numbers)))))
    return CopyInstruction(
        operation, tuple(filter(None, modifiers.split("."))), tuple(operands), tuple(numbers)
    )


def lengths(size: Array) -> Array:
    """Words of records of copies with a number of registers; 0 for an impossible number."""
    return np.where(size <= AT_ONCE, HEADER_WORDS + 1 + (size + 1) // 2, 0)


def keys(words: Array, offset: Array) -> Array:
    """The keys of tensor maps in records of either kind; 0: the copy names none."""
    return words[offset + HEADER_WORDS] if len(offset) else np.zeros(0, np.uint64)


def registers(words: Array, offset: Array, size: Array) -> Array:
    """(records, 12): the registers of copies, 0 beyond their number."""
    halves = np.append(words, np.zeros(1, np.uint64)).view(np.uint32)
    place = np.arange(AT_ONCE)
    found = units(halves, 2 * (offset + HEADER_WORDS + 1)[:, None] + place)
    return np.where(place < size[:, None], found, np.uint32(0))


def maps(words: Array, offset: Array) -> dict[int, bytes]:
    """The bytes of tensor maps by their keys."""
    begin = offset + HEADER_WORDS
    return {
        int(words[at]): words[at + 1 : at + 1 + MAP_WORDS].astype("<u8").tobytes() for at in begin.tolist()
    }
