"""Python stacks of another process's threads as they are now, through the host sampler."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight import _native
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import read
from warpsight.recorder.drain.arena import Drainer, OwnRows


@dataclass(frozen=True)
class _PythonFrame:
    """One frame."""

    function: str
    file: str
    line: int


class PythonStacks:
    """Samples into an arena of this process, which must not have one yet."""

    def __init__(self) -> None:
        self._library = _native.load()
        self._own = OwnRows()
        self._opened: list[Any] = []

    def sample(self, pid: int) -> str:
        """Take one sample of every thread; on failure, returns the reason."""
        handle = self._library.ws_sampler_open(pid)
        if not handle:
            return "no readable Python interpreter"
        try:
            for _ in range(3):  # a busy thread may be half way through a call
                if int(self._library.ws_sampler_sample(handle)) > 0:
                    return ""
            return "its interpreter could not be read"
        finally:
            self._library.ws_sampler_close(handle)

    def stacks(self) -> dict[tuple[int, int], tuple[list[_PythonFrame], bool]]:
        """(pid, thread) → frames, innermost first, and whether it held the GIL; the newest sample of each."""
        with tempfile.TemporaryDirectory(prefix="warpsight-inspect-") as place:
            folder = Path(place) / self._own.arena
            Drainer(self._own.fd, folder).close()
            rows: dict[str, list[Any]] = {}
            texts: dict[int, str] = {}
            for path in sorted(folder.glob("*.seg")):
                found, strings, _ = read(path)
                texts.update(strings)
                for kind, batch in found.items():
                    rows.setdefault(layout.BY_KIND[kind].name, []).extend(batch.rows.tolist())
        frames = {
            row[0]: _PythonFrame(texts.get(row[1], "?"), texts.get(row[2], ""), row[3])
            for row in rows.get("Frame", [])
        }
        links = {row[0]: (row[1], row[2]) for row in rows.get("Stack", [])}
        out = {}
        for _, thread, stack, _, gil, _, pid in rows.get("Sample", []):
            chain = []
            while stack in links:
                stack, frame = links[stack]
                if frame in frames:
                    chain.append(frames[frame])
            out[pid, thread] = (chain, bool(gil))
        return out
