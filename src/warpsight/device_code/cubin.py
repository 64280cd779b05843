"""Cubins: the functions of a CUDA module, their instructions and their source lines.

Reads what nvcc, ptxas, NVRTC, Triton and the driver's own compiler write, relocated or not. In a module cut out of a
running program (a core dump's), sections have GPU addresses; otherwise the first address of each function is 0.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.device_code.debug_info import dwarf_info, ptx, ptx_files
from warpsight.device_code.debug_info.inline_chain import Frame, SourceChain, frames_of
from warpsight.device_code.debug_info.line_table import LineSequence, sequence_at, sequences
from warpsight.device_code.demangle import demangle
from warpsight.device_code.elf import Elf, readable

_FUNCTION = 2
_NEW_ABI = 0x41
_TEXT = ".text."


@dataclass(frozen=True)
class CubinFunction:
    """A function: an entry, or a device function that was not inlined.

    Attributes:
        name: as in the symbol table, but ptxas's `$kernel$function` becomes `function`.
        kernel: the name of the section it is in, without `.text.`.
        section: that section's index.
        offset: offset of its first instruction in the section, in bytes; size: size in bytes.
    """

    name: str
    kernel: str
    section: int
    offset: int
    size: int

    @property
    def demangled(self) -> str:
        """The readable name."""
        return demangle(self.name)


@dataclass(frozen=True)
class _Table:
    """A function's rows, ready for lookup: where each begins, and which row of `sequence` applies there."""

    sequence: LineSequence
    start: int
    addresses: tuple[int, ...]
    rows: tuple[int, ...]
    raw: tuple[int, ...]
    sass: LineSequence | None

    def ptx_line(self, address: int) -> int:
        """The line of the embedded PTX that an instruction came from, 0 if unknown."""
        if self.sass is None:
            return 0
        at = bisect_right([row.address for row in self.sass.rows], address) - 1
        return self.sass.rows[at].line if at >= 0 else 0


