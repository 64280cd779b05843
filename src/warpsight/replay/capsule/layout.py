"""The memory of a capsule as a replay lays it out: ranges to reserve, and pieces with contents.

Allocations share the driver's granules of 2 MiB, so ranges are rounded outwards and joined. Contents are in the capsule's chunks.
Offsets are into the data file, which holds every chunk once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.checks import chunk_sizes, extent
from warpsight.replay.capsule.store import Capsule

NONE = 2**64 - 1

_MAPPING = np.dtype([("address", "<u8"), ("size", "<u8"), ("kind", "<u4"), ("unused", "<u4")])
PIECE = np.dtype([("address", "<u8"), ("size", "<u8"), ("before", "<u8"), ("after", "<u8")])
_DEVICE, _PINNED = 0, 1


@dataclass
class DataFile:
    """Contents in sequence, each chunk stored once; `chunks`: offset of each."""

    file: BinaryIO
    capsule: Capsule
    chunks: dict[str, int]
    size: int = 0
    _zeros: tuple[int, int] = (0, 0)

    def add(self, contents: Sequence[str]) -> list[int]:
        """Write the chunks that are not in the file yet, after checking them, and return the offset of each."""
        for name in contents:
            if name not in self.chunks:
                self.chunks[name] = self.append(self.capsule.chunk(name))
        return [self.chunks[name] for name in contents]

    def append(self, data: bytes) -> int:
        """Write bytes at the next multiple of 64 and return their offset."""
        self.file.write(bytes(-self.size % 64))
        self.size += -self.size % 64
        offset = self.size
        self.file.write(data)
        self.size += len(data)
        return offset

    def zeros(self, size: int) -> int:
        """The offset of a shared region of zeros that takes no disk space."""
        if size > self._zeros[1]:
            self._zeros = (self.append(b""), size)
            self.file.truncate(self.size + size)
            self.file.seek(0, 2)
            self.size += size
        return self._zeros[0]

    def joined(self, contents: Sequence[str]) -> int:
        """Write all contents in one piece, whatever their size."""
        offset = self.append(b"")
        for chunk in self.capsule.chunks(contents):
            self.file.write(chunk)
            self.size += len(chunk)
        return offset


def mappings(allocations: Sequence[m.Allocation]) -> npt.NDArray[np.void]:
    """Ranges to reserve, by address: granules of device memory, pages of pinned host memory."""
    found: list[tuple[int, int, int]] = []
    for allocation in allocations:
        kind = _PINNED if allocation.kind == "host" else _DEVICE
        start, end = extent(allocation)
        if found and start <= found[-1][1] and kind == found[-1][2]:
            found[-1] = (found[-1][0], max(end, found[-1][1]), kind)
        else:
            found.append((start, end, kind))
    return np.array([(start, end - start, kind, 0) for start, end, kind in found], _MAPPING)


def pieces(
    capsule: Capsule, data: DataFile, compared: bool
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.int64]]:
    """Every chunk of every allocation by address, and the allocation that each belongs to.

    `compared` says whether the contents after the last operation should match the recording.
    """
    rows: list[tuple[int, int, int, int]] = []
    owners: list[int] = []
    for index, allocation in enumerate(capsule.manifest.allocations):
        sizes = chunk_sizes(allocation.size, capsule.manifest.chunk_bytes)
        nothing = [NONE] * len(sizes)
        before = nothing if allocation.before is None else data.add(allocation.before)
        after = data.add(allocation.after) if compared and allocation.after is not None else nothing
        address = allocation.address
        for size, was, becomes in zip(sizes, before, after, strict=True):
            rows.append((address, size, was, becomes))
            owners.append(index)
            address += size
    return np.array(rows, PIECE), np.array(owners, np.int64)
