"""Large JSON documents in pieces: the file is memory-mapped, and arrays are decoded piece by piece into typed records."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from warpsight.formats.source import Source

PIECE = 32_768
_BYTE = re.compile(r"\(byte (\d+)\)")
_Record = TypeVar("_Record")


@contextmanager
def mapped(source: Source) -> Iterator[memoryview]:
    """The bytes of a file (of a temporary copy if it is compressed), memory-mapped rather than read."""
    with source.local().open("rb") as file:
        if not file.seek(0, 2):
            raise source.error("is empty")
        area = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # Undecoded parts point into it, so it is unmapped when the last of them is gone rather than here.
        yield memoryview(area)


def decode(source: Source, data: bytes | memoryview, kind: type[_Record]) -> _Record:
    """Decode a document.

    Raises:
        FormatError: when it is damaged, with the byte, or when it has unexpected contents, with what was found.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        found = _BYTE.search(str(error))
        problem = _BYTE.sub("", str(error)).strip()
        raise source.error(
            f"is not the expected JSON: {problem}", offset=int(found[1]) if found else None
        ) from None


def records(source: Source, data: msgspec.Raw | None, kind: type[_Record]) -> Iterator[list[_Record]]:
    """An array as lists of at most :data:`PIECE` records; empty for an absent or null one."""
    if data is None or bytes(data) == b"null":
        return
    parts = decode(source, data, list[msgspec.Raw])
    decoder = msgspec.json.Decoder(kind)
    for first in range(0, len(parts), PIECE):
        try:
            yield [decoder.decode(part) for part in parts[first : first + PIECE]]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise source.error(f"a record is not as expected: {_BYTE.sub('', str(error)).strip()}") from None
