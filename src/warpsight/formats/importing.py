"""Imports foreign files: permanently (:func:`import_files`) or for one question (:func:`open_any`)."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from warpsight.errors import TraceError, UsageError
from warpsight.formats.errors import FormatError, decoding
from warpsight.formats.source import Source
from warpsight.model import private_files

if TYPE_CHECKING:
    from warpsight.formats.target import Target
    from warpsight.model import StoredTrace
    from warpsight.model.storage.writer import TraceWriter

_Path = str | os.PathLike[str]
_T = TypeVar("_T", bound="StoredTrace")


@dataclass(frozen=True)
class _ImportedFile:
    """One imported file; `damage` is empty if it was complete."""

    path: str
    format: str
    bytes: int
    damage: str


@dataclass(frozen=True)
class Imported:
    """A finished import: rows by table, and the rows of table `loss` that it wrote."""

    path: Path
    files: tuple[_ImportedFile, ...]
    rows: Mapping[str, int]
    losses: tuple[Mapping[str, Any], ...]
    seconds: float


def import_files(
    paths: Sequence[_Path],
    out: _Path,
    form: str | None = None,
    force: bool = False,
    options: Mapping[str, str] | None = None,
) -> Imported:
    """Read files of any known format into one new trace; each file becomes a process (rank).

    Args:
        paths: Files or folders; a folder of torch.profiler files counts as one file per rank.
        out: The trace folder to create.
        form: Their format; None: recognized by content.
        force: Replace an existing trace once everything has been read.
        options: Reader options by key.

    Raises:
        FormatError: when a file has no known format, or damaged beyond what can be salvaged; nothing is left at `out`.
        TraceError: when `out` exists.
        UsageError: for an unknown format or option.
    """
    from warpsight.formats.reading import content
    from warpsight.model.storage import manifest
    from warpsight.model.storage.writer import TraceWriter

    if not paths:
        raise UsageError("there is nothing to import: name at least one file")
    for path in paths:
        if (Path(path) / manifest.FILE).is_file():
            raise FormatError(os.fspath(path), content.TRACE)
    target = Path(out)
    _check_free(target, force)
    began = time.perf_counter()
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    with private_files.unfinished(made):
        with TraceWriter(made / "trace") as writer:
            files, rows, losses = _read_all(writer, paths, form, options or {})
        if target.exists():
            _check_free(target, force)
            shutil.rmtree(target)
        (made / "trace").rename(target)
    made.rmdir()
    return Imported(target, files, rows, losses, time.perf_counter() - began)


@overload
def open_any(path: _Path) -> StoredTrace: ...
@overload
def open_any(path: _Path, kind: type[_T]) -> _T: ...
def open_any(path: _Path, kind: type[StoredTrace] | None = None) -> StoredTrace:
    """Open a trace (folder, packed file, URL), or any foreign file, which is read into a private temporary folder.

    `kind` is the class of trace to make of it.

    Raises:
        TraceError: when there is nothing, or the trace is damaged.
        FormatError: when it is neither a trace nor a file of a known format.
    """
    from warpsight.model.storage.places import locate
    from warpsight.model.trace import StoredTrace

    made_as = kind or StoredTrace
    text = os.fspath(path)
    if is_trace(text):
        return locate(path, made_as)
    temporary = tempfile.TemporaryDirectory(prefix="warpsight-")  # mode 0700
    try:
        made = import_files([path], Path(temporary.name) / "trace")
        return made_as(made.path, path=text, temporary=temporary)
    except BaseException:
        temporary.cleanup()
        raise


def is_trace(path: str) -> bool:
    """Whether to open a path as a trace of our own. True for missing paths, too, so that a single message reports them."""
    from warpsight.model.storage import manifest

    if "://" in path or "::" in path or not os.path.exists(path):
        return True
    place = Path(path)
    if place.is_dir():
        if (place / manifest.FILE).exists() or (place / "raw").is_dir():
            return True
        from warpsight.formats import registry

        with Source(place) as source:
            return registry.sniff(source) is None and not registry.files_of_ranks(place)
    if private_files.unreadable(place):
        return False
    return place.name == manifest.FILE or _is_pack(place)


def _is_pack(path: Path) -> bool:
    from warpsight.model.sharing import pack

    if pack.is_packed(path):
        return True
    with path.open("rb") as file:  # a damaged archive is still an archive, a text file with its name is not
        return path.name.endswith(pack.SUFFIX) and file.read(2) == b"PK"


def _check_free(target: Path, force: bool) -> None:
    from warpsight.model.storage import manifest

    if not os.path.lexists(target):
        return
    if not force:
        raise TraceError(f"{target} exists already; -f replaces it")
    if not (target / manifest.FILE).is_file() or target.is_symlink():
        raise TraceError(f"{target} exists and is not a trace; it is left alone")


def _read_all(
    writer: TraceWriter, paths: Sequence[_Path], form: str | None, options: Mapping[str, str]
) -> tuple[tuple[_ImportedFile, ...], dict[str, int], tuple[Mapping[str, Any], ...]]:
    from warpsight.formats import following
    from warpsight.formats.target import Target

    files, described = [], []
    with Target(writer) as target:
        for number, path in enumerate(file for given in paths for file in _files(given)):
            with Source(path) as source:
                name = form or _sniffed(source)
                target.begin(f"{number}:{source.name}")
                with following.shown(source):
                    read_into(target, source, name, options)
                if source.truncated:
                    cause = f"{source.name} is incomplete: {source.damage}; what comes after is missing"
                    target.lost(1, cause)
                files.append(_ImportedFile(source.name, name, source.size, source.damage))
                described.append({"format": name, "file": source.name, **target.source})
        target.describe(source=described[0] if len(described) == 1 else described)
        target.close()
    return tuple(files), dict(target.rows), tuple(target.losses)


def _files(path: _Path) -> Sequence[_Path]:
    """The files to read at a path: itself, or the files of a job's ranks in a folder that is not a format of its own."""
    if not Path(path).is_dir():
        return [path]
    from warpsight.formats import registry

    with Source(path) as source:
        return [path] if registry.sniff(source) is not None else registry.files_of_ranks(Path(path)) or [path]


def _sniffed(source: Source) -> str:
    from warpsight.formats import registry

    found = registry.sniff(source)
    if found is not None:
        return found
    if not source.is_directory and not source.head:
        raise source.error("is empty" if not source.compression else "ends before it yields any data")
    from warpsight.formats.reading.content import described

    raise source.error(described(source))


def read_into(target: Target, source: Source, name: str, options: Mapping[str, str]) -> None:
    """Read one source of a named format.

    Raises:
        FormatError: when it cannot be read.
        UsageError: for an unknown format or option.
    """
    from warpsight.formats import registry

    chosen = registry.reader(name)
    if chosen.encloses and not options:
        # Costs Arrow's functions, which a trace does not need.
        from warpsight.formats.enclosed import reading as enclosed

        if enclosed.read(source, target):
            return
    for key in options:
        if key not in chosen.options:
            known = ", ".join(chosen.options) or "none"
            raise UsageError(f"format {name} has no option {key!r}; options: {known}")
    with decoding(source.name):
        try:
            chosen.read(source, target, registry.Options(options))
        except UsageError as error:  # a number that fits no column: not a real value
            raise FormatError(source.name, f"holds a value that does not fit: {error}") from error
        except UnicodeDecodeError as error:
            raise FormatError(source.name, f"holds text that is not UTF-8 ({error.reason})") from error
        except csv.Error as error:
            raise FormatError(source.name, f"holds a line that is not CSV ({error})") from error
