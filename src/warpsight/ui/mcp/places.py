"""Which files an agent may read: only traces below the folders given by the user."""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from warpsight.errors import UsageError, WarpsightError

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Traces kept open; opening a foreign file means reading it.
_KEPT = 4
_SUFFIXES = (".warp", ".warp.zip", ".json", ".json.gz", ".sqlite", ".nsys-rep", ".pftrace", ".perfetto-trace", ".pb", ".csv",
             ".parquet", ".sbt", ".db")  # fmt: skip
_MOST_LISTED = 200


class Places:
    """Opens traces below some roots. Paths are checked after resolving links, so links cannot lead out."""

    def __init__(self, roots: Sequence[Path]) -> None:
        """Note the roots.

        Raises:
            UsageError: for a root that is not a folder.
        """
        for root in roots:
            if not root.is_dir():
                raise UsageError(f"{root} is not a folder")
        self.roots = [root.resolve() for root in roots]
        self._open: OrderedDict[tuple[str, int], StoredTrace] = OrderedDict()
        self._lock = Lock()

    def resolve(self, path: str) -> Path:
        """The file or folder that a path names: absolute, or relative to one of the roots.

        Raises:
            WarpsightError: when it is not below a root, or does not exist.
        """
        if "://" in path or "\0" in path:
            raise WarpsightError(f"{path!r} is not a path below {self._root_names()}")
        for root in self.roots:
            with contextlib.suppress(OSError, ValueError):  # no path of this system
                found = (root / path).resolve()
                if found.exists() and any(found == r or found.is_relative_to(r) for r in self.roots):
                    return found
        raise WarpsightError(f"there is no {path!r} below {self._root_names()}")

    def _root_names(self) -> str:
        return ", ".join(str(root) for root in self.roots)

    def open(self, path: str) -> StoredTrace:
        """Open a trace, or a file of another tool; the last few stay open until they change.

        Raises:
            WarpsightError: when the path is not allowed or not a trace.
        """
        from warpsight.formats.importing import open_any

        found = self.resolve(path)
        stamp = found / "manifest.json" if found.is_dir() else found
        key = (str(found), stamp.stat().st_mtime_ns if stamp.exists() else 0)
        with self._lock:
            if key not in self._open:
                self._open[key] = open_any(found)
                while len(self._open) > _KEPT:
                    _, old = self._open.popitem(last=False)
                    old.close()
            self._open.move_to_end(key)
            return self._open[key]

    def holds(self, file: str) -> bool:
        """Whether a file is below a root, after links are followed."""
        try:
            found = Path(file).resolve()
        except (OSError, ValueError, RuntimeError):  # no path of this system
            return False
        return any(found.is_relative_to(root) for root in self.roots)

    def blame(self, error: BaseException) -> None:
        """After an unexpected error, report whether an open trace is damaged, checking the last used one first.

        Raises:
            TraceError: when an open trace is damaged.
        """
        for trace in reversed(list(self._open.values())):
            trace.blame(error)

    def listed(self) -> list[str]:
        """Traces and possible traces, relative to their root, at most :data:`_MOST_LISTED`."""
        out: list[str] = []
        for root in self.roots:
            for folder, names, files in os.walk(root):
                traces = [n for n in names if (Path(folder) / n / "manifest.json").is_file()]
                names[:] = sorted(n for n in names if n not in traces and not n.startswith("."))
                out += [
                    os.path.relpath(Path(folder) / n, root)
                    for n in sorted([*traces, *(f for f in files if f.lower().endswith(_SUFFIXES))])
                ]
                if len(out) >= _MOST_LISTED:
                    return out[:_MOST_LISTED]
        return out

    def close(self) -> None:
        """Close every trace."""
        while self._open:
            self._open.popitem()[1].close()
