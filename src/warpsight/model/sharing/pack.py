"""One file of a trace: a zip whose members are stored, not deflated (Parquet is compressed already)."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from warpsight.errors import TraceError
from warpsight.model import private_files
from warpsight.model.storage import manifest

SUFFIX = ".warp.zip"
#: Parquet packs a recording's rows to between a tenth and a twentieth of their size in memory, zip to almost a tenth again.
#: Anything larger is not a trace, unless it is small.
_MOST_EXPANSION = 200
_SMALL_BYTES, _SMALL_DECODED = 64 << 20, 256 << 20
#: Bytes of a value in memory.
_VALUE_BYTES = 8
_ENCRYPTED = 1
#: One date for all members, so that equal traces give identical files.
_DATE = (1980, 1, 1, 0, 0, 0)


def pack(folder: Path, target: Path, *, force: bool = False) -> int:
    """Write the trace in `folder`, without secrets, to the file `target`, mode 0600, and return its size.

    Raises:
        TraceError: when `folder` is not a finished trace or holds links, or `target` exists and `force` is not set.
        OSError: when the file cannot be written; nothing is left behind.
    """
    from warpsight.model.sharing.shared import without_secrets

    if reason := private_files.unreadable(folder):
        raise TraceError(f"{folder} {reason}")
    if zipfile.is_zipfile(folder):
        raise TraceError(f"{folder} is one file already; --unpack makes a folder of it")
    manifest.read(folder)
    private_files.check_plain(folder)
    if reason := private_files.unreplaceable(target):
        raise TraceError(f"{target} {reason}")
    if trace := manifest.around(target):
        raise TraceError(
            f"{target} is in the trace {trace.name}, which holds its own files only: choose another folder"
        )
    if not force and os.path.lexists(target):
        raise TraceError(f"{target} exists already; -f replaces it")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with private_files.unfinished(temporary):
        with tempfile.TemporaryDirectory(prefix="warpsight-") as scratch:  # mode 0700
            instead, content = without_secrets(folder, Path(scratch))
            if content != manifest.read(folder):
                instead[folder / manifest.FILE] = Path(scratch) / manifest.FILE
                manifest.write_json(instead[folder / manifest.FILE], content)
            _write(temporary, folder, instead)
        temporary.replace(target)
    return target.stat().st_size


def _write(target: Path, folder: Path, instead: Mapping[Path, Path]) -> None:
    """Write the archive; `instead` names replacements for some files."""
    descriptor = private_files.create(target, new=True)
    with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path in _files(folder):
            member = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _DATE)
            member.external_attr = (stat.S_IFREG | 0o600) << 16
            with (
                instead.get(path, path).open("rb") as source,
                archive.open(member, "w", force_zip64=True) as sink,
            ):
                shutil.copyfileobj(source, sink, 1 << 20)


def _files(folder: Path) -> list[Path]:
    """The trace's own files: the manifest first, then every part, then the code that `--cubins` kept."""
    parts = sorted(
        path for path in folder.rglob("*.parquet") if path.is_file() and not path.name.startswith(".")
    )
    cubins = sorted((folder / "cubins").glob("*.cubin"))
    return [folder / manifest.FILE, *parts, *cubins]


def unpack(archive: Path, target: Path, *, force: bool = False) -> Path:
    """Unpack a packed trace into the new folder `target`, checking every member's checksum; other tools' zips of a folder too.

    Raises:
        TraceError: when it is not a packed trace or damaged, has a member that would be written elsewhere, takes more disk or
            memory than any trace does, or `target` exists (with `force` a trace there is replaced, anything else is left alone).
    """
    if reason := private_files.unreadable(archive):
        raise TraceError(f"{archive} {reason}")
    if os.path.lexists(target):
        if not force:
            raise TraceError(f"{target} exists already; -f replaces it")
        manifest.read(target)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with private_files.unfinished(scratch):
            _extract(archive, scratch)
            _check_rows(archive, scratch)
            if target.is_dir():
                shutil.rmtree(target)
            scratch.rename(target)
    except (
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        FileExistsError,
        RuntimeError,
        zlib.error,
    ) as error:
        raise TraceError(f"{archive} is damaged or not a packed trace: {error}") from None
    return target


