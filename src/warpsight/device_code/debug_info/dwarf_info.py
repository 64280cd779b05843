"""Inlined calls from `.debug_info`, which `nvcc -G` and LLVM write instead of the line table's extension.

Reads `DW_TAG_subprogram` and `DW_TAG_inlined_subroutine` of DWARF 2 to 4 (5 in part), nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from warpsight.device_code.debug_info.line_table import DamagedTable
from warpsight.device_code.elf import readable

_SUBPROGRAM, _INLINED, _COMPILE_UNIT, _LEXICAL_BLOCK = 0x2E, 0x1D, 0x11, 0x0B
_LOW, _HIGH, _NAME, _ORIGIN, _SPECIFICATION, _RANGES = 0x11, 0x12, 0x03, 0x31, 0x47, 0x55
_CALL_COLUMN, _CALL_FILE, _CALL_LINE, _LINKAGE, _MIPS_LINKAGE = 0x57, 0x58, 0x59, 0x6E, 0x2007
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x17: 4, 0x0E: 4, 0x1F: 4,
          0x20: 8, 0x25: 1, 0x26: 2, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2C: 4}  # fmt: skip
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4}
_UNSIGNED, _SIGNED, _REF_UNSIGNED, _STRING, _STRP, _ADDRESS, _PRESENT, _EXPRESSION, _INDIRECT, _BLOCK = (
    0x0F, 0x0D, 0x15, 0x08, 0x0E, 0x01, 0x19, 0x18, 0x16, 0x09,
)  # fmt: skip
_IMPLICIT = 0x21
_LOCAL_REFERENCES = (0x11, 0x12, 0x13, 0x14, _REF_UNSIGNED)


class InfoAddress(NamedTuple):
    """An address of `.debug_info`: the operand's offset in the section and its value."""

    operand: int
    value: int


@dataclass
class InlinedCall:
    """One inlined call: its code range, its callee and the calling line.

    `high` is a length when `high_is_length`.
    """

    function: str
    low: InfoAddress
    high: InfoAddress
    high_is_length: bool
    file: int
    line: int
    column: int
    depth: int


@dataclass
class _Entry:
    tag: int
    offset: int
    values: dict[int, int | str | InfoAddress] = field(default_factory=dict)
    depth: int = 0
    forms: dict[int, int] = field(default_factory=dict)


