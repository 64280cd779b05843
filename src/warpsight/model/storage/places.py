"""The possible places of a trace: a folder, a packed file, or an fsspec URL of either."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TypeVar

from warpsight.errors import TraceError
from warpsight.model.trace import StoredTrace

T = TypeVar("T", bound=StoredTrace)


def locate(path: str | os.PathLike[str], kind: type[T]) -> T:
    """Open the trace at `path` as a `kind` of trace; see :func:`warpsight.model.open`."""
    text = os.fspath(path)
    if "://" in text or "::" in text:
        return _remote(text, kind)
    folder = Path(text)
    if folder.is_file():
        if folder.name == "manifest.json":
            return kind(folder.parent, path=str(folder.parent))
        temporary = _temporary()
        try:
            from warpsight.model.sharing import pack

            return kind(pack.unpack(folder, Path(temporary.name) / "trace"), path=text, temporary=temporary)
        except BaseException:
            temporary.cleanup()
            raise
    return kind(folder, path=text)


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="warpsight-")  # mode 0700


def _remote(url: str, kind: type[T]) -> T:
    """Copy a remote trace to a private folder: queries then run locked down, at local speed."""
    import fsspec

    from warpsight.model.sharing import pack

    temporary = _temporary()
    target = Path(temporary.name) / "copy"
    try:
        filesystem, place = fsspec.core.url_to_fs(url)
        if not filesystem.exists(place):
            raise TraceError(f"{url} does not exist")
        if filesystem.isdir(place):
            filesystem.get(place.rstrip("/") + "/", f"{target}/", recursive=True)
            return kind(target, path=url, temporary=temporary)
        filesystem.get(place, str(target))
        return kind(pack.unpack(target, Path(temporary.name) / "trace"), path=url, temporary=temporary)
    except (OSError, ImportError, ValueError) as error:
        temporary.cleanup()
        raise TraceError(f"{url} cannot be read: {error}") from None
    except BaseException:
        temporary.cleanup()
        raise
