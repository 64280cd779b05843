"""Processes of the program that use the GPU without the recorder: an empty trace must not look complete because of them.

A driver stays silent when it cannot load the library that a variable names (static TLS used up, a sandbox, a variable that a
script cleared), and programs can be linked statically against what we would need. So the launcher looks at its descendants once
a second, and names those that use the API of a backend (:class:`~warpsight.machine.backends.backend.Sign`) without our library
among their mapped files. With `--backend auto` it also names those that only another backend would record.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from warpsight.machine.backends import registry
from warpsight.machine.backends.backend import Backend, Sign

_LOOK_S = 1.0


@dataclass(frozen=True)
class _Suspect:
    """How to recognize a process that uses an API, and why it is not recorded."""

    sign: Sign
    why: str


def _suspects(name: str) -> list[_Suspect]:
    """What to look for with `--backend NAME`."""
    chosen = registry.selected(name)
    backends = [b for b in registry.all_backends().values() if b.in_process] if name == "auto" else chosen
    found: list[_Suspect] = []
    for one in backends:
        sign = one.recorder().sign()
        if sign is not None and (sign.loader or one not in chosen):
            found.append(_Suspect(sign, _reason(one, sign, chosen=one in chosen)))
    return found


def _reason(backend: Backend, sign: Sign, *, chosen: bool) -> str:
    if not chosen:
        return (
            f"which is recorded only on request: nothing of it is recorded without --backend {backend.name}"
        )
    return (
        f"but {sign.loader} did not load the recorder into it; nothing of it is recorded. "
        f"Was {sign.variable} removed from its environment?"
    )


class Unrecorded:
    """A thread that looks for such processes below `root` until :meth:`stop`."""

    def __init__(self, library: Path, report: Callable[[str], None], *, backend: str = "cuda", root: int | None = None,
                 proc: Path = Path("/proc")) -> None:  # fmt: skip
        """`report` gets one sentence for each process once it has been seen twice, since the driver may be about to inject.

        `backend` is what `--backend` was given.
        """
        self._backend = backend
        self._suspects: list[_Suspect] | None = None
        self._library = library.name
        self._report = report
        self._root = os.getpid() if root is None else root
        self._proc = proc
        self._seen: dict[int, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unrecorded", daemon=True)

    def start(self) -> None:
        """Start looking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def look(self) -> None:
        """One look at all descendants."""
        if self._suspects is None:  # not before: a backend of another package costs time to find
            self._suspects = _suspects(self._backend)
        if not self._suspects:
            return
        for pid in self._descendants():
            if self._seen.get(pid, 0) > 1 or (found := self._suspect(pid)) is None or self._has_recorder(pid):
                continue
            self._seen[pid] = self._seen.get(pid, 0) + 1
            if self._seen[pid] > 1:
                self._report(f"process {pid} ({self._name(pid)}) uses {found.sign.api}, {found.why}")

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            self.look()
            if not self._suspects:
                return

    def _descendants(self) -> Iterator[int]:
        todo = [self._root]
        while todo:
            pid = todo.pop()
            for task in self._entries(self._proc / str(pid) / "task"):
                with contextlib.suppress(OSError):
                    children = [int(child) for child in (task / "children").read_text().split()]
                    todo += children
                    yield from children

    def _entries(self, folder: Path) -> list[Path]:
        try:
            return list(folder.iterdir())
        except OSError:
            return []

    def _suspect(self, pid: int) -> _Suspect | None:
        opened = set(self._opened(pid))
        for one in self._suspects or ():
            mapped = one.sign.mapped
            if one.sign.device in opened or (mapped is not None and mapped.search(self._maps(pid))):
                return one
        return None

    def _opened(self, pid: int) -> Iterator[str]:
        for entry in self._entries(self._proc / str(pid) / "fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(entry)

    def _maps(self, pid: int) -> str:
        """The mapped files; empty for a process that is gone or not readable."""
        try:
            return (self._proc / str(pid) / "maps").read_text(errors="replace")
        except OSError:
            return ""

    def _has_recorder(self, pid: int) -> bool:
        maps = self._maps(pid)
        return not maps or self._library in maps

    def _name(self, pid: int) -> str:
        try:
            return (self._proc / str(pid) / "comm").read_text(errors="replace").strip()
        except OSError:
            return "?"
