"""Fat binaries: what nvcc puts into a program for the driver, code of several architectures and PTX.

The layout is NVIDIA's and not documented; the fields here are those that programs of CUDA 11 to 13 have.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import zstandard

from warpsight.errors import WarpsightError

_FATBIN = 0xBA55ED50
_PTX, _CODE = 1, 2
_ZSTD, _LZ4 = 0x8000, 0x2000
#: Flags of code for one architecture or family alone, such as sm_90a.
_VARIANT = 0xF00000
#: Larger texts are no module's PTX.
_LARGEST = 256 << 20
_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+)", re.MULTILINE)


class FatbinError(WarpsightError):
    """A fat binary that is damaged, or something else."""


@dataclass(frozen=True)
class FatbinEntry:
    """One part of a fat binary.

    Attributes:
        kind: `ptx` or `code`; architecture: 90 for sm_90; content: decompressed; None if that failed.
        variant: 0, or a number for code that other architectures cannot run, such as that of sm_90a.
    """

    kind: str
    architecture: int
    content: bytes | None
    variant: int = 0


def entries(image: bytes) -> Iterator[FatbinEntry]:
    """The PTX and code in a fat binary (without its wrapper).

    Raises:
        FatbinError: when the image is not a fat binary, or ends early.
    """
    if len(image) < 16 or struct.unpack_from("<I", image)[0] != _FATBIN:
        raise FatbinError("not a fat binary")
    header, size = struct.unpack_from("<HQ", image, 6)
    at, end = header, header + size
    if end > len(image):
        raise FatbinError("the fat binary ends early")
    while at + 16 <= end:
        fields = struct.unpack_from("<HHIQ", image, at)
        kind, own, stored = fields[0], fields[2], fields[3]
        if own < 32 or at + own + stored > end:
            raise FatbinError("an entry of the fat binary ends early")
        architecture = struct.unpack_from("<I", image, at + 28)[0]
        content = image[at + own : at + own + stored]
        flags = 0
        if own >= 64:
            compressed, flags, whole = (
                struct.unpack_from("<I", image, at + 16)[0],
                struct.unpack_from("<Q", image, at + 40)[0],
                struct.unpack_from("<Q", image, at + 56)[0],
            )
            unpacked = _decompressed(content[:compressed] if compressed else content, flags, whole)
        else:
            unpacked = content
        if kind in (_PTX, _CODE):
            yield FatbinEntry("ptx" if kind == _PTX else "code", architecture, unpacked, flags & _VARIANT)
        at += own + stored


def _decompressed(content: bytes, flags: int, size: int) -> bytes | None:
    """None where the content is compressed in a way that is not known, or damaged."""
    if not flags & (_ZSTD | _LZ4):
        return content
    if not 0 < size <= _LARGEST:
        return None
    try:
        if flags & _ZSTD:
            return zstandard.ZstdDecompressor().decompress(content, max_output_size=size)
        unpacked: bytes = pa.Codec("lz4_raw").decompress(content, decompressed_size=size, asbytes=True)
        return unpacked
    except (zstandard.ZstdError, pa.ArrowException, OSError):
        return None


def ptx_for(image: bytes, architecture: int) -> str | None:
    """The PTX that stands for the code the driver would take from a module for a GPU; None if there is none.

    Where the module has code for the GPU, that is the PTX of the same architecture: PTX of an older one may leave out what
    the program does on newer ones.

    Args:
        image: the module as the driver is given it, as text or a fat binary without the wrapper that points to it.
        architecture: of the GPU, 90 for sm_90.
    """
    if image[:4] == struct.pack("<I", _FATBIN):
        text = _matching(list(entries(image)), architecture)
        if text is None:
            return None
    else:
        target = _TARGET.search(image)
        if target is None or int(target[1]) > architecture:
            return None
        text = image
    return text.rstrip(b"\0 ").decode("utf-8", "replace")


def _matching(parts: list[FatbinEntry], architecture: int) -> bytes | None:
    """The content of the one PTX that matches what the driver would choose; None for none or several."""
    usable = [
        part
        for part in parts
        if part.architecture <= architecture and (not part.variant or part.architecture == architecture)
    ]
    code = [part for part in usable if part.kind == "code" and part.architecture // 10 == architecture // 10]
    ptx = [part for part in usable if part.kind == "ptx"]
    if not code and not ptx:
        return None
    best = max((part.architecture, part.variant) for part in (code or ptx))
    found = [part for part in ptx if (part.architecture, part.variant) == best]
    several = sum((part.architecture, part.variant) == best for part in code) > 1
    return found[0].content if len(found) == 1 and not several else None
