"""Reading and writing capsules: a folder with `capsule.json`, its hash in `capsule.sha256`, and `blobs/HASH.zst`.

Contents are cut into chunks, named by the SHA-256 of their bytes and compressed with Zstandard, so equal chunks (before and
after, two buffers of zeros) are stored once. :class:`Capsule` checks the manifest when it is opened and every chunk when it is
read. A capsule is a program: checks keep out damage and forged numbers, but do not make a stranger's kernel harmless.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import zstandard

from warpsight.errors import WarpsightError
from warpsight.model import private_files
from warpsight.replay.capsule import checks
from warpsight.replay.capsule.checks import CapsuleError, chunk_sizes
from warpsight.replay.capsule.manifest import CHUNK_LIMIT, FORMAT, VERSION, Manifest

MANIFEST = "capsule.json"
CHECKSUM = "capsule.sha256"
_BLOBS = "blobs"
_MANIFEST_LIMIT = 256 << 20
_FRAME_HEADER = 18  # bytes of a Zstandard frame header at most
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_NO_BLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe in a file's place is refused at once


class Capsule:
    """An open capsule: the manifest is checked on opening, and each chunk on reading.

    Attributes:
        path: the folder. manifest: what it holds. blobs: bytes of each chunk, uncompressed, by hash.
    """

    def __init__(self, path: Path, manifest: Manifest, blobs: dict[str, int]) -> None:
        self.path = path
        self.manifest = manifest
        self.blobs = blobs

    @classmethod
    def open(cls, path: Path) -> Capsule:
        """Open a capsule and check its manifest, and that each chunk exists within its size limit.

        Raises:
            CapsuleError: when it is not a capsule, or is damaged, hostile or of a newer version.
        """
        try:
            text = _read(path / MANIFEST, _MANIFEST_LIMIT)
            version = msgspec.json.decode(text, type=_Version)
            if version.format != FORMAT:
                raise CapsuleError("it is not a capsule")
            if version.version > VERSION:
                raise CapsuleError(
                    f"its version {version.version} is newer than {VERSION}: upgrade warpsight"
                )
            if (path / _BLOBS).is_symlink():
                raise CapsuleError(f"{_BLOBS} is a link")
            manifest = msgspec.json.decode(text, type=Manifest)
            checks.check(manifest)
            capsule = cls(path, manifest, checks.blobs(manifest))
            for chunk, size in capsule.blobs.items():
                capsule._check_file(chunk, size)
            if _read(path / CHECKSUM, 1024) != _checksum(text):
                raise CapsuleError(f"{MANIFEST} does not match {CHECKSUM}")
        except CapsuleError as error:
            raise CapsuleError(f"{path}: {error}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            # The decoder quotes unexpected input verbatim.
            said = "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(error))
            raise CapsuleError(f"{path}: {MANIFEST} is damaged: {said}") from None
        except (FileNotFoundError, NotADirectoryError):
            made = "make one with: warpsight capsule record -- PROGRAM"
            raise CapsuleError(
                f"{path}: {'not a capsule' if path.exists() else 'does not exist'}; {made}"
            ) from None
        except OSError as error:
            raise CapsuleError(f"{path}: not a capsule: {error.strerror or error}") from None
        return capsule

    def chunk(self, name: str) -> bytes:
        """The bytes of a chunk, checked against its hash.

        Raises:
            CapsuleError: when it is missing or damaged.
        """
        size = self.blobs[name]
        try:
            packed = _read(self._file(name), _packed_limit(size))
            if zstandard.get_frame_parameters(packed).content_size != size:  # changed since it was opened
                raise CapsuleError(f"{self.path}: chunk {name} is not {size} bytes long")
            data = zstandard.ZstdDecompressor(max_window_size=2 * CHUNK_LIMIT).decompress(
                packed, max_output_size=size, allow_extra_data=False
            )
        except zstandard.ZstdError as error:
            raise CapsuleError(f"{self.path}: chunk {name} is damaged: {error}") from None
        except OSError as error:
            raise CapsuleError(f"{self.path}: chunk {name}: {error.strerror or error}") from None
        if hashlib.sha256(data).hexdigest() != name:
            raise CapsuleError(f"{self.path}: chunk {name} does not hold the bytes that its name says")
        return data

    def chunks(self, contents: Sequence[str]) -> Iterator[bytes]:
        """The checked chunks of contents in sequence."""
        return (self.chunk(name) for name in contents)

    def bytes_of(self, contents: Sequence[str]) -> bytes:
        """All bytes of contents, for images and small memory; use :meth:`chunks` for large memory."""
        return b"".join(self.chunks(contents))

    def verify(self) -> None:
        """Read and check every chunk.

        Raises:
            CapsuleError: at the first missing or damaged chunk.
        """
        for name in self.blobs:
            self.chunk(name)

    def check_room(self, needed: int, folder: Path, remedy: str) -> None:
        """Check that a disk has space for this many bytes: small files may become large once decompressed.

        Raises:
            WarpsightError: when there is not enough space.
        """
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise WarpsightError(
                f"{self.path}: this needs {needed:,} bytes in {folder}, which has {free:,} left: {remedy}"
            )

    def packed_bytes(self) -> int:
        """Bytes of the capsule's files."""
        files = [self.path / MANIFEST, self.path / CHECKSUM, *(self._file(name) for name in self.blobs)]
        return sum(file.stat().st_size for file in files)

    def _file(self, name: str) -> Path:
        return self.path / _BLOBS / f"{name}.zst"

    def _check_file(self, name: str, size: int) -> None:
        """Check that a chunk is a file whose size matches `size` bytes."""
        try:
            head = _read(self._file(name), _packed_limit(size), most=_FRAME_HEADER)
            if zstandard.get_frame_parameters(head).content_size != size:
                raise CapsuleError(f"chunk {name} is not {size} bytes long")
        except zstandard.ZstdError as error:
            raise CapsuleError(f"chunk {name} is damaged: {error}") from None
        except OSError as error:
            raise CapsuleError(f"chunk {name}: {error.strerror or error}") from None


