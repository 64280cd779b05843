"""The part of a file in memory: one reused buffer that needs no new pages."""

from __future__ import annotations

import mmap
import re
from contextlib import suppress
from typing import IO

_BLANKS = re.compile(rb"[ \t\r\n]*")


class ByteWindow:
    """A moving window over the bytes of a file; bytes before it are forgotten.

    Views of it change when more is read, so copy whatever is needed longer.
    """

    def __init__(self, file: IO[bytes]) -> None:
        """Nothing is read yet."""
        self._file = file
        self._area = _area(1 << 16)
        self._begin = 0
        self._end = 0
        #: End of file.
        self.ended = False
        #: Bytes of the file before the window.
        self.offset = 0

    def __len__(self) -> int:
        return self._end - self._begin

    def view(self, size: int | None = None) -> memoryview:
        """The first bytes, or all."""
        return memoryview(self._area)[self._begin : self._end if size is None else self._begin + size]

    def fill(self, size: int) -> None:
        """Append more of the file to the window."""
        held = len(self)
        if self._end + size > len(self._area):
            area = self._area if held + size <= len(self._area) else _area(held + size)
            memoryview(area)[:held] = self.view()
            self._area, self._begin, self._end = area, 0, held
        count: int = self._file.readinto(memoryview(self._area)[self._end : self._end + size])  # type: ignore[attr-defined]
        self.ended = not count
        self._end += count

    def advance(self, count: int) -> None:
        """Skip some bytes, at most all."""
        count = min(count, len(self))
        self._begin += count
        self.offset += count

    def skip_blanks(self) -> bytes:
        """Skip whitespace and return the next byte; empty at the end."""
        found = _BLANKS.match(self._area, self._begin, self._end)
        assert found is not None
        self.advance(found.end() - self._begin)
        return self._area[self._begin : min(self._begin + 1, self._end)]

    def starts_with(self, text: bytes) -> bool:
        """Whether the window begins with a string."""
        return bytes(self.view(min(len(text), len(self)))) == text

    def last(self, text: bytes, end: int | None = None) -> int:
        """The last occurrence of a string before `end`; -1 if there is none."""
        end = len(self) if end is None else end
        place = self._area.rfind(text, self._begin, self._begin + end)
        return place - self._begin if place >= 0 else -1

    def search(self, pattern: re.Pattern[bytes], begin: int = 0) -> tuple[int, int] | None:
        """The first match of a pattern from `begin` on."""
        found = pattern.search(self._area, self._begin + begin, self._end)
        return None if found is None else (found.start() - self._begin, found.end() - self._begin)

    def last_match(self, pattern: re.Pattern[bytes], begin: int, end: int) -> tuple[int, bytes] | None:
        """The last match of a pattern between two positions, and the matched text."""
        found = list(pattern.finditer(self._area, self._begin + begin, self._begin + end))
        return (found[-1].start() - self._begin, found[-1].group()) if found else None


def _area(size: int) -> mmap.mmap:
    """Uninitialized memory, on large pages where the system has some."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return mmap.mmap(-1, size)
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared pages are never large ones
    area = mmap.mmap(-1, size, flags=private)
    with suppress(OSError):  # a kernel without them
        area.madvise(mmap.MADV_HUGEPAGE)
    return area
