"""Reading the tables of a CUDA core dump in place."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from warpsight.debug.gpucore.layout import OWNERS, TABLES, Kind
from warpsight.device_code.cubin import Cubin
from warpsight.device_code.elf import (
    EM_CUDA,
    ET_CORE,
    HEADER_SIZE,
    OSABI_CUDA,
    Array,
    Elf,
    ElfError,
    NotElfError,
)
from warpsight.errors import WarpsightError
from warpsight.model.private_files import unreadable

_STRINGS = 3
_NOBITS = 8
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20


class CoreError(WarpsightError):
    """A file is not a CUDA core dump, or contains nothing readable."""


@dataclass(frozen=True)
class _SectionTable:
    """All rows of one kind.

    Attributes:
        rows: structured array of shape (n,); see :data:`~warpsight.debug.gpucore.layout.TABLES`.
        parent: index of each row's owner in the parent's table, shape (n,), int64; -1 where it has none.
        section: the section each row is in; row: its place there.
    """

    rows: Array
    parent: Array
    section: Array
    row: Array

    def __len__(self) -> int:
        return len(self.rows)


class GpuCore:
    """One core dump.

    Attributes:
        path: path of the file; elf: its contents.
    """

    def __init__(self, elf: Elf, path: Path) -> None:
        """Take a mapped file.

        Raises:
            CoreError: when it is another kind of ELF file, or none of its tables is there.
        """
        self.elf, self.path = elf, path
        if elf.machine != EM_CUDA or elf.type != ET_CORE:
            what = "a cubin" if elf.machine == EM_CUDA else f"machine {elf.machine}, type {elf.type}"
            raise CoreError(f"{path}: an ELF file, but not a CUDA core dump ({what})")
        if elf.osabi != OSABI_CUDA:
            elf.problems.append(f"its ABI is {elf.osabi:#x}; that of known dumps is {OSABI_CUDA:#x}")
        self._kinds: Array = elf.sections["type"]
        self._tables: dict[Kind, _SectionTable] = {}
        self._owned: dict[Kind, tuple[Array, Array]] = {}
        self._cubins: dict[int, Cubin | None] = {}
        if not len(elf.sections):
            why = elf.problems[-1] if elf.problems else "it has no sections"
            raise CoreError(f"{path}: {why}")
        self._notice_cut()
        if not len(self.table(Kind.DEVICES)):
            raise CoreError(
                f"{path}: the dump has no device table" + "".join(f"; {p}" for p in elf.problems[:2])
            )

    @classmethod
    def open(cls, path: Path) -> GpuCore:
        """Open a dump, compressed with gzip or not.

        Raises:
            CoreError: when the file cannot be read as a core dump.
        """
        if reason := unreadable(path):
            raise CoreError(f"{path} {reason}")
        try:
            with open(path, "rb") as file:
                head = file.read(HEADER_SIZE)
                if head[:2] == _GZIP:
                    data, problem = _decompress(file)
                    elf = Elf(data, str(path))
                    elf.problems += problem
                    return cls(elf, path)
            if not head:
                raise CoreError(
                    f"{path}: the file is empty: the driver created it but did not finish writing it"
                )
            return cls(Elf.open(path), path)
        except NotElfError:
            raise CoreError(
                f"{path}: not a GPU core dump; take one with: warpsight watch --on-hang dump -- PROGRAM"
            ) from None
        except ElfError as error:
            raise CoreError(str(error)) from None
        except OSError as error:
            raise CoreError(f"{path}: {error.strerror or error}") from None

    def _notice_cut(self) -> None:
        """Report sections that extend past the end of the file, even if they are never read."""
        headers, limit = self.elf.sections, np.uint64(len(self.elf.data))
        stored = (headers["type"] != 0) & (headers["type"] != _NOBITS) & (headers["size"] > 0)
        outside = stored & (
            (headers["offset"] > limit) | (headers["size"] > limit - np.minimum(headers["offset"], limit))
        )
        if outside.any():
            self.elf.problems.append(
                f"{int(outside.sum()):,} of {len(headers):,} sections reach past the end of the file: it is truncated"
            )

    @property
    def problems(self) -> list[str]:
        """Truncation and damage found so far, in words, without repetition."""
        return list(dict.fromkeys(self.elf.problems))

    def table(self, kind: Kind) -> _SectionTable:
        """All rows of a kind, from all its sections."""
        known = self._tables.get(kind)
        if known is None:
            known = self._tables[kind] = self._read(kind, np.flatnonzero(self._kinds == kind.section_type))
        return known

    def _read(self, kind: Kind, sections: Array) -> _SectionTable:
        layout = TABLES[kind]
        headers = self.elf.sections[sections]
        stride = headers["entsize"].astype(np.int64)
        if kind is Kind.METADATA:  # one row, whose size the section does not repeat
            stride = np.where(stride < 1, headers["size"].astype(np.int64), stride)
        strange = (stride < 1) & (headers["size"] > 0)
        if strange.any():
            self.elf.problems.append(
                f"{int(strange.sum()):,} sections of {kind.name.lower()} have rows of size 0"
            )
        usable = stride >= 1
        sections, headers, stride = sections[usable], headers[usable], stride[usable]
        limit = len(self.elf.data)
        begin = np.minimum(headers["offset"], limit).astype(np.int64)
        size = np.minimum(headers["size"], limit).astype(np.int64)
        there = np.minimum(size, limit - begin)
        if (there < size).any():
            cut = int((there < size).sum())
            self.elf.problems.append(f"{cut:,} sections of {kind.name.lower()} are cut off: rows are missing")
        counts = there // stride
        rows = self._gather(layout.row, begin, counts, stride)
        owner = np.repeat(headers["link"].astype(np.int64), counts)
        owner_row = np.repeat(headers["info"].astype(np.int64), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        parent = self._owners(kind, layout.parent, owner, owner_row)
        return _SectionTable(rows, parent, np.repeat(sections, counts), place)

    def _gather(self, dtype: np.dtype[np.void], begin: Array, counts: Array, stride: Array) -> Array:
        """Copy the known part of every row; fields that a driver did not write are zero."""
        width = dtype.itemsize
        out = np.zeros((int(counts.sum()), width), np.uint8)
        data, at = self.elf.data, 0
        for start, count, step in zip(begin.tolist(), counts.tolist(), stride.tolist(), strict=True):
            known = min(step, width)
            piece = data[start : start + count * step].reshape(count, step)
            out[at : at + count, :known] = piece[:, :known]
            at += count
        return out.view(dtype).reshape(-1)

    def _owners(self, kind: Kind, parent: Kind | None, owner: Array, owner_row: Array) -> Array:
        """Index of each row's owner; -1, and a problem, if the file names one that does not exist."""
        if parent is None:
            return np.full(len(owner), -1, np.int64)
        above = self.table(parent)
        first = np.full(len(self.elf.sections) + 1, -1, np.int64)
        count = np.zeros(len(self.elf.sections) + 1, np.int64)
        if len(above):
            starts = np.flatnonzero(above.row == 0)
            first[above.section[starts]] = starts
            count[: len(self.elf.sections)] = np.bincount(above.section, minlength=len(self.elf.sections))
        link = np.where(owner < len(self.elf.sections), owner, len(self.elf.sections))
        valid = (first[link] >= 0) & (owner_row < count[link])
        lost = int((~valid).sum())
        if lost:
            self.elf.problems.append(f"{lost:,} rows of {kind.name.lower()} belong to nothing in the file")
        return np.where(valid, first[link] + owner_row, -1)

    def section_of(self, kind: Kind, owner: int) -> int | None:
        """The section of a kind that belongs to a row of its owner's table (an index of that table)."""
        above = self.table(OWNERS[kind] if kind in OWNERS else _parent(kind))
        if not 0 <= owner < len(above):
            return None
        keys, sections = self._by_owner(kind)
        key = int(above.section[owner]) << 32 | int(above.row[owner])
        at = int(np.searchsorted(keys, np.uint64(key)))
        return int(sections[at]) if at < len(keys) and int(keys[at]) == key else None

    def _by_owner(self, kind: Kind) -> tuple[Array, Array]:
        """The sections of a kind, sorted by owner: `sh_link` and `sh_info` as one number, and the sections."""
        known = self._owned.get(kind)
        if known is None:
            sections = np.flatnonzero(self._kinds == kind.section_type)
            headers = self.elf.sections[sections]
            keys = headers["link"].astype(np.uint64) << np.uint64(32) | headers["info"].astype(np.uint64)
            order = np.argsort(keys, kind="stable")
            known = self._owned[kind] = keys[order], sections[order]
        return known

    def data_of(self, kind: Kind, owner: int) -> tuple[bytes, int] | None:
        """Bytes and address of a row's section of one kind; None if the dump has no such section."""
        section = self.section_of(kind, owner)
        if section is None:
            return None
        return self.elf.contents(section).tobytes(), int(self.elf.sections["addr"][section])

    def words_of(self, kind: Kind, owner: int) -> tuple[int, ...]:
        """A row's section of one kind as 32-bit words, empty if the dump has no such section."""
        found = self.data_of(kind, owner)
        if found is None:
            return ()
        return tuple(np.frombuffer(found[0][: len(found[0]) // 4 * 4], "<u4").tolist())

    def backtrace(self, lane: int) -> list[tuple[int, int]]:
        """(return address, its offset in the function) of a lane's calls, innermost first."""
        section = self.section_of(Kind.BACKTRACE, lane)
        if section is None:
            return []
        rows = self._read(Kind.BACKTRACE, np.array([section])).rows
        rows = rows[np.argsort(rows["level"], kind="stable")]
        return list(zip(rows["address"].tolist(), rows["offset"].tolist(), strict=True))

    def text(self, offset: int) -> str:
        """A string of the dump's string table."""
        return self.elf.text_at(self._strings, offset) if offset else ""

    @cached_property
    def _strings(self) -> int:
        tables = np.flatnonzero(self._kinds == _STRINGS)
        named = [int(index) for index in tables if self.elf.section_name(int(index)) == ".strtab"]
        return (named or [0])[0]

    def cubin(self, module: int) -> Cubin | None:
        """The relocated code of a module (a row of the module table); None if the dump does not have it."""
        if module not in self._cubins:
            section = self.section_of(Kind.RELOCATED_IMAGE, module)
            self._cubins[module] = None
            if section is not None:
                name = f"{self.path}: module {module}"
                try:
                    self._cubins[module] = Cubin(self.elf.contents(section), name)
                except ElfError as error:
                    self.elf.problems.append(f"the code of module {module} cannot be read: {error}")
        return self._cubins[module]

    def memory(self, address: int, size: int) -> bytes | None:
        """Global or managed memory of the dump; None if it was not written."""
        kinds = (Kind.GLOBAL.section_type, Kind.MANAGED.section_type)
        for section in np.flatnonzero(np.isin(self._kinds, kinds)):
            begin = int(self.elf.sections["addr"][section])
            if begin <= address and address + size <= begin + int(self.elf.sections["size"][section]):
                return self.elf.contents(int(section))[address - begin : address - begin + size].tobytes()
        return None


def _parent(kind: Kind) -> Kind:
    parent = TABLES[kind].parent
    assert parent is not None  # only tables with an owner are requested
    return parent


def _decompress(file: BinaryIO) -> tuple[Any, list[str]]:
    """Decompress a gzip file into an unnamed temporary file and map it; also return what was wrong with it."""
    import tempfile
    import zlib

    file.seek(0)
    problems: list[str] = []
    with tempfile.TemporaryFile(prefix="warpsight-core-") as out:
        unpack = zlib.decompressobj(wbits=31)
        try:
            while piece := file.read(_CHUNK):
                out.write(unpack.decompress(piece))
                while unpack.eof and unpack.unused_data:  # further members
                    rest, unpack = unpack.unused_data, zlib.decompressobj(wbits=31)
                    out.write(unpack.decompress(rest))
            if not unpack.eof:
                problems.append("its compressed data ends early: the file is truncated")
        except zlib.error as error:
            problems.append(f"its compressed data is damaged ({error}); what came before is used")
        out.flush()
        size = out.tell()
        if size < HEADER_SIZE:
            raise ElfError(
                f"{getattr(file, 'name', 'the file')}: {size} bytes are left of its compressed data"
            )
        return mmap.mmap(out.fileno(), size, access=mmap.ACCESS_READ), problems
