"""Lines of an NDJSON file in large chunks, compressed or not; what a hang or a kill left of it is taken as far as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsight.formats.source import Source

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CHUNK_BYTES = 8 << 20


@dataclass(frozen=True)
class Chunk:
    """Whole lines: `first` is the number of the first one, from 1."""

    data: bytes
    first: int
    #: The chunk's last line has no newline: the file ends there, perhaps inside a record.
    open_end: bool = False

    @property
    def lines(self) -> int:
        """How many lines."""
        return self.data.count(b"\n") + self.open_end

    def ends(self) -> npt.NDArray[np.int64]:
        """Offset behind each line, its newline included."""
        import numpy as np

        found = np.flatnonzero(np.frombuffer(self.data, np.uint8) == 10) + 1
        return np.append(found, len(self.data)) if self.open_end else found

    def line(self, number: int, ends: npt.NDArray[np.int64]) -> bytes:
        """A line by its place in the chunk, from 0."""
        return self.data[int(ends[number - 1]) if number else 0 : int(ends[number])]


def chunks(source: Source, size: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """The lines of a file, about `size` bytes at a time (a longer line comes whole)."""
    rest: list[bytes] = []
    first = 1
    with source.open() as file:
        while block := file.read(size):
            cut = block.rfind(b"\n") + 1
            if not cut:
                rest.append(block)
                continue
            data = b"".join([*rest, block[:cut]])
            rest = [block[cut:]]
            yield Chunk(data, first)
            first += data.count(b"\n")
    if last := b"".join(rest):
        yield Chunk(last, first, open_end=True)
