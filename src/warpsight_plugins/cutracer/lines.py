"""Lines of an NDJSON file in large chunks, compressed or not; a truncated file is read up to the damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsight.formats.source import Source

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CHUNK_BYTES = 8 << 20
#: The first chunk: enough for the first records.
_FIRST_BYTES = 1 << 18
_NEWLINE, _BRACE = b"\n{"


@dataclass(frozen=True)
class Chunk:
    """Whole lines: `first` is the number of the first one, from 1."""

    data: bytes
    first: int
    #: The chunk's last line has no newline: the file ends there, perhaps inside a record.
    open_end: bool = False

    def ends(self) -> npt.NDArray[np.int64]:
        """Offset after each line, including its newline; blank lines belong to the next line."""
        import numpy as np

        content = np.frombuffer(self.data, np.uint8)
        found = np.flatnonzero(content == _NEWLINE) + 1
        if self.open_end:
            found = np.append(found, len(self.data))
        begins = np.concatenate([[0], found[:-1]])
        odd = np.flatnonzero(content[begins] != _BRACE) if len(found) else found
        blank = [place for place in odd.tolist() if not self.data[begins[place] : found[place]].strip()]
        return np.delete(found, blank)

    def line(self, place: int, ends: npt.NDArray[np.int64]) -> bytes:
        """A line by its place in the chunk, from 0."""
        return self.data[int(ends[place - 1]) if place else 0 : int(ends[place])]

    def numbers(self, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of each line in the file, from 1."""
        import numpy as np

        newlines = np.flatnonzero(np.frombuffer(self.data, np.uint8) == _NEWLINE)
        open_end = (ends == len(self.data)) & self.open_end
        numbers: npt.NDArray[np.int64] = (
            self.first + np.searchsorted(newlines, ends) - np.where(open_end, 0, 1)
        )
        return numbers

    def number(self, place: int, ends: npt.NDArray[np.int64]) -> int:
        """The number of one line in the file, from 1."""
        return int(self.numbers(ends[place : place + 1])[0])


def chunks(source: Source, size: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """The lines of a file in chunks of about `size` bytes; longer lines are kept whole."""
    rest: list[bytes] = []
    first = 1
    with source.open() as file:
        wanted = min(_FIRST_BYTES, size)
        while block := file.read(wanted):
            wanted = size
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