class Writer:
    """Writes a capsule to a temporary folder and moves it into place once it is complete.

    Args:
        path: the new folder. chunk_bytes: size of the chunks of contents. replace: whether to replace an existing capsule.

    Raises:
        WarpsightError: when `path` exists and may not be replaced, or the folder cannot be created.
    """

    def __init__(
        self, path: Path, *, chunk_bytes: int = 1 << 20, replace: bool = False, level: int = 3
    ) -> None:
        self.path = path
        self.chunk_bytes = chunk_bytes
        self._replace = replace
        self._level = level
        self._written: set[str] = set()
        check_place(path, replace=replace)
        try:
            parent = path.absolute().parent
            self._folder = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=parent))
            (self._folder / _BLOBS).mkdir(mode=0o700)
        except OSError as error:
            raise WarpsightError(f"{path}: {error.strerror or error}") from None

    def put(self, data: bytes | memoryview) -> list[str]:
        """Add contents of any length and return the hashes of their chunks."""
        view = memoryview(data).cast("B")
        names, at = [], 0
        for size in chunk_sizes(len(view), self.chunk_bytes):
            names.append(self.put_chunk(view[at : at + size]))
            at += size
        return names

    def put_chunk(self, data: bytes | memoryview) -> str:
        """Add one chunk of at most `chunk_bytes` bytes and return its hash. Several threads may call it."""
        name = hashlib.sha256(data).hexdigest()
        if name in self._written:
            return name
        packed = zstandard.ZstdCompressor(level=self._level, write_content_size=True).compress(data)
        try:
            file = private_files.create(self._folder / _BLOBS / f"{name}.zst", new=True)
        except FileExistsError:  # another thread is at it
            return name
        with os.fdopen(file, "wb") as out:
            out.write(packed)
        self._written.add(name)
        return name

    def finish(self, manifest: Manifest) -> Capsule:
        """Write the manifest, move the capsule to its place and open it, checks included."""
        checks.check(manifest)
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        for name, data in ((MANIFEST, text), (CHECKSUM, _checksum(text))):
            with os.fdopen(private_files.create(self._folder / name, new=True), "wb") as out:
                out.write(data)
        check_place(self.path, replace=self._replace)
        if self.path.exists():
            shutil.rmtree(self.path)
        os.rename(self._folder, self.path)
        return Capsule.open(self.path)

    def abandon(self) -> None:
        """Remove everything written so far."""
        shutil.rmtree(self._folder, ignore_errors=True)


def check_place(path: Path, *, replace: bool) -> None:
    """Check that a capsule can be written to `path`.

    Raises:
        WarpsightError: when the parent folder does not exist, or `path` exists and is not a capsule or `replace` is not set.
    """
    if not path.absolute().parent.is_dir():
        raise WarpsightError(f"{path}: there is no folder {path.parent}")
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not (path / MANIFEST).is_file():
        raise WarpsightError(f"{path} exists and is not a capsule: choose another name with -o")
    if not replace:
        raise WarpsightError(f"{path} exists: replace it with -f, or choose another name with -o")


class _Version(msgspec.Struct):
    format: str
    version: int


def _checksum(manifest: bytes) -> bytes:
    """As `sha256sum` writes it."""
    return f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n".encode()


def _packed_limit(size: int) -> int:
    return size + size // 128 + 1024


def _read(path: Path, limit: int, *, most: int = -1) -> bytes:
    """The bytes (`most`: only this many from the start) of a regular file that is not a link and within its size limit."""
    with os.fdopen(os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_BLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            raise CapsuleError(f"{path.name} is not a file of at most {limit} bytes")
        return file.read(limit if most < 0 else most)
