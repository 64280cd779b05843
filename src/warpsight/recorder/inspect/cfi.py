"""Call frame information: where the caller of a piece of code is, and its registers.

An interpreter of .eh_frame as the x86-64 psABI and the DWARF standard (version 4, section 6.4) describe it, enough for
what compilers and hand-written code of system libraries contain.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

#: Reads so many bytes of the process at an address; None when they are not there.
Memory = Callable[[int, int], "bytes | None"]
_MASK = (1 << 64) - 1


class CfiError(Exception):
    """The frames of this code cannot be unwound with the available information."""


class AddressCursor:
    """A cursor over bytes that are at a virtual address."""

    def __init__(self, data: bytes, address: int, at: int = 0) -> None:
        self.data, self.address, self.at = data, address, at

    def number(self, code: str) -> int:
        """A little-endian number by its struct code."""
        size = struct.calcsize(code)
        if self.at + size > len(self.data):
            raise CfiError("cut short")
        value = int(struct.unpack_from("<" + code, self.data, self.at)[0])
        self.at += size
        return value

    def uleb(self) -> int:
        """An unsigned LEB128 number."""
        return self._leb()[0]

    def sleb(self) -> int:
        """A signed LEB128 number."""
        value, bits = self._leb()
        return value - (1 << bits) if value >> (bits - 1) else value

    def _leb(self) -> tuple[int, int]:
        """The number, and how many bits it was written in."""
        value, bits = 0, 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << bits
            bits += 7
            if not byte & 0x80:
                return value, bits

    def text(self) -> bytes:
        """A string up to its zero."""
        end = self.data.index(b"\0", self.at)
        out, self.at = self.data[self.at : end], end + 1
        return out

    def block(self) -> bytes:
        """A LEB128 length and that many bytes."""
        size = self.uleb()
        out, self.at = self.data[self.at : self.at + size], self.at + size
        return out

    def pointer(self, encoding: int, base: int = 0) -> int:
        """A pointer in a DW_EH_PE encoding; `base` is for table-relative ones."""
        here = self.address + self.at
        codes = {0x00: "Q", 0x02: "H", 0x03: "I", 0x04: "Q", 0x0A: "h", 0x0B: "i", 0x0C: "q"}
        form = encoding & 0x0F
        value = self.uleb() if form == 1 else self.sleb() if form == 9 else self.number(codes.get(form, "Q"))
        relative = encoding & 0x70
        return value + (here if relative == 0x10 else base if relative == 0x30 else 0)


@dataclass
class UnwindRow:
    """Where the caller's frame is and how to get its registers; rules are (kind, value)."""

    cfa: tuple[int, int] | bytes = (7, 8)
    rules: dict[int, tuple[str, int | bytes]] = field(default_factory=dict)

    def copy(self) -> UnwindRow:
        """An independent copy."""
        return UnwindRow(self.cfa, dict(self.rules))


@dataclass(frozen=True)
class Cie:
    """The fields that several functions share."""

    code_align: int
    data_align: int
    return_register: int
    encoding: int
    signal: bool
    augmented: bool
    program: bytes


def parse_cie(data: bytes, address: int) -> Cie:
    """Read a CIE, starting after its length and id."""
    reader = AddressCursor(data, address)
    version = reader.number("B")
    augmentation = reader.text()
    code_align, data_align = reader.uleb(), reader.sleb()
    returned = reader.number("B") if version == 1 else reader.uleb()
    encoding, signal = 0, b"S" in augmentation
    if augmentation.startswith(b"z"):
        reader.uleb()
        for letter in augmentation[1:].decode("latin-1"):
            if letter == "R":
                encoding = reader.number("B")
            elif letter == "P":
                reader.pointer(reader.number("B"))
            elif letter == "L":
                reader.number("B")
    return Cie(
        code_align, data_align, returned, encoding, signal, augmentation.startswith(b"z"), data[reader.at :]
    )


def row_at(cie: Cie, program: bytes, start: int, pc: int) -> UnwindRow:
    """The row that holds at `pc` of a function that starts at `start`."""
    initial = UnwindRow()
    _run(cie, cie.program, initial, None, start, 1 << 64)
    row = initial.copy()
    return _run(cie, program, row, initial, start, pc)


def _run(
    cie: Cie, program: bytes, row: UnwindRow, initial: UnwindRow | None, start: int, pc: int
) -> UnwindRow:
    reader, location, saved = AddressCursor(program, 0), start, []
    while reader.at < len(program):
        byte = reader.number("B")
        high, low = byte & 0xC0, byte & 0x3F
        if high == 0x40 or byte in (0x01, 0x02, 0x03, 0x04):
            step = low if high else (reader.pointer(cie.encoding) - location if byte == 1 else
                                     reader.number({2: "B", 3: "H", 4: "I"}[byte]))  # fmt: skip
            location += step * (1 if byte == 1 else cie.code_align)
            if location > pc:
                return row
        elif high == 0x80:
            row.rules[low] = ("at", reader.uleb() * cie.data_align)
        elif high == 0xC0:
            _restore(row, initial, low)
        elif byte == 0x0A:
            saved.append(row.copy())
        elif byte == 0x0B and saved:
            back = saved.pop()
            row.cfa, row.rules = back.cfa, back.rules
        else:
            _rule(cie, reader, byte, row, initial)
    return row


