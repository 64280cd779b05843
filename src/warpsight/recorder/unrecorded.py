"""Processes of the program that use the GPU without the recorder in them: an empty trace must not look complete.

The driver says nothing when it cannot load the library that CUDA_INJECTION64_PATH names (static TLS used up, a sandbox,
a variable that a script cleared), and a program can be statically linked against what we would need. So the launcher
looks, once a second, at its descendants: one that has CUDA's memory device open and not our library mapped is named. The same
holds of ROCm, its compute device and ROCP_TOOL_LIBRARIES. What needs a backend of its own to be recorded, as ROCm and MACA do,
is named when no backend was chosen.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from warpsight.machine import mcpti

_LOOK_S = 1.0


@dataclass(frozen=True)
class _Use:
    """How a process is known to use an API, and why it is not recorded."""

    api: str
    why: str
    #: The device that a program which works with the GPU opens (cuInit does; NVML does not).
    device: str | None = None
    #: Matches the program's mapped files.
    mapped: re.Pattern[str] | None = None


def _not_loaded(api: str, device: str, loader: str, variable: str) -> _Use:
    why = (
        f"but {loader} did not load the recorder into it; nothing of it is recorded. "
        f"Was {variable} removed from its environment?"
    )
    return _Use(api, why, device)


def _of_backend(
    api: str, backend: str, device: str | None = None, mapped: re.Pattern[str] | None = None
) -> _Use:
    why = f"which is recorded when it is asked for: nothing of it is recorded without --backend {backend}"
    return _Use(api, why, device, mapped)


_CUDA = _not_loaded("CUDA", "/dev/nvidia-uvm", "the driver", "CUDA_INJECTION64_PATH")
_ROCM = _not_loaded("ROCm", "/dev/kfd", "rocprofiler-sdk", "ROCP_TOOL_LIBRARIES")
_MACA = _of_backend(
    "MACA", "maca", mapped=re.compile(rf"/{re.escape(mcpti.RUNTIME)}(?:\.[\d.]+)?$", re.MULTILINE)
)


def _looked_for(backend: str) -> list[_Use]:
    if backend != "auto":
        return [_ROCM if backend == "rocm" else _CUDA]
    # The maps of a large process are not read for nothing once a second.
    return [_CUDA, _of_backend("ROCm", "rocm", "/dev/kfd"), *([_MACA] if mcpti.expected() else [])]


class Unrecorded:
    """A thread that looks for such processes among the descendants of `root` until :meth:`stop`."""

    def __init__(self, library: Path, report: Callable[[str], None], *, backend: str = "cuda", root: int | None = None,
                 proc: Path = Path("/proc")) -> None:  # fmt: skip
        """`report` gets one sentence for each process, when it has been seen twice: the driver may be about to inject.

        `backend` is `cuda`, `rocm` or `auto`.
        """
        self._uses = _looked_for(backend)
        self._library = library.name
        self._report = report
        self._root = os.getpid() if root is None else root
        self._proc = proc
        self._seen: dict[int, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unrecorded", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def look(self) -> None:
        """One look at all descendants."""
        for pid in self._descendants():
            if self._seen.get(pid, 0) > 1 or (use := self._use(pid)) is None or self._has_recorder(pid):
                continue
            self._seen[pid] = self._seen.get(pid, 0) + 1
            if self._seen[pid] > 1:
                self._report(f"process {pid} ({self._name(pid)}) uses {use.api}, {use.why}")

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            self.look()

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

    def _use(self, pid: int) -> _Use | None:
        opened = set(self._opened(pid))
        for use in self._uses:
            if use.device in opened or (use.mapped is not None and use.mapped.search(self._maps(pid))):
                return use
        return None

    def _opened(self, pid: int) -> Iterator[str]:
        for entry in self._entries(self._proc / str(pid) / "fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(entry)

    def _maps(self, pid: int) -> str:
        """The mapped files; nothing of a process that is gone, or not ours to read."""
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
