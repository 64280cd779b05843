"""Files mapped into a process: their symbols, and call frame information."""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.recorder.inspect import cfi

_LOAD, _EH_FRAME_HDR = 1, 0x6474E550
_SYMTAB, _DYNSYM = 2, 11
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)


@dataclass(frozen=True)
class Mapping:
    """An executable or first mapping of a file."""

    start: int
    end: int
    offset: int
    path: str
    executable: bool


def mappings(pid: int) -> list[Mapping]:
    """All mappings of a process, by address; empty if it is gone or not accessible."""
    found = []
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        parts = line.split(None, 5)
        start, _, end = parts[0].partition("-")
        found.append(
            Mapping(
                int(start, 16),
                int(end, 16),
                int(parts[2], 16),
                parts[5] if len(parts) > 5 else "",
                "x" in parts[1],
            )
        )
    return found


class ElfImage:
    """One ELF image: a file, or the bytes of the vdso.

    Raises:
        OSError, ValueError: when it cannot be read or is not a 64-bit ELF file.
    """

    def __init__(self, source: Path | bytes) -> None:
        if isinstance(source, bytes):
            self._data: Any = source
        else:
            with source.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._data[:5] != b"\x7fELF\x02":
            raise ValueError("not a 64-bit ELF file")
        (self._sections_at,) = struct.unpack_from("<Q", self._data, 40)
        (headers_at,) = struct.unpack_from("<Q", self._data, 32)
        size, count, _, self._sections = struct.unpack_from("<4H", self._data, 54)
        self._loads: list[tuple[int, int, int]] = []
        self._frames = (0, 0)
        self._rows: dict[int, cfi.UnwindRow] = {}
        for number in range(count):
            kind, _, offset, address, _, in_file, _, _ = struct.unpack_from(
                "<2I6Q", self._data, headers_at + number * size
            )
            if kind == _LOAD:
                self._loads.append((offset, address, in_file))
            elif kind == _EH_FRAME_HDR:
                self._frames = (address, in_file)

    def address_of(self, offset: int) -> int:
        """The virtual address at which a position in the file is loaded."""
        for start, address, size in self._loads:
            if start <= offset < start + size + 4096:
                return offset - start + address
        return offset

    def read(self, address: int, size: int) -> bytes:
        """Bytes at a virtual address, up to the end of the file's data."""
        for start, base, length in self._loads:
            if base <= address < base + length:
                at = start + address - base
                return bytes(self._data[at : min(at + size, start + length)])
        return b""

    @cached_property
    def _functions(self) -> tuple[npt.NDArray[Any], list[tuple[npt.NDArray[Any], bytes]]]:
        """Functions sorted by address, as (value, size, table, name offset), and the string tables."""
        rows, texts = [], []
        for number in range(self._sections):
            at = self._sections_at + number * 64
            (kind,) = struct.unpack_from("<I", self._data, at + 4)
            if kind not in (_SYMTAB, _DYNSYM):
                continue
            offset, size, link = struct.unpack_from("<QQI", self._data, at + 24)
            names_at, names_size = struct.unpack_from("<QQ", self._data, self._sections_at + link * 64 + 24)
            table = np.frombuffer(self._data, _SYMBOL, size // 24, offset)
            chosen = table[((table["info"] & 15) == 2) & (table["section"] != 0)]
            texts.append((chosen, bytes(self._data[names_at : names_at + names_size])))
            rows.append(
                (chosen["value"], chosen["size"], np.full(len(chosen), len(texts) - 1), chosen["name"])
            )
        if not rows:
            return np.zeros((0, 4), np.int64), []
        joined = np.stack([np.concatenate([r[i] for r in rows]).astype(np.int64) for i in range(4)], axis=1)
        return joined[np.argsort(joined[:, 0], kind="stable")], texts

    def function_at(self, address: int) -> str:
        """Name of the function that contains a virtual address; empty if the file does not have it."""
        rows, texts = self._functions
        last = int(np.searchsorted(rows[:, 0], address, side="right")) - 1
        for at in range(last, max(last - 8, -1), -1):
            value, size, table, name = rows[at].tolist()
            if value <= address < value + max(size, 1):
                names = texts[table][1]
                return str(names[name : names.index(b"\0", name)], "utf-8", "replace")
        return ""

    @cached_property
    def _table(self) -> tuple[list[int], list[int]]:
        """The search table of .eh_frame_hdr: starts of functions and their FDEs."""
        address, size = self._frames
        data = self.read(address, size)
        if (
            len(data) < 12 or data[:4] != b"\x01\x1b\x03\x3b"
        ):  # what linkers write: pcrel, udata4, datarel of four bytes
            return [], []
        # An encoded pointer to .eh_frame, of four bytes where linkers write it, and the number of pairs, likewise.
        count = struct.unpack_from("<I", data, 8)[0]
        pairs = (
            np.frombuffer(data, "<i4", min(count, (len(data) - 12) // 8) * 2, 12).astype(np.int64) + address
        )
        return pairs[0::2].tolist(), pairs[1::2].tolist()

    def row_at(self, pc: int) -> cfi.UnwindRow:
        """The unwinding rule for a virtual address of the file.

        Raises:
            CfiError: when the file has none.
        """
        if pc not in self._rows:  # threads have most of their frames in common
            starts, places = self._table
            at = bisect_right(starts, pc) - 1
            if at < 0:
                raise cfi.CfiError("no frame information")
            fde = self._entry(places[at])
            (back,) = struct.unpack_from("<i", fde, 4)
            self._rows[pc] = cfi.row_at(self._entry(places[at] + 4 - back), fde, places[at], pc)
        return self._rows[pc]

    def _entry(self, place: int) -> bytes:
        """An entry of .eh_frame with its length."""
        (length,) = struct.unpack("<I", self.read(place, 4))
        return self.read(place, 4 + length)
