"""Images of modules before a driver loads them.

The driver is given only the start of an image and trusts its header for the end.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpsight.device_code.elf import HEADER_SIZE, Array, Elf, ElfError
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.checks import CapsuleError

_FATBIN = np.dtype([("magic", "<u4"), ("version", "<u2"), ("header", "<u2"), ("size", "<u8")])
_FATBIN_MAGIC = 0xBA55ED50
_WITHOUT_BYTES = (0, 8)  # SHT_NULL, SHT_NOBITS
_SEGMENT = np.dtype([("offset", "<u8"), ("address", "<u8", 2), ("size", "<u8")])
_SEGMENT_BYTES, _SEGMENT_SKIP = 56, 8


def check(capsule: Path, number: int, module: m.LoadedModule, image: Array) -> None:
    """Check that an image refers only to data inside itself.

    Raises:
        CapsuleError: when it refers to data outside itself.
    """
    problem = {"cubin": _cubin, "ptx": _ptx, "fatbin": _fatbin}[module.kind](image)
    if problem:
        raise CapsuleError(f"{capsule}: the code of module {number} is damaged or forged: {problem}")


def _cubin(image: Array) -> str:
    try:
        elf = Elf(image, "its image")
    except ElfError as error:
        return str(error)
    if elf.problems or not len(elf.sections):
        return elf.problems[0] if elf.problems else "it has no sections"
    held = elf.sections[~np.isin(elf.sections["type"], _WITHOUT_BYTES)]
    if _beyond(held["offset"], held["size"], len(image)):
        return "a section lies outside it"
    header = image[:HEADER_SIZE].tobytes()
    begin = int.from_bytes(header[32:40], "little")
    size, count = (int.from_bytes(header[at : at + 2], "little") for at in (54, 56))
    if not count:
        return ""
    if size != _SEGMENT_BYTES or begin > len(image) or count * size > len(image) - begin:
        return "its segments lie outside it"
    table = image[begin : begin + count * size].reshape(count, size)[:, _SEGMENT_SKIP:40]
    segments = np.ascontiguousarray(table).view(_SEGMENT)
    return "a segment lies outside it" if _beyond(segments["offset"], segments["size"], len(image)) else ""


def _beyond(offsets: Array, sizes: Array, end: int) -> bool:
    return bool(((offsets > end) | (sizes > end - np.minimum(offsets, end))).any())


def _ptx(image: Array) -> str:
    return "" if len(image) and image[-1] == 0 else "it does not end with a zero"


def _fatbin(image: Array) -> str:
    if len(image) < _FATBIN.itemsize:
        return "it is too short"
    head = np.frombuffer(image, _FATBIN, 1)[0]
    whole = int(head["header"]) + int(head["size"])
    return (
        ""
        if head["magic"] == _FATBIN_MAGIC and whole <= len(image)
        else "its header gives more bytes than it has"
    )
