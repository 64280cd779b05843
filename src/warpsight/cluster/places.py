"""Finds the ranks of a job: traces and other tools' files, in folders or named one by one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from warpsight.errors import UsageError
from warpsight.formats import registry
from warpsight.formats.importing import is_trace
from warpsight.formats.snapshot import flight_recorder
from warpsight.formats.source import Source
from warpsight.model.storage import manifest

#: Files that count as recordings even if their job did not leave one per rank.
_OTHERS = (".zip", ".sqlite", ".nsys-rep")


@dataclass(frozen=True)
class _JobInputs:
    """Traces (and files that can be read as one), and dumps of PyTorch's flight recorder."""

    traces: tuple[str, ...] = ()
    dumps: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = field(default=())


def find(paths: Iterable[str | os.PathLike[str]]) -> _JobInputs:
    """Expand paths: a folder that is not a trace stands for its traces, rank files and dumps.

    Raises:
        UsageError: when a path does not exist, or a folder holds no such files.
    """
    traces: dict[str, None] = {}
    dumps: dict[str, None] = {}
    unfinished: dict[str, None] = {}
    for given in paths:
        path = os.fspath(given)
        for kind, one in _of(path):
            {"trace": traces, "dump": dumps, "unfinished": unfinished}[kind][one] = None
    return _JobInputs(tuple(traces), tuple(dumps), tuple(unfinished))


def _of(path: str) -> Iterator[tuple[str, str]]:
    if "://" in path or "::" in path:
        yield from _remote(path)
        return
    place = Path(path)
    if not place.exists():
        raise UsageError(f"{path} does not exist")
    if not place.is_dir():
        yield ("dump" if flight_recorder.is_dump(place) else "trace"), path
        return
    if (place / "raw").is_dir() and not _own(place):
        yield "unfinished", path
        return
    if _own(place):
        yield "trace", path
        yield from (("dump", one) for one in _dumps(place / "nccl"))
        return
    found = list(_inside(place))
    if not found:
        raise UsageError(
            f"{path} holds no traces, no files of ranks and no dumps of PyTorch's flight recorder"
        )
    yield from found


def _own(place: Path) -> bool:
    return (place / manifest.FILE).is_file()


def _inside(folder: Path) -> Iterator[tuple[str, str]]:
    """What a folder holds, by name; `rank=` and `node=` folders are traces."""
    files = {str(path) for path in registry.files_of_ranks(folder)}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if _own(path):
                yield "trace", str(path)
            elif (path / "raw").is_dir():
                yield "unfinished", str(path)
            elif path.name == "nccl":
                yield from (("dump", one) for one in _dumps(path))
            elif _is_foreign_folder(path):
                yield "trace", str(path)
        elif str(path) in files or (path.name.endswith(_OTHERS) and _readable(path)):
            yield "trace", str(path)
        elif flight_recorder.is_dump(path):
            yield "dump", str(path)


def _is_foreign_folder(path: Path) -> bool:
    """Whether a folder is another tool's recording."""
    with Source(path) as source:
        return registry.sniff(source) is not None


def _readable(path: Path) -> bool:
    if is_trace(str(path)):
        return True
    with Source(path) as source:
        return registry.sniff(source) is not None


def _dumps(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [
        str(path) for path in sorted(folder.iterdir()) if path.is_file() and flight_recorder.is_dump(path)
    ]


def _remote(url: str) -> Iterator[tuple[str, str]]:
    """A trace at a URL, or the traces in a folder there."""
    import fsspec

    try:
        filesystem, place = fsspec.core.url_to_fs(url)
        if not filesystem.exists(place):
            raise UsageError(f"{url} does not exist")
        folder = filesystem.isdir(place) and not filesystem.exists(f"{place.rstrip('/')}/{manifest.FILE}")
        inside = sorted(filesystem.ls(place, detail=False)) if folder else []
    except (OSError, ImportError, ValueError) as error:
        raise UsageError(f"{url} cannot be read: {error}") from None
    if not folder:
        yield "trace", url
        return
    head = url.split("://")[0] + "://" if "://" in url else ""
    for one in inside:
        name = one.rstrip("/")
        if filesystem.exists(f"{name}/{manifest.FILE}"):
            yield "trace", head + name.lstrip("/") if head not in ("file://", "memory://") else head + name
        elif filesystem.exists(f"{name}/raw"):
            yield "unfinished", head + name
