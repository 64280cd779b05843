"""New private files and folders: they get their final name only when complete, and replace nothing unless asked to."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from warpsight.errors import WarpsightError
from warpsight.model import private_files
from warpsight.model.storage import manifest

#: Write errors that do not name the file.
_NO_ROOM = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


def check_free(path: Path, force: bool) -> None:
    """Check that a new file may be created at a path.

    Raises:
        WarpsightError: when the path exists without `force`, is not a file, or lies in a trace.
    """
    _check_outside(path)
    reason = private_files.unreplaceable(path)
    if reason:
        raise WarpsightError(f"{path} {reason}")
    if os.path.lexists(path) and not force:
        raise WarpsightError(f"{path} exists already; -f replaces it")


def _check_outside(path: Path) -> None:
    """Refuse a place in a trace's folder, whose own files could be replaced: copies and checks of it hold nothing else."""
    trace = manifest.around(path)
    if trace is not None:
        raise WarpsightError(
            f"{path} is in the trace {trace.name}, which holds its own files only: choose another folder"
        )


@contextmanager
def binary(path: Path, force: bool = False) -> Iterator[IO[bytes]]:
    """A new file of mode 0600 for bytes, removed if it is not completed.

    Raises:
        WarpsightError: when it exists without `force`, is a folder, or cannot be written. Links are never followed.
    """
    check_free(path, force)
    # A short name of its own, because the file's name may already have the maximum length.
    temporary = path.with_name(f".warpsight.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = private_files.create(temporary, new=True)
    except OSError as error:
        raise WarpsightError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with private_files.unfinished(temporary):
            with os.fdopen(descriptor, "wb", buffering=1 << 20) as file:
                yield file
            _place(temporary, path)
    except OSError as error:
        if error.errno in _NO_ROOM and not error.filename:
            raise WarpsightError(f"{path} cannot be written: {error.strerror}") from None
        raise


@contextmanager
def folder(path: Path, suffix: str, force: bool = False) -> Iterator[Path]:
    """A new folder of mode 0700 that gets its name once everything is in it.

    With `force` it replaces a folder that holds nothing but files whose names end with `suffix`; links are never followed, and
    nothing is written into a trace's folder.
    """
    import shutil
    import tempfile

    _check_outside(path)
    old = os.path.lexists(path)
    if old and not force:
        raise WarpsightError(f"{path} exists already; -f replaces it")
    if old and (path.is_symlink() or not path.is_dir()):
        raise WarpsightError(f"{path} is not a folder; it is left alone")
    if old and any(not file.name.endswith(suffix) for file in path.iterdir()):
        raise WarpsightError(f"{path} holds files other than *{suffix}; it is left alone")
    try:
        made = Path(tempfile.mkdtemp(prefix=".warpsight.", dir=path.parent))
    except OSError as error:
        raise WarpsightError(f"{path} cannot be written: {error.strerror}") from None
    with private_files.unfinished(made):
        yield made
        if old:
            shutil.rmtree(path)
        _place(made, path)


@contextmanager
def as_text(raw: IO[bytes]) -> Iterator[IO[str]]:
    """Text on top of a stream of bytes, which stays open."""
    import io

    wrapper = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
    try:
        yield wrapper
        wrapper.flush()
    finally:
        wrapper.detach()


def _place(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except OSError as error:
        raise WarpsightError(f"{path} cannot be written: {error.strerror}") from None