def is_packed(path: Path) -> bool:
    """Whether a file is a zip with a trace in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(_roots(archive.namelist()))
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return False


def _extract(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        members = {_name(archive, member): member for member in file.infolist() if _is_of_trace(member)}
        roots = _roots(members)
        if len(roots) != 1:
            found = (
                "holds several traces: unpack it and name one"
                if roots
                else f"is not a packed trace: it has no {manifest.FILE}"
            )
            raise TraceError(f"{archive} {found}")
        _check_size(archive, sum(member.file_size for member in members.values()))
        target.mkdir(mode=0o700, parents=True)
        for name, member in members.items():
            if not name.startswith(roots[0]):
                continue
            path = target / name.removeprefix(roots[0])
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = private_files.create(path, new=True)
            with file.open(member) as source, os.fdopen(descriptor, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def _roots(names: Iterable[str]) -> list[str]:
    """Folders of an archive that are traces: its root in a file that `pack` made, one folder in those of other tools."""
    return [
        name.removesuffix(manifest.FILE)
        for name in names
        if re.fullmatch(rf"(?:[^/]+/){{0,2}}{re.escape(manifest.FILE)}", name)
    ]


def _is_of_trace(member: zipfile.ZipInfo) -> bool:
    """Whether a member belongs to the trace, rather than to a file manager."""
    parts = PurePosixPath(member.filename).parts
    litter = "__MACOSX" in parts or (
        parts and (parts[-1].startswith("._") or parts[-1] in (".DS_Store", "Thumbs.db", "desktop.ini"))
    )
    folder = member.filename.endswith("/")  # is_dir() fails on a name that damage has emptied
    return not folder and not litter


def _name(archive: Path, member: zipfile.ZipInfo) -> str:
    """The name of a plain file below the archive's root that can be unpacked."""
    name = PurePosixPath(member.filename)
    mode = member.external_attr >> 16
    outside = name.is_absolute() or ".." in name.parts or "\\" in member.filename or ":" in member.filename
    unsafe = outside or not name.parts
    if unsafe or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
        raise TraceError(f"{archive} holds an unsafe member name: {member.filename!r}")
    if member.flag_bits & _ENCRYPTED:
        raise TraceError(f"{archive} is encrypted: unpack it first")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise TraceError(
            f"{archive} is compressed in a way that cannot be read ({member.filename}): unpack it first"
        )
    return name.as_posix()


def _check_size(archive: Path, unpacked: int) -> None:
    """Refuse an archive that would fill the disk before any of it is written."""
    if unpacked > max(_SMALL_BYTES, _MOST_EXPANSION * archive.stat().st_size):
        raise TraceError(
            f"{archive} would unpack to {unpacked:,} bytes, more than {_MOST_EXPANSION} times its size, which no trace does"
        )


def _check_rows(archive: Path, root: Path) -> None:
    """Refuse parts whose rows would fill memory, judging by their footers: millions of equal rows pack to nothing.

    Raises:
        TraceError: naming the part.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in root.rglob("*.parquet"):
        try:
            described = pq.read_metadata(path)
        except (pa.ArrowException, OSError):
            continue  # the reader reports what is wrong with it
        decoded = described.num_rows * described.num_columns * _VALUE_BYTES
        if decoded > max(_SMALL_DECODED, _MOST_EXPANSION * path.stat().st_size):
            raise TraceError(
                f"{archive}: {path.relative_to(root)} holds {described.num_rows:,} rows in {path.stat().st_size:,} bytes, as no "
                "recording does; it was made to fill memory, or is damaged"
            )
