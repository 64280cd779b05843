"""The ring on disk: segments that leave the window are deleted, definitions stay and are compacted.

The drainer writes the same segment files as any recording. Nothing converts them. Once a second, those closed before the window
are removed, so the disk holds only what happened last. A trigger links the files of the window into a new folder
(:mod:`warpsight.recorder.ring.snapshot`), which costs no copy and frees the ring from waiting for the conversion.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warpsight.recorder.drain.arena import LOSS_DATA, LOSS_NOTE, OwnRows
from warpsight.recorder.output import RAW
from warpsight.recorder.ring import definitions
from warpsight.recorder.ring.bound import LONGEST_S, Bound

#: Rows are in a segment up to this long after they happened: a checkpoint, a flush, a rotation.
LAG_S = 3.0
#: Segments are closed this often, so that a trigger learns about an event within a second.
ROTATE_S = 1.0
#: Young definition files are merged in this many groups per window, none shorter than this many seconds.
_BUCKETS, _LEAST_BUCKET_S = 8, 8.0
_OLD_ARENA_S = 5.0


@dataclass(frozen=True)
class Closed:
    """A closed segment of events."""

    path: Path
    arena: str
    #: time.monotonic() when it was seen closed: no row in it is younger.
    at: float
    bytes: int


class RingStore:
    """Keeps one recording's raw folder within its bound, in place of :class:`RawBound`.

    All methods but :meth:`compact` are called under the drain loop's lock.
    """

    #: As in RawBound: draining never waits here, and the recording never ends because of its size.
    waiting = False
    full = False

    def __init__(self, folder: Path, rows: OwnRows, bound: Bound) -> None:
        self._raw = folder / RAW
        self._rows = rows
        self.bound = bound
        self.closed: dict[Path, Closed] = {}
        self.bytes = 0
        self.most_bytes = 0
        #: Rows before this moment have been deleted; 0: nothing yet.
        self.gone_until = 0.0
        #: While this is set nothing that was closed later than it is deleted for its age.
        self.hold_from: float | None = None
        self.held_at = 0.0
        self.on_closed: Callable[[list[Closed]], None] | None = None
        #: Arenas whose process has exited, and when.
        self.ended: dict[str, float] = {}
        self._short_said = 0.0
        self._files = threading.Lock()  # definition files are merged, or linked, but not both at once

    def collect(self) -> None:
        """Add segments that were closed since the last call."""
        now = time.monotonic()
        found = []
        for arena in _folders(self._raw):
            for path in sorted(arena.glob("data-*.seg")):
                if path not in self.closed:
                    size = path.stat().st_size
                    found.append(Closed(path, arena.name, now, size))
        for one in found:
            self.closed[one.path] = one
            self.bytes += one.bytes
        self.most_bytes = max(self.most_bytes, self.bytes)
        if found and self.on_closed is not None:
            self.on_closed(found)

    def look(self) -> None:
        """Delete segments that have left the window."""
        now = time.monotonic()
        oldest = self._oldest(now)
        for one in list(self.closed.values()):  # in the order they were closed
            too_old, too_much = one.at < oldest, self.bytes > self.bound.bytes
            if not too_old and not too_much:
                break
            self._drop(one)
            if not too_old:
                self._say_short(now)
        self._forget_arenas(now)

    def _oldest(self, now: float) -> float:
        """The end of the window (time.monotonic()): segments closed earlier have left it."""
        oldest = now - self.bound.seconds - LAG_S
        return oldest if self.hold_from is None else min(oldest, self.hold_from)

    def say_write_error(self, error: int) -> None:
        """Note that segments cannot be written: rows waiting in rings will be lost when they are full."""
        self._rows.loss("drainer", f"segments cannot be written: {os.strerror(error)}", severity=LOSS_DATA)

    def hold(self) -> None:
        """Stop dropping old data from the window: the recording is ending."""
        self.held_at = time.monotonic()
        self.hold_from = self.held_at - self.bound.seconds - LAG_S

    def since(self, start: float) -> list[Closed]:
        """Segments that may hold rows from `start` (time.monotonic()) on."""
        return [one for one in self.closed.values() if one.at >= start]

    def compact(self) -> None:
        """Merge definition files if there are many; works in any thread, without the loop's lock."""
        now, passed = time.time(), time.monotonic()
        old = now - (passed - self._oldest(passed)) - LAG_S  # a row may be so much older than its segment
        bucket = max(self.bound.seconds / _BUCKETS, _LEAST_BUCKET_S)
        for arena in _folders(self._raw):
            with self._files:
                for files, drop in definitions.groups(self.definitions_of(arena), old, bucket, now):
                    definitions.merge(files, drop_once=drop)

    def arenas(self) -> list[Path]:
        """Folders of the recorded processes."""
        return _folders(self._raw)

    def definitions_of(self, arena: Path) -> list[Path]:
        """Definition files of an arena, to be used inside :meth:`steady` only."""
        return sorted(arena.glob("definitions-*.seg"))

    def steady(self) -> threading.Lock:
        """Keep the definition files unchanged inside the block."""
        return self._files

    def _drop(self, one: Closed) -> None:
        one.path.unlink(missing_ok=True)
        del self.closed[one.path]
        self.bytes -= one.bytes
        self.gone_until = max(self.gone_until, one.at)

    def _say_short(self, now: float) -> None:
        """Note, at most once per window, that its size limit was reached before its time limit."""
        if self.bound.seconds >= LONGEST_S or (
            self._short_said and now - self._short_said < max(self.bound.seconds, 60)
        ):
            return
        self._short_said = now
        self._rows.loss(
            "ring",
            f"{self.bound.bytes / 1e6:.0f} MB of raw data were reached before {self.bound.seconds:g} s: the window is shorter",
            severity=LOSS_NOTE,
        )

    def _forget_arenas(self, now: float) -> None:
        """Remove folders of processes that ended before the window."""
        kept = {one.arena for one in self.closed.values()}
        for name, at in list(self.ended.items()):
            if name not in kept and now - at > self.bound.seconds + LAG_S + _OLD_ARENA_S:
                with self._files:
                    shutil.rmtree(self._raw / name, ignore_errors=True)
                del self.ended[name]


def _folders(raw: Path) -> list[Path]:
    try:
        return sorted(path for path in raw.iterdir() if path.is_dir())
    except OSError:
        return []
