"""ELF files of GPUs, read in place: cubins and GPU core dumps.

Only 64-bit little-endian files, which is all CUDA makes. The section table is a view on the file, so a file of half a
million sections costs no more than one of ten. Files with more than 65,279 sections keep the count in section 0, as the
System V ABI says. Damage is not fatal as long as something can be read: :attr:`Elf.problems` lists what is cut off or invalid.
"""

from __future__ import annotations

import mmap
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.errors import WarpsightError

ET_CORE = 4
EM_CUDA = 190
#: `e_ident[EI_OSABI]` of GPU core dumps and of cubins before CUDA 13; cubins of CUDA 13 have 0x41.
OSABI_CUDA = 0x33
HEADER_SIZE = 64
_SECTION = np.dtype(
    [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("addr", "<u8"), ("offset", "<u8"), ("size", "<u8"),
     ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entsize", "<u8")]
)  # fmt: skip
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("shndx", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELA = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_REL = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4")])
_NOBITS = 8
_EXTENDED = 0xFFFF

Array = np.ndarray[Any, np.dtype[Any]]
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def readable(raw: bytes) -> str:
    """Bytes of a file as printable text: names from damaged or hostile files cannot control the terminal."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", raw.decode("utf-8", "replace"))


class ElfError(WarpsightError):
    """The file is not an ELF file, or is too damaged to read."""


class NotElfError(ElfError):
    """A file is something else."""


class Elf:
    """One ELF file in memory.

    Attributes:
        name: its name in messages.
        data: its bytes, shape (n,), uint8, not writable.
        osabi: `e_ident[EI_OSABI]`; type, machine, flags: fields of the header.
        sections: the section table, shape (s,), fields as in `Elf64_Shdr` without the `sh_`.
        problems: damage found so far, in words.
    """

    def __init__(self, data: bytes | mmap.mmap | Array, name: str) -> None:
        self.name = name
        self.data: Array = np.frombuffer(data, dtype=np.uint8)
        self.problems: list[str] = []
        self._check_identity()
        header = self.data[:HEADER_SIZE].tobytes()
        self.osabi = header[7]
        self.type = int.from_bytes(header[16:18], "little")
        self.machine = int.from_bytes(header[18:20], "little")
        self.flags = int.from_bytes(header[48:52], "little")
        self.sections, self._name_section = self._section_table(header)
        self._names: dict[int, str] = {}

    @classmethod
    def open(cls, path: Path) -> Elf:
        """Open an ELF file by mapping it.

        Raises:
            ElfError: when it cannot be read or is not an ELF file.
        """
        try:
            with open(path, "rb") as file:
                size = file.seek(0, 2)
                if size < HEADER_SIZE:
                    raise NotElfError(f"{path}: {size} bytes are too few for an ELF file")
                return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), str(path))
        except OSError as error:
            raise ElfError(f"{path}: {error.strerror or error}") from None

    def _check_identity(self) -> None:
        if len(self.data) < HEADER_SIZE or self.data[:4].tobytes() != b"\x7fELF":
            raise NotElfError(f"{self.name}: not an ELF file")
        if self.data[4] != 2 or self.data[5] != 1:
            raise ElfError(f"{self.name}: not a 64-bit little-endian ELF file")

    def _section_table(self, header: bytes) -> tuple[Array, int]:
        """The part of the section table that exists, and the index of the section with the names."""
        offset = int.from_bytes(header[40:48], "little")
        size, count, names = (int.from_bytes(header[i : i + 2], "little") for i in (58, 60, 62))
        if offset == 0 or (size != _SECTION.itemsize and count):
            if count:
                self.problems.append(f"section headers of {size} bytes are unknown")
            return np.zeros(0, _SECTION), 0
        if offset + _SECTION.itemsize > len(self.data):
            self.problems.append(
                f"the file ends at byte {len(self.data):,}, before its table of sections at byte {offset:,}: "
                "it is truncated, or its writing never finished"
            )
            return np.zeros(0, _SECTION), 0
        first = np.frombuffer(self.data, _SECTION, 1, offset)[0]
        if count == 0:
            count = int(first["size"])
        if names == _EXTENDED:
            names = int(first["link"])
        whole = min(count, (len(self.data) - offset) // _SECTION.itemsize)
        if whole < count:
            self.problems.append(
                f"only {whole:,} of {count:,} section headers are in the file: it is truncated"
            )
        table = np.frombuffer(self.data, _SECTION, whole, offset)
        return table, names

    def section_name(self, index: int) -> str:
        """The name of a section; empty if it cannot be read."""
        known = self._names.get(index)
        if known is None:
            known = self._names[index] = self.text_at(self._name_section, int(self.sections["name"][index]))
        return known

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Index of the first section of each name."""
        found: dict[str, int] = {}
        for index in range(len(self.sections)):
            found.setdefault(self.section_name(index), index)
        return found

    def contents(self, index: int) -> Array:
        """The bytes of a section, shape (n,), uint8; bytes missing from the file are added to `problems`."""
        if not 0 <= index < len(self.sections):
            return self.data[:0]
        section = self.sections[index]
        if section["type"] in (0, _NOBITS):
            return self.data[:0]
        begin, size = int(section["offset"]), int(section["size"])
        found = self.data[begin : begin + size] if begin <= len(self.data) else self.data[:0]
        if len(found) < size:
            name = "names" if index == self._name_section else self.section_name(index)
            problem = f"section {index} ({name}) has {len(found):,} of its {size:,} bytes"
            if problem not in self.problems:
                self.problems.append(problem)
        return found

    def bytes_of(self, name: str) -> bytes:
        """The bytes of the section of that name, or empty."""
        index = self.by_name.get(name)
        return b"" if index is None else self.contents(index).tobytes()

    def text_at(self, section: int, offset: int) -> str:
        """The string at an offset of a string table; empty if it is out of range."""
        if section == 0 or section >= len(self.sections):
            return ""
        begin, size = (int(self.sections[f][section]) for f in ("offset", "size"))
        end = min(begin + size, len(self.data))
        if begin + offset >= end:
            return ""
        # Names of C++ kernels reach tens of thousands of characters; most are short, so look near first.
        start = begin + offset
        for reach in (256, 65_536, end - start):
            piece = self.data[start : min(start + reach, end)].tobytes()
            zero = piece.find(b"\0")
            if zero >= 0:
                return readable(piece[:zero])
        return ""

    @cached_property
    def symbols(self) -> Array:
        """The symbol table, shape (n,), fields as in `Elf64_Sym` without the `st_`."""
        index = self.by_name.get(".symtab")
        if index is None:
            return np.zeros(0, _SYMBOL)
        raw = self.contents(index)
        return np.frombuffer(raw.tobytes(), _SYMBOL, len(raw) // _SYMBOL.itemsize)

    def symbol_name(self, index: int) -> str:
        """The name of a symbol, or empty."""
        table = self.by_name.get(".symtab")
        if table is None or not 0 <= index < len(self.symbols):
            return ""
        return self.text_at(int(self.sections["link"][table]), int(self.symbols["name"][index]))

    def relocations(self, name: str) -> Array:
        """Relocations of the section of that name; the addend is 0 if the table has none."""
        found = np.zeros(0, _RELA)
        for prefix, dtype in ((".rela", _RELA), (".rel", _REL)):
            raw = self.bytes_of(prefix + name)
            if raw:
                rows = np.frombuffer(raw, dtype, len(raw) // dtype.itemsize)
                more = np.zeros(len(rows), _RELA)
                for field in dtype.names or ():
                    more[field] = rows[field]
                found = np.concatenate([found, more])
        return found