def _restore(row: UnwindRow, initial: UnwindRow | None, register: int) -> None:
    if initial is not None and register in initial.rules:
        row.rules[register] = initial.rules[register]
    else:
        row.rules.pop(register, None)


def _rule(cie: Cie, reader: AddressCursor, byte: int, row: UnwindRow, initial: UnwindRow | None) -> None:
    if byte == 0x00:
        return
    if byte == 0x0C:
        row.cfa = (reader.uleb(), reader.uleb())
    elif byte == 0x0D:
        row.cfa = (reader.uleb(), row.cfa[1] if isinstance(row.cfa, tuple) else 0)
    elif byte == 0x0E:
        row.cfa = (row.cfa[0] if isinstance(row.cfa, tuple) else 7, reader.uleb())
    elif byte == 0x0F:
        row.cfa = reader.block()
    elif byte == 0x12:
        row.cfa = (reader.uleb(), reader.sleb() * cie.data_align)
    elif byte == 0x13:
        row.cfa = (row.cfa[0] if isinstance(row.cfa, tuple) else 7, reader.sleb() * cie.data_align)
    elif byte == 0x2E:
        reader.uleb()  # size of pushed arguments
    elif byte in (0x05, 0x11):
        register = reader.uleb()
        row.rules[register] = ("at", (reader.uleb() if byte == 0x05 else reader.sleb()) * cie.data_align)
    elif byte == 0x06:
        _restore(row, initial, reader.uleb())
    elif byte in (0x07, 0x08):
        row.rules[reader.uleb()] = ("none", 0) if byte == 0x07 else ("same", 0)
    elif byte == 0x09:
        row.rules[reader.uleb()] = ("register", reader.uleb())
    elif byte in (0x10, 0x16):
        row.rules[reader.uleb()] = ("expression" if byte == 0x10 else "value", reader.block())
    elif byte in (0x14, 0x15):
        register = reader.uleb()
        row.rules[register] = ("offset", (reader.uleb() if byte == 0x14 else reader.sleb()) * cie.data_align)
    else:
        raise CfiError(f"unknown call frame instruction {byte:#x}")


def evaluate(expression: bytes, registers: dict[int, int], memory: Memory, first: list[int]) -> int:
    """Value of a DWARF expression; `first` is the initial stack."""
    reader, stack = AddressCursor(expression, 0), list(first)
    constants = {0x08: "B", 0x09: "b", 0x0A: "H", 0x0B: "h", 0x0C: "I", 0x0D: "i", 0x0E: "Q", 0x0F: "q"}
    while reader.at < len(expression):
        op = reader.number("B")
        if 0x30 <= op <= 0x4F:
            stack.append(op - 0x30)
        elif 0x70 <= op <= 0x8F:
            stack.append(registers.get(op - 0x70, 0) + reader.sleb() & _MASK)
        elif op in constants:
            stack.append(reader.number(constants[op]) & _MASK)
        elif op in (0x10, 0x11):
            stack.append((reader.uleb() if op == 0x10 else reader.sleb()) & _MASK)
        elif op == 0x12:
            stack.append(stack[-1])
        elif op == 0x06:
            stack.append(word(memory, stack.pop()))
        elif op == 0x23:
            stack.append(stack.pop() + reader.uleb() & _MASK)
        elif op in _BINARY:
            right, left = stack.pop(), stack.pop()
            stack.append(_BINARY[op](left, right) & _MASK)
        elif op != 0x96:
            raise CfiError(f"unknown expression operation {op:#x}")
    if not stack:
        raise CfiError("an expression without a value")
    return stack[-1]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_BINARY: dict[int, Callable[[int, int], int]] = {
    0x1A: lambda a, b: a & b, 0x1C: lambda a, b: a - b, 0x1E: lambda a, b: a * b, 0x21: lambda a, b: a | b,
    0x22: lambda a, b: a + b, 0x24: lambda a, b: a << (b & 63), 0x25: lambda a, b: a >> (b & 63), 0x27: lambda a, b: a ^ b,
    0x29: lambda a, b: int(a == b), 0x2A: lambda a, b: int(_signed(a) >= _signed(b)),
    0x2B: lambda a, b: int(_signed(a) > _signed(b)), 0x2C: lambda a, b: int(_signed(a) <= _signed(b)),
    0x2D: lambda a, b: int(_signed(a) < _signed(b)), 0x2E: lambda a, b: int(a != b),
}  # fmt: skip


def word(memory: Memory, address: int) -> int:
    """Eight bytes of the process as a number.

    Raises:
        CfiError: when they are not there.
    """
    data = memory(address, 8)
    if data is None or len(data) < 8:
        raise CfiError(f"no memory at {address:#x}")
    return int.from_bytes(data, "little")
