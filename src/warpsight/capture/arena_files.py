"""Arenas as files in memory, which keep the rows that a killed recording had not written yet.

A recording has a folder in a tmpfs, and each recorded process makes its arena there. Whoever drains an arena to its end removes
it, so an arena that is left when launcher and program are gone holds rows that neither wrote. Arenas are not files on disk,
because a store into a mapped page that is being written back can wait for up to 18 ms.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from warpsight import _native
from warpsight.errors import TraceError

PREFIX = "warpsight-arenas-"
_MEMORY = Path("/dev/shm")
#: How long rows left by a killed recording stay in memory, for `recover`.
_KEPT_S = 24 * 3600


def create() -> Path | None:
    """Create a folder in memory that only this user can enter; None if that fails.

    Folders that nobody recovered within a day are removed.
    """
    _sweep(time.time() - _KEPT_S)
    try:
        return Path(tempfile.mkdtemp(prefix=PREFIX, dir=_MEMORY))
    except OSError:
        return None


def _sweep(before: float) -> None:
    """Remove this user's arenas that were created before a time (seconds since 1970) and are not used by any process."""
    with contextlib.suppress(OSError):
        for folder in _MEMORY.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                files = list(folder.iterdir()) if _ours(folder) else []
                old = all(file.lstat().st_mtime < before for file in files)
                if files and old and not any(users(folder)):  # an empty one may wait for its first process
                    shutil.rmtree(folder, ignore_errors=True)


def adopt(arenas: Path, raw: Path) -> int:
    """Write the remaining rows of a recording's arenas to its folder `raw`, remove the arenas, and return their number.

    If interrupted, it can be repeated: rows are written once, or twice in a way that readers detect.

    Raises:
        TraceError: when a process still uses one of them, or this installation cannot read them.
        OSError: when the rows cannot be written; they stay where they are.
    """
    if not _ours(arenas):
        return 0
    with _alone(arenas):
        for user in users(arenas):
            raise TraceError(f"{raw.parent} is still being written by process {user}, which outlived its launcher; "
                             "wait for it to end")  # fmt: skip
        found = sorted(arenas.iterdir())
        for file in found:
            _drain(file, raw / file.name)
            file.unlink(missing_ok=True)
        shutil.rmtree(arenas, ignore_errors=True)
    return len(found)


def users(arenas: Path) -> Iterator[int]:
    """Processes that have an arena of the folder mapped."""
    wanted = os.fsencode(arenas) + b"/"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(process.name) != os.getpid() and wanted in (process / "maps").read_bytes():
                yield int(process.name)


def _ours(arenas: Path) -> bool:
    """Whether a folder belongs to this module and this user, since a damaged recording might name any folder."""
    try:
        status = arenas.lstat()
    except (OSError, ValueError):  # a zero byte in the name
        return False
    return arenas.parent == _MEMORY and arenas.name.startswith(PREFIX) and status.st_uid == os.geteuid() \
        and arenas.is_dir() and not arenas.is_symlink()  # fmt: skip


@contextlib.contextmanager
def _alone(arenas: Path) -> Iterator[None]:
    """Lock out other processes from adopting the same arenas."""
    lock = os.open(arenas, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _drain(file: Path, folder: Path) -> None:
    try:
        library = _native.load()
    except (_native.NativeMissingError, OSError) as error:
        raise TraceError(f"the rows in {file} cannot be read: {error}") from None
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        number = -int(library.ws_drain_adopt(descriptor, os.fsencode(folder)))
        if number and number != errno.EINVAL:  # that: its process was killed while it made it
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)