class _Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def fixed(self, size: int) -> int:
        if self.at + size > len(self.data):
            raise DamagedTable("it ends early")
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        return value

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.fixed(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 70:
                raise DamagedTable("a number does not end")

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise DamagedTable("a name does not end")
        piece, self.at = self.data[self.at : end], end + 1
        return readable(piece)


_Abbreviation = tuple[int, bool, list[tuple[int, int, int]]]


def _abbreviations(data: bytes, at: int) -> dict[int, _Abbreviation]:
    reader, found = _Reader(data, at), {}
    while code := reader.unsigned():
        tag, children = reader.unsigned(), bool(reader.fixed(1))
        attributes: list[tuple[int, int, int]] = []
        while True:
            name, form = reader.unsigned(), reader.unsigned()
            constant = reader.unsigned() if form == _IMPLICIT else 0
            if not name and not form:
                break
            attributes.append((name, form, constant))
        found[code] = (tag, children, attributes)
    return found


def inlined_calls(
    info: bytes, abbreviations: bytes, strings: bytes, problems: list[str]
) -> list[InlinedCall]:
    """Every inlined call of every unit, outer before inner; damage ends it with an entry in `problems`."""
    found: list[InlinedCall] = []
    at = 0
    while at + 11 <= len(info):
        length = int.from_bytes(info[at : at + 4], "little")
        end = at + 4 + length
        try:
            if end > len(info):
                raise DamagedTable(f"it claims {length:,} bytes, but {len(info) - at - 4:,} are present")
            found += _unit(info, abbreviations, strings, at, end)
        except DamagedTable as error:
            problems.append(f".debug_info: the unit at {at} is damaged ({error})")
        at = end
    return found


def _unit(info: bytes, abbreviations: bytes, strings: bytes, at: int, end: int) -> Iterator[InlinedCall]:
    version = int.from_bytes(info[at + 4 : at + 6], "little")
    if not 2 <= version <= 5:
        raise DamagedTable(f"version {version} is not known")
    if version == 5:
        size, table, start = info[at + 7], int.from_bytes(info[at + 8 : at + 12], "little"), at + 12
    else:
        size, table, start = info[at + 10], int.from_bytes(info[at + 6 : at + 10], "little"), at + 11
    entries = list(_entries(info[:end], start, _abbreviations(abbreviations, table), strings, size, at))
    by_offset = {entry.offset: entry for entry in entries}

    def name_of(entry: _Entry | None, limit: int = 8) -> str:
        if entry is None or limit == 0:
            return ""
        for attribute in (_LINKAGE, _MIPS_LINKAGE, _NAME):
            value = entry.values.get(attribute)
            if isinstance(value, str) and value:
                return value
        for attribute in (_ORIGIN, _SPECIFICATION):
            target = entry.values.get(attribute)
            if isinstance(target, int):
                return name_of(by_offset.get(target), limit - 1)
        return ""

    for entry in entries:
        if entry.tag == _INLINED:
            call = _call(entry, name_of)
            if call is not None:
                yield call


def _call(entry: _Entry, name_of: Callable[[_Entry], str]) -> InlinedCall | None:
    low, high = entry.values.get(_LOW), entry.values.get(_HIGH)
    if not isinstance(low, InfoAddress) or high is None or isinstance(high, str):
        return None  # code in several pieces (DW_AT_ranges), which neither nvcc nor Triton's LLVM writes
    numbers = [entry.values.get(name, 0) for name in (_CALL_FILE, _CALL_LINE, _CALL_COLUMN)]
    file, line, column = (value if isinstance(value, int) else 0 for value in numbers)
    is_length = not isinstance(high, InfoAddress)
    place = high if isinstance(high, InfoAddress) else InfoAddress(-1, high)
    return InlinedCall(name_of(entry), low, place, is_length, file, line, column, entry.depth)


def _entries(
    info: bytes, at: int, abbreviations: dict[int, _Abbreviation], strings: bytes, size: int, unit: int
) -> Iterator[_Entry]:
    reader, depth = _Reader(info, at), 0
    while reader.at < len(info):
        offset = reader.at
        code = reader.unsigned()
        if code == 0:
            depth -= 1
            continue
        if code not in abbreviations:
            raise DamagedTable(f"abbreviation {code} is not defined")
        tag, children, attributes = abbreviations[code]
        entry = _Entry(tag, offset, depth=depth)
        for name, form, constant in attributes:
            value = _value(reader, form, constant, strings, size, unit)
            if value is not None:
                entry.values[name] = value
        depth += children
        if tag in (_SUBPROGRAM, _INLINED):
            yield entry


def _value(
    reader: _Reader, form: int, constant: int, strings: bytes, size: int, unit: int
) -> int | str | InfoAddress | None:
    """Read one attribute; None for attributes that are not needed here."""
    if form == _INDIRECT:
        form = reader.unsigned()
    if form == _ADDRESS:
        operand = reader.at
        return InfoAddress(operand, reader.fixed(size))
    if form == _STRP:
        begin = reader.fixed(4)
        end = strings.find(b"\0", begin)
        return readable(strings[begin:end]) if end >= 0 else ""
    if form in _FIXED:
        value = reader.fixed(_FIXED[form])
        return value + unit if form in _LOCAL_REFERENCES else value
    if form in (_UNSIGNED, _SIGNED, _REF_UNSIGNED):
        value = reader.unsigned()
        return value + unit if form == _REF_UNSIGNED else value
    if form == _STRING:
        return reader.text()
    if form == _PRESENT:
        return 1
    if form == _IMPLICIT:
        return constant
    if form in _BLOCKS or form in (_EXPRESSION, _BLOCK):
        length = reader.fixed(_BLOCKS[form]) if form in _BLOCKS else reader.unsigned()
        reader.fixed(length)
        return None
    raise DamagedTable(f"form {form:#x} is not known")
