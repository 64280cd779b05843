"""Making files that only their owner reads, on every system."""

from __future__ import annotations

import os
import shutil
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsight.errors import TraceError

#: Never follow links, where the system supports that; write bytes unchanged, where it would convert line ends.
_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def unreplaceable(path: Path) -> str:
    """Why a new file must not replace an existing one, or empty. Root could otherwise replace /dev/null by a file."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return ""
    if stat.S_ISDIR(mode):
        return "is a folder"
    return "" if stat.S_ISREG(mode) else "is a device or a pipe, which no file replaces"


def unreadable(path: str | os.PathLike[str]) -> str:
    """Why nothing can be read from a path, or empty. Opening a pipe waits for its writer, and a device may never end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    regular = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return "" if regular else "is a pipe, a socket or a device: write what comes out of it to a file first"


def no_file(path: str | os.PathLike[str]) -> str:
    """Why a path is not a file that can be read, or empty."""
    if not os.path.exists(path):
        return "there is no such file"
    return "is a folder" if os.path.isdir(path) else unreadable(path)


def check_plain(root: Path) -> None:
    """Refuse links, pipes and devices below a folder, so that nothing outside it is read, written or removed.

    Raises:
        TraceError: when there is one; the message names the first.
    """
    for folder, folders, files in os.walk(root.resolve()):
        for path in (os.path.join(folder, name) for name in (*folders, *files)):
            mode = os.lstat(path).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                kind = "a link" if stat.S_ISLNK(mode) else "a pipe, a socket or a device"
                raise TraceError(
                    f"{path} is {kind}, which does not belong in a trace or recording; remove it first"
                )


def create(path: Path, *, new: bool) -> int:
    """Open a file for writing and return its descriptor. The file is empty, with mode 0600 if it is new.

    Args:
        path: the file.
        new: whether it must not exist yet; otherwise an existing file is emptied.

    Raises:
        OSError: when it cannot be made, exists although it must not, or is a link.
    """
    return os.open(path, _FLAGS | (os.O_EXCL if new else os.O_TRUNC), 0o600)


def keep(path: Path) -> None:
    """Wait until a written file would survive a power failure.

    Raises:
        OSError: when it cannot be written to the disk.
    """
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def unfinished(path: Path) -> Iterator[None]:
    """Remove the file or folder unless the block completes, even where Ctrl-C ends the process while other threads compute."""
    anchor: set[None] = set()
    remove = weakref.finalize(anchor, _remove, path)
    try:
        yield
    except BaseException:
        remove()
        raise
    remove.detach()


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder
        shutil.rmtree(path, ignore_errors=True)
