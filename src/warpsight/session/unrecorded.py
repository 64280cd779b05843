"""Processes of the program that use the GPU without the recorder in them: an empty trace must not look complete.

The driver says nothing when it cannot load the library that CUDA_INJECTION64_PATH names (static TLS used up, a sandbox,
a variable that a script cleared), and a program can be statically linked against what we would need. So the launcher
looks, once a second, at its descendants: one that has CUDA's memory device open and not our library mapped is named. The same
holds of ROCm, its compute device and ROCP_TOOL_LIBRARIES.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

_LOOK_S = 1.0
#: By backend: the device that a program which works with the GPU opens (cuInit does; NVML does not), what it uses then, who
#: loads the recorder, and by which variable.
_PLACES = {
    "cuda": ("/dev/nvidia-uvm", "CUDA", "the driver", "CUDA_INJECTION64_PATH"),
    "rocm": ("/dev/kfd", "ROCm", "rocprofiler-sdk", "ROCP_TOOL_LIBRARIES"),
}


class Unrecorded:
    """A thread that looks for such processes among the descendants of `root` until :meth:`stop`."""

    def __init__(self, library: Path, report: Callable[[str], None], *, backend: str = "cuda", root: int | None = None,
                 proc: Path = Path("/proc")) -> None:  # fmt: skip
        """`report` gets one sentence for each process, when it has been seen twice: the driver may be about to inject.

        `backend` is `cuda` or `rocm`.
        """
        self._device, self._api, self._loader, self._variable = _PLACES[backend]
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
            if self._seen.get(pid, 0) > 1 or not self._uses_gpu(pid) or self._has_recorder(pid):
                continue
            self._seen[pid] = self._seen.get(pid, 0) + 1
            if self._seen[pid] > 1:
                self._report(
                    f"process {pid} ({self._name(pid)}) uses {self._api}, but {self._loader} did not load the recorder into "
                    f"it; nothing of it is recorded. Was {self._variable} removed from its environment?"
                )

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

    def _uses_gpu(self, pid: int) -> bool:
        for entry in self._entries(self._proc / str(pid) / "fd"):
            with contextlib.suppress(OSError):
                if os.readlink(entry) == self._device:
                    return True
        return False

    def _has_recorder(self, pid: int) -> bool:
        try:
            return self._library in (self._proc / str(pid) / "maps").read_text(errors="replace")
        except OSError:
            return True  # gone, or not ours to read

    def _name(self, pid: int) -> str:
        try:
            return (self._proc / str(pid) / "comm").read_text(errors="replace").strip()
        except OSError:
            return "?"
