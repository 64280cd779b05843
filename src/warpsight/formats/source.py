"""One input of an import: a file, compressed or not, or a folder."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Protocol

from warpsight.formats.errors import FormatError
from warpsight.model.private_files import unreadable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_HEAD_BYTES = 65_536
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_READ_BYTES = 1 << 18
#: Traces of any tool decompress to 10 to 60 times their size. Anything beyond this limit is not a trace: it would fill memory or
#: disk (deflate can reach a thousand, zstd thirty thousand). Small files are exempt.
MOST_EXPANSION = 200
SMALL_BYTES = 64 << 20


class Source:
    """A file or folder to import; gzip and zstd are decompressed transparently (including several members or frames).

    A compressed file that ends early or is damaged in the middle gives the data up to there; then :attr:`truncated` is true and
    :attr:`damage` says where. Use it as a context manager: leaving it removes temporary copies.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Nothing is read yet.

        Raises:
            FormatError: when there is nothing at `path`, or neither a file nor a folder.
        """
        self.path = Path(path)
        self.name = os.fspath(path)
        #: The data was truncated.
        self.truncated = False
        #: Where and how it is damaged, as a clause; empty when it is not.
        self.damage = ""
        #: Bytes on disk that have been read, of readers that go through the file in order.
        self.taken = 0
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if not self.path.exists():
            raise FormatError(self.name, "there is no such file or folder")
        if problem := unreadable(self.path):
            raise FormatError(self.name, problem)

    @property
    def is_directory(self) -> bool:
        """Whether it is a folder, in which case `head` is empty and it cannot be opened."""
        return self.path.is_dir()

    @cached_property
    def compression(self) -> str:
        """`gzip`, `zstd`, or `` for none, by the file's first bytes."""
        if self.is_directory:
            return ""
        with self.path.open("rb") as file:
            magic = file.read(4)
        return "gzip" if magic[:2] == _GZIP else "zstd" if magic == _ZSTD else ""

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB, decompressed; fewer if the file is shorter."""
        if self.is_directory:
            return b""
        damaged = self.truncated, self.damage
        with self.open() as file:
            parts, size = [], 0
            while size < _HEAD_BYTES and (piece := file.read(_HEAD_BYTES - size)):
                parts.append(piece)
                size += len(piece)
        self.truncated, self.damage = damaged  # said when the reader gets there
        return b"".join(parts)

    @property
    def size(self) -> int:
        """Bytes on disk; for a folder, of all files below it."""
        if self.is_directory:
            return sum(f.stat().st_size for f in self.path.rglob("*") if f.is_file())
        return self.path.stat().st_size

    def open(self) -> IO[bytes]:
        """The uncompressed bytes from the start. Large reads are fast.

        Raises:
            FormatError: for a folder.
            OSError: when the file cannot be read.
        """
        if self.is_directory:
            raise FormatError(self.name, "is a folder where a file is expected")
        file = _Counted(self)
        if not self.compression:
            return io.BufferedReader(file, _READ_BYTES)
        decoder = _Gzip() if self.compression == "gzip" else _Zstd()
        return io.BufferedReader(_Decompressed(self, file, decoder), _READ_BYTES)

    def local(self) -> Path:
        """Path of an uncompressed file, for readers that seek or map: the file itself or a temporary copy."""
        if not self.compression:
            return self.path
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="warpsight-")  # mode 0700
            copy = Path(self._temporary.name) / (self.path.stem or "copy")
            with self.open() as file, copy.open("wb") as out:
                shutil.copyfileobj(file, out, 1 << 20)
        return Path(self._temporary.name) / (self.path.stem or "copy")

    def member(self, path: Path) -> Source:
        """A file of this folder as a source; it must be closed, too, unless it makes no copies."""
        return Source(path)

    def members(self, paths: Iterable[Path]) -> Iterator[Source]:
        """Files of this folder in sequence, each closed afterward; a truncated file also marks the folder as truncated."""
        for path in paths:
            with self.member(path) as member:
                yield member
                if member.truncated:
                    self.ended_early(f"{path.name}: {member.damage}")

    def error(self, problem: str, *, offset: int | None = None, line: int | None = None) -> FormatError:
        """The error to raise for this file."""
        return FormatError(self.name, problem, offset=offset, line=line)

    def ended_early(self, where: str) -> None:
        """Note that the data is incomplete: `where` is a clause such as `the JSON ends inside an event`."""
        self.truncated = True
        self.damage = self.damage or where

    def close(self) -> None:
        """Remove temporary copies."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Counted(io.FileIO):
    """The file of a source, which counts how far it has been read."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.path)
        self._source = source
        source.taken = 0

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = super().readinto(buffer) or 0
        self._source.taken += count
        return count

    def read(self, size: int | None = -1) -> bytes:
        return self._noted(super().read(-1 if size is None else size) or b"")

    def readall(self) -> bytes:
        return self._noted(super().readall() or b"")

    def _noted(self, data: bytes) -> bytes:
        self._source.taken += len(data)
        return data


class _Damaged(Exception):
    """The compressed data is damaged; `salvaged` was decoded before."""

    def __init__(self, problem: str, salvaged: bytes) -> None:
        super().__init__(problem)
        self.salvaged = salvaged


class _Decoder(Protocol):
    """Decompression across the ends of members and frames."""

    piece: int

    def feed(self, data: bytes) -> bytes:
        """The output for some input."""

    @property
    def complete(self) -> bool:
        """Whether the input so far ends where a member or frame ends."""


class _Gzip:
    #: Compressed bytes at a time: deflate expands at most a thousandfold, so the output stays small.
    piece = 65_536

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)
        self._fresh = True

    def feed(self, data: bytes) -> bytes:
        parts = []
        while data:
            before = self._stream.copy()
            try:
                parts.append(self._stream.decompress(data))
            except zlib.error as error:
                if self._fresh and (any(parts) or not data.strip(b"\0")):
                    return b"".join(parts)  # padding or a tail after whole members, as gzip itself allows
                raise _Damaged(str(error), b"".join([*parts, _slowly(before, data)])) from None
            self._fresh = False
            if not self._stream.eof:
                break
            data = self._stream.unused_data.lstrip(b"\0")
            self._stream, self._fresh = zlib.decompressobj(wbits=31), True
        return b"".join(parts)

    @property
    def complete(self) -> bool:
        return self._fresh


class _Zstd:
    #: A block of 128 KiB may be stored in four bytes.
    piece = 4096

    def __init__(self) -> None:
        import zstandard

        self._error: Any = zstandard.ZstdError
        self._make = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj
        self._stream: Any = self._make()
        self._fresh = True

    def feed(self, data: bytes) -> bytes:
        parts = []
        while data:
            try:
                parts.append(self._stream.decompress(data))
            except self._error as error:
                raise _Damaged(str(error), b"".join(parts)) from None
            self._fresh = False
            if not self._stream.eof:
                break
            data = self._stream.unused_data
            self._stream, self._fresh = self._make(), True
        return b"".join(parts)

    @property
    def complete(self) -> bool:
        return self._fresh


class _Inflating(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


def _slowly(stream: _Inflating, data: bytes) -> bytes:
    """The data that deflate yields before the damage: a failing call yields nothing, so the calls are small."""
    parts = []
    for first in range(0, len(data), 64):
        try:
            parts.append(stream.decompress(data[first : first + 64]))
        except zlib.error:
            break
    return b"".join(parts)


class _Decompressed(io.RawIOBase):
    """Reads through a decoder; damage ends the data and is reported to the source."""

    def __init__(self, source: Source, file: IO[bytes] | io.FileIO, decoder: _Decoder) -> None:
        self._source = source
        self._file = file
        self._decoder = decoder
        self._ready = memoryview(b"")
        self._taken = 0
        self._given = 0
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._ready and not self._ended:
            data = self._file.read(self._decoder.piece) or b""
            if not data:
                self._end("" if self._decoder.complete else "the compressed data ends early")
                break
            self._taken += len(data)
            try:
                self._ready = memoryview(self._decoder.feed(data))
            except _Damaged as error:
                self._ready = memoryview(error.salvaged)
                self._end(f"the compressed data is damaged before byte {self._taken:,} ({error})")
            self._given += len(self._ready)
            if self._given > max(SMALL_BYTES, MOST_EXPANSION * self._taken):
                raise self._source.error(
                    f"unpacks to more than {MOST_EXPANSION} times its size, which no trace does; if it is one, unpack it first"
                )
        room = memoryview(buffer).cast("B")
        count = min(len(room), len(self._ready))
        room[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _end(self, damage: str) -> None:
        self._ended = True
        if damage:
            self._source.ended_early(damage)

    def close(self) -> None:
        self._file.close()
        super().close()
