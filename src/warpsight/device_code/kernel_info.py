"""Facts about kernels from `.nv.info` sections of a cubin: registers per thread, parameters, targets of indirect branches.

Entries have a format, an attribute and a 16-bit value or size, four bytes in all, then as many bytes as the size says.
`EIATTR_REGCOUNT` holds a symbol and a number. `EIATTR_INDIRECT_BRANCH_TARGETS` holds, for each indirect branch, its offset,
two 16-bit numbers, how many targets, and their offsets. `EIATTR_KPARAM_INFO` holds, for each parameter, an index, its 16-bit
ordinal and offset, and a word whose upper 14 bits are its size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from warpsight.device_code.cubin import Cubin

_SIZED, _PARAMETER, _REGISTERS, _INDIRECT_BRANCH_TARGETS = 4, 0x17, 0x2F, 0x34


def register_count(cubin: Cubin, section: int) -> int:
    """Registers per thread of the kernel in a section; 0 if the cubin does not say."""
    for attribute, value in _attributes(cubin, ".nv.info"):
        if attribute == _REGISTERS and len(value) >= 8:
            symbol, count = struct.unpack_from("<II", value)
            if symbol < len(cubin.elf.symbols) and int(cubin.elf.symbols["shndx"][symbol]) == section:
                return int(count)
    return int(cubin.elf.sections["info"][section]) >> 24  # before CUDA 13


def parameters(cubin: Cubin, kernel: str) -> tuple[tuple[int, int], ...]:
    """Offset and size in bytes of each parameter of a kernel."""
    found = []
    for attribute, value in _attributes(cubin, f".nv.info.{kernel}"):
        if attribute == _PARAMETER and len(value) >= 12:
            _, _, offset, word = struct.unpack_from("<IHHI", value)
            found.append((offset, word >> 18))
    return tuple(sorted(found))


def indirect_targets(cubin: Cubin, kernel: str) -> dict[int, tuple[int, ...]]:
    """Offset of each indirect branch of a kernel and its possible targets, without damaged entries."""
    found: dict[int, tuple[int, ...]] = {}
    for attribute, value in _attributes(cubin, f".nv.info.{kernel}"):
        if attribute == _INDIRECT_BRANCH_TARGETS:
            found.update(_targets(value))
    return found


def _attributes(cubin: Cubin, name: str) -> Iterator[tuple[int, bytes]]:
    """Attributes with a size, and their values."""
    section = cubin.elf.by_name.get(name)
    data = cubin.elf.contents(section).tobytes() if section is not None else b""
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            yield attribute, data[at : at + size]
            at += size


def _targets(value: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    at = 0
    while at + 12 <= len(value):
        branch, _, _, count = struct.unpack_from("<IHHI", value, at)
        at += 12
        if at + 4 * count > len(value):
            return
        yield branch, struct.unpack_from(f"<{count}I", value, at)
        at += 4 * count