class Cubin:
    """One module's code.

    Attributes:
        elf: the file; name: its name in messages.
    """

    def __init__(self, data: bytes | mmap.mmap | np.ndarray[Any, Any], name: str) -> None:
        """Parse a cubin; raises :class:`~warpsight.device_code.elf.ElfError` if the bytes are not an ELF file."""
        self.elf = Elf(data, name)
        self.name = name
        self._tables: dict[int, list[_Table]] = {}
        self._call_sites: dict[int, list[tuple[Frame, ...]]] = {}

    @classmethod
    def open(cls, path: Path) -> Cubin:
        """Open a cubin file by mapping it."""
        elf = Elf.open(path)
        return cls(elf.data, str(path))

    @property
    def architecture(self) -> int:
        """The number in `sm_90`, 0 when unknown."""
        return self.elf.flags >> 8 & 0xFFFF if self.elf.osabi == _NEW_ABI else self.elf.flags & 0xFF

    @cached_property
    def sections(self) -> dict[int, str]:
        """Index of each section with code and the name of its kernel or function."""
        found = {}
        for index in range(len(self.elf.sections)):
            name = self.elf.section_name(index)
            if name.startswith(_TEXT):
                found[index] = name[len(_TEXT) :]
        return found

    @cached_property
    def functions(self) -> list[CubinFunction]:
        """All functions in the symbol table, by section and offset."""
        found = []
        symbols = self.elf.symbols
        for index in np.flatnonzero((symbols["info"] & 15) == _FUNCTION):
            section = int(symbols["shndx"][index])
            if section not in self.sections:
                continue
            value, size = int(symbols["value"][index]), int(symbols["size"][index])
            base = int(self.elf.sections["addr"][section])
            name = self.elf.symbol_name(int(index))
            if name.startswith("$") and name.count("$") >= 2:
                name = name.split("$", 2)[2]
            offset = value - base if base and value >= base else value
            found.append(CubinFunction(name, self.sections[section], section, offset, size))
        return sorted(found, key=lambda f: (f.section, f.offset))

    @cached_property
    def _by_address(self) -> tuple[list[int], list[int]]:
        """Addresses and indices of the sections with code, by address."""
        order = sorted(self.sections, key=lambda index: int(self.elf.sections["addr"][index]))
        return [int(self.elf.sections["addr"][index]) for index in order], order

    def find(self, address: int) -> tuple[int, int] | None:
        """The code section that contains a GPU address, and the offset in it; None if there is none."""
        addresses, order = self._by_address
        at = bisect_right(addresses, address) - 1
        if at < 0:
            return None
        section, offset = order[at], address - addresses[at]
        return (section, offset) if offset < int(self.elf.sections["size"][section]) else None

    def section_of(self, kernel: str) -> int | None:
        """The section for a kernel's mangled name."""
        return self.elf.by_name.get(_TEXT + kernel)

    def function_at(self, section: int, offset: int) -> CubinFunction:
        """The function at an offset of a section; the whole section if no symbol covers it."""
        inside = [f for f in self.functions if f.section == section and f.offset <= offset]
        if inside and (inside[-1].size == 0 or offset < inside[-1].offset + inside[-1].size):
            return min(
                (f for f in inside if offset < f.offset + f.size), key=lambda f: f.size, default=inside[-1]
            )
        kernel = self.sections.get(section, "")
        return CubinFunction(kernel, kernel, section, 0, int(self.elf.sections["size"][section]))

    @cached_property
    def has_lines(self) -> bool:
        """Whether there is any line information."""
        return bool(self._line_table)

    @cached_property
    def _line_table(self) -> bytes:
        return self.elf.bytes_of(".debug_line")

    @cached_property
    def _strings(self) -> bytes:
        return self.elf.bytes_of(".debug_str")

    @cached_property
    def _stretches(self) -> list[int]:
        return ptx.stretches(self.elf.bytes_of(".nv_debug_ptx_txt"))

    def _name_at(self, offset: int) -> str:
        end = self._strings.find(b"\0", offset)
        return readable(self._strings[offset:end]) if 0 <= offset <= end else ""

    def _sequences(self, table_name: str, section: int) -> Iterator[tuple[LineSequence, int]]:
        """The sequences of a line table that belong to a section, with the offset in it where each begins."""
        table = self._line_table if table_name == ".debug_line" else self.elf.bytes_of(table_name)
        if not table:
            return
        address = int(self.elf.sections["addr"][section])
        size = int(self.elf.sections["size"][section])
        relocations = self.elf.relocations(table_name)
        for relocation in relocations:
            operand, symbol = int(relocation["offset"]), int(relocation["symbol"])
            if symbol >= len(self.elf.symbols) or int(self.elf.symbols["shndx"][symbol]) != section:
                continue
            sequence = sequence_at(table, operand, self.elf.problems, table_name)
            if sequence is None:
                continue
            start = int(self.elf.symbols["value"][symbol]) + int(relocation["addend"])
            if address and address <= sequence.base < address + size:
                start = sequence.base
            yield sequence, start - address if address and start >= address else start
        if len(relocations):
            return
        for sequence in sequences(table, self.elf.problems, table_name):
            if address <= sequence.base < address + size:
                yield sequence, sequence.base - address

    def _tables_of(self, section: int) -> list[_Table]:
        known = self._tables.get(section)
        if known is None:
            known = self._tables[section] = self._read_tables(section)
        return known

    def _read_tables(self, section: int) -> list[_Table]:
        sass = {start: sequence for sequence, start in self._sequences(".nv_debug_line_sass", section)}
        tables = []
        for sequence, start in self._sequences(".debug_line", section):
            starts = [row.address for row in sequence.rows]
            if not starts:
                continue
            if start in sass and len(self._stretches) > 1:
                refined = ptx.refine(sequence, sass[start], self._stretches)
            else:
                refined = [(address, bisect_right(starts, address) - 1) for address in sorted(set(starts))]
            addresses = tuple(address for address, _ in refined)
            raw = tuple(bisect_right(starts, address) - 1 for address in addresses)
            tables.append(
                _Table(sequence, start, addresses, tuple(row for _, row in refined), raw, sass.get(start))
            )
        return tables

    def chain(self, section: int, offset: int) -> SourceChain | None:
        """The source chain of the instruction at an offset of a section; None when no line is known."""
        for table in self._tables_of(section):
            relative = offset - table.start
            at = bisect_right(table.addresses, relative) - 1
            if at < 0 or relative >= table.sequence.end:
                continue
            name = self.function_at(section, offset).name
            raw = frames_of(table.sequence, table.raw[at], self._name_at, name)
            sites = self._call_sites.get(section)
            if sites:
                line = table.ptx_line(relative)
                if 0 < line < len(sites) and len(sites[line]) > 1:
                    return SourceChain(sites[line], raw, origin="ptx file")
            if len(raw) == 1:
                dwarf = self._dwarf_chain(section, offset, raw[0], table.sequence)
                if dwarf is not None:
                    return SourceChain(dwarf, raw, origin="dwarf")
            frames = frames_of(table.sequence, table.rows[at], self._name_at, name)
            if frames == raw:
                return SourceChain(raw, raw)
            return SourceChain(frames, raw, refined=True, origin="ptx")
        return None

    def has_lines_inside(self, section: int, offset: int, size: int) -> bool:
        """Whether a row of a line table begins within a function."""
        return any(
            offset <= table.start + address < offset + size
            for table in self._tables_of(section)
            for address in table.addresses
        )

    def ptx_at(self, section: int, offset: int) -> tuple[int, str] | None:
        """The line of the embedded PTX that an instruction came from: its number, and its text ("" if not kept)."""
        for table in self._tables_of(section):
            relative = offset - table.start
            if not table.addresses or relative < table.addresses[0] or relative >= table.sequence.end:
                continue
            line = table.ptx_line(relative)
            if line:
                return line, self.ptx[line - 1].strip() if line <= len(self.ptx) else ""
        return None

    @cached_property
    def ptx(self) -> list[str]:
        """The PTX lines that the code was compiled from, starting with line 1; empty without `-lineinfo`."""
        # Names have a control character in front that is not part of the language.
        text = self.elf.bytes_of(".nv_debug_ptx_txt").translate(None, bytes(range(1, 9)))
        return [readable(line.expandtabs(4)).rstrip() for line in text.split(b"\0")] if text else []

    @cached_property
    def _inlined_calls(self) -> dict[int, list[tuple[int, int, dwarf_info.InlinedCall]]]:
        """Inlined calls of `.debug_info` by section: (begin, end, call), outer before inner."""
        info = self.elf.bytes_of(".debug_info")
        if not info:
            return {}
        abbreviations = self.elf.bytes_of(".debug_abbrev")
        calls = dwarf_info.inlined_calls(info, abbreviations, self._strings, self.elf.problems)
        relocations = {int(r["offset"]): r for r in self.elf.relocations(".debug_info")}
        found: dict[int, list[tuple[int, int, dwarf_info.InlinedCall]]] = {}
        for call in calls:
            low, high = self._placed(call.low, relocations), self._placed(call.high, relocations)
            if low is None:
                continue
            section, begin = low
            end = begin + call.high.value if call.high_is_length else high[1] if high else begin
            found.setdefault(section, []).append((begin, end, call))
        return found

    def _placed(self, place: dwarf_info.InfoAddress, relocations: dict[int, Any]) -> tuple[int, int] | None:
        """Section and offset of an address of `.debug_info`."""
        absolute = self.find(place.value) if int(max(self._by_address[0], default=0)) else None
        relocation = relocations.get(place.operand)
        if absolute is not None or relocation is None:
            return absolute
        symbol = int(relocation["symbol"])
        if symbol >= len(self.elf.symbols):
            return None
        section = int(self.elf.symbols["shndx"][symbol])
        # Tables with addends leave the operand alone; those without (sm_80) keep the addend in it.
        addend = int(relocation["addend"]) or place.value
        return section, int(self.elf.symbols["value"][symbol]) + addend

    def _dwarf_chain(
        self, section: int, offset: int, innermost: Frame, sequence: LineSequence
    ) -> tuple[Frame, ...] | None:
        """The chain from `.debug_info`, None if the instruction is in no inlined call."""
        around = [c for begin, end, c in self._inlined_calls.get(section, ()) if begin <= offset < end]
        if not around:
            return None
        around.sort(key=lambda call: call.depth)
        names = [innermost.function, *(demangle(call.function) for call in around)]
        frames = [Frame(names[-1], innermost.file, innermost.line, innermost.column)]
        for call, function in zip(reversed(around), reversed(names[:-1]), strict=True):
            frames.append(Frame(function, sequence.file(call.file).path, call.line, call.column))
        return tuple(frames)

    def use_ptx(self, paths: Iterable[Path], sources: tuple[str, ...] = ()) -> None:
        """Look for PTX files of kernels whose line tables have no call sites.

        See :mod:`warpsight.device_code.debug_info.ptx_files`.
        """
        embedded = self.elf.bytes_of(".nv_debug_ptx_txt")
        if not embedded or self._strings:
            return
        given = tuple(paths)
        for section, kernel in self.sections.items():
            found = ptx_files.call_sites(kernel, embedded, given, sources)
            if found:
                self._call_sites[section] = found

    def instructions(self, section: int) -> bytes:
        """The code of a section."""
        return self.elf.contents(section).tobytes()
