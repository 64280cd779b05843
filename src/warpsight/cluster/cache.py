"""Summaries cached next to their traces, so that a second question reads only megabytes.

`.NAME.summary.zip` is beside NAME, or in the user's cache folder where that place cannot be written to. It is valid as long as
the trace's size and modification time do not change.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

from warpsight.cluster import summary
from warpsight.cluster.summary import RankSummary
from warpsight.formats.importing import open_any
from warpsight.model import private_files
from warpsight.model.storage import manifest

_SUFFIX = ".summary.zip"


def kept(path: str) -> list[RankSummary] | None:
    """The cached summaries of the ranks in one trace or file, if there are any."""
    stamp = _stamp(path)
    found = (_read(place, stamp) for place in _places(path) if stamp)
    return next((one for one in found if one is not None), None)


def make(path: str) -> list[RankSummary]:
    """Make and cache the summaries of a trace or file; empty if they were saved where :func:`kept` finds them."""
    stamp = _stamp(path)
    with open_any(path) as trace:
        made = summary.summarize(trace, path)
    for number, place in enumerate(_places(path) if stamp else ()):
        if _write(place, stamp, made):
            return [] if number == 0 else made
    return made


def _stamp(path: str) -> str:
    """What changes when the trace does; "" when unknown, as for URLs: then nothing is kept."""
    place = Path(path)
    if place.is_dir():
        place = place / manifest.FILE
    try:
        found = place.stat()
    except OSError:
        return ""
    return f"{summary.VERSION}:{manifest.version()}:{found.st_size}:{found.st_mtime_ns}"


def _places(path: str) -> tuple[Path, ...]:
    place = Path(path).absolute()
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpsight" / "summaries"
    name = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
    return place.with_name(f".{place.name}{_SUFFIX}"), root / f"{name}{_SUFFIX}"


def _read(place: Path, stamp: str) -> list[RankSummary] | None:
    try:
        with zipfile.ZipFile(place) as archive:
            content = json.loads(archive.read("stamp.json"))
            if content["stamp"] != stamp:
                return None
            found = []
            for number in range(content["ranks"]):
                head = f"{number}/"
                names = [name for name in archive.namelist() if name.startswith(head)]
                one = summary.from_bytes({name.removeprefix(head): archive.read(name) for name in names})
                if one is None:
                    return None
                found.append(one)
            return found
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile):
        return None


def _write(place: Path, stamp: str, made: Sequence[RankSummary]) -> bool:
    """Store the summaries so that a reader sees all of them or none; returns whether that worked."""
    temporary = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = private_files.create(temporary, new=False)
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr("stamp.json", json.dumps({"stamp": stamp, "ranks": len(made)}))
            for number, one in enumerate(made):
                for name, data in summary.to_bytes(one).items():
                    archive.writestr(f"{number}/{name}", data)
        temporary.replace(place)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        return False
    return True
