"""Where indirect branches of a kernel go: `EIATTR_INDIRECT_BRANCH_TARGETS` of its `.nv.info` section.

Entries of these sections have a format, an attribute and a 16-bit value or size, four bytes in all, then as many bytes as the
size says. The attribute holds, for each indirect branch, its offset, two 16-bit numbers, how many targets, and their offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from warpsight.device_code.cubin import Cubin

_SIZED, _INDIRECT_BRANCH_TARGETS = 4, 0x34


def indirect_targets(cubin: Cubin, kernel: str) -> dict[int, tuple[int, ...]]:
    """Offset of each indirect branch of a kernel and the offsets it can go to; what is damaged is left out."""
    section = cubin.elf.by_name.get(f".nv.info.{kernel}")
    if section is None:
        return {}
    found: dict[int, tuple[int, ...]] = {}
    for attribute, value in _attributes(cubin.elf.contents(section).tobytes()):
        if attribute == _INDIRECT_BRANCH_TARGETS:
            found.update(_targets(value))
    return found


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
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
