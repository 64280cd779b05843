"""One file of a trace: a zip whose members are stored, not deflated (Parquet is compressed already)."""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from warpsight.errors import TraceError
from warpsight.model import manifest, private_files

SUFFIX = ".warp.zip"
#: One date for every member, so that equal traces give equal files.
_DATE = (1980, 1, 1, 0, 0, 0)


def pack(folder: Path, target: Path, *, force: bool = False) -> int:
    """Write the trace in `folder` to the file `target`, mode 0600, and return its size.

    Raises:
        TraceError: when `folder` is not a finished trace, or `target` exists and `force` is not set.
        OSError: when the file cannot be written; nothing is left behind.
    """
    manifest.read(folder)
    if not force and os.path.lexists(target):
        raise TraceError(f"{target} exists already; -f replaces it")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        descriptor = private_files.create(temporary, new=True)
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for path in _files(folder):
                member = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _DATE)
                member.external_attr = (stat.S_IFREG | 0o600) << 16
                with path.open("rb") as source, archive.open(member, "w", force_zip64=True) as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return target.stat().st_size


def _files(folder: Path) -> list[Path]:
    """The trace's own files: the manifest first, then every part, then the code that `--cubins` kept."""
    parts = sorted(
        path for path in folder.rglob("*.parquet") if path.is_file() and not path.name.startswith(".")
    )
    cubins = sorted((folder / "cubins").glob("*.cubin"))
    return [folder / manifest.FILE, *parts, *cubins]


def unpack(archive: Path, target: Path, *, force: bool = False) -> Path:
    """Unpack a packed trace into the new folder `target`, checking every member's checksum.

    Raises:
        TraceError: when it is no packed trace, is damaged, has a member that would be written elsewhere, or
        `target`
            exists (with `force` a trace there is replaced, anything else is left alone).
    """
    if os.path.lexists(target):
        if not force:
            raise TraceError(f"{target} exists already; -f replaces it")
        manifest.read(target)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        _extract(archive, scratch)
        if target.is_dir():
            shutil.rmtree(target)
        scratch.rename(target)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, FileExistsError, zlib.error) as error:
        raise TraceError(f"{archive} is damaged or not a packed trace: {error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _extract(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        members = [_safe(archive, member) for member in file.infolist() if not member.is_dir()]
        if manifest.FILE not in {member.filename for member in members}:
            raise TraceError(f"{archive} is not a packed trace: it has no {manifest.FILE}")
        target.mkdir(mode=0o700, parents=True)
        for member in members:
            path = target / member.filename
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = private_files.create(path, new=True)
            with file.open(member) as source, os.fdopen(descriptor, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def _safe(archive: Path, member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The member when it is a stored plain file below the root."""
    name = PurePosixPath(member.filename)
    mode = member.external_attr >> 16
    unsafe = name.is_absolute() or ".." in name.parts or "\\" in member.filename or ":" in member.filename
    if unsafe or (mode and not stat.S_ISREG(mode)):
        raise TraceError(f"{archive} holds an unsafe member name: {member.filename!r}")
    if member.compress_type != zipfile.ZIP_STORED:
        raise TraceError(
            f"{archive} is not a packed trace: {member.filename} is compressed; `warpsight pack` stores"
        )
    return member
