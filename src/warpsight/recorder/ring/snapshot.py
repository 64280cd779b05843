"""A trace of the window: its segments are linked into a new folder and converted there, while the ring continues."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.capture.converter import WINDOW
from warpsight.errors import WarpsightError
from warpsight.model.storage import manifest
from warpsight.recorder import output
from warpsight.recorder.drain.converter import ConverterProcess
from warpsight.recorder.drain.drain_loop import DrainLoop
from warpsight.recorder.output import RAW
from warpsight.recorder.ring.bound import LONGEST_S
from warpsight.recorder.ring.store import LAG_S, RingStore

#: How long the processes have to deliver complete records.
_FLUSH_S = 0.6


@dataclass(frozen=True)
class RingSnapshot:
    """The contents of a snapshot; times on CLOCK_MONOTONIC in ns."""

    start: int
    end: int
    #: The moment it was requested, and why.
    triggered: int
    reason: str
    #: Whether rows between `start` and the kept part had been overwritten for lack of space.
    short: bool = False

    def to_json(self) -> dict[str, Any]:
        """The manifest's entry `window`."""
        return {"start": self.start, "end": self.end, "triggered": self.triggered, "reason": self.reason,
                "short": self.short}  # fmt: skip


def take(
    loop: DrainLoop, store: RingStore, folder: Path, reason: str, triggered: int, *, flush: bool = True
) -> RingSnapshot:
    """Link the window into `folder` (which must not exist), ready to be converted.

    Raises:
        OutputError: when the folder cannot be made.
        OSError: when files cannot be linked or copied.
    """
    if flush:
        loop.flush(_FLUSH_S)
    output.create(folder)
    end = time.monotonic()
    start = triggered / 1e9 - store.bound.seconds
    try:
        with loop.locked():
            loop.close_segments()
            end = time.monotonic()
            store.collect()
            window = RingSnapshot(
                int(max(start, store.gone_until, 0) * 1e9),
                int(end * 1e9),
                triggered,
                reason,
                short=store.bound.seconds < LONGEST_S and store.gone_until > start + LAG_S,
            )
            with store.steady():
                _link(store, folder / RAW, start)
        manifest.write_json(folder / RAW / WINDOW, window.to_json())
    except BaseException:
        output.discard(folder)
        raise
    return window


def _link(store: RingStore, raw: Path, start: float) -> None:
    for one in store.since(start):
        _link_file(one.path, raw / one.arena)
    for arena in store.arenas():
        for path in store.definitions_of(arena):
            _link_file(path, raw / arena.name)
        cubins = arena.parent.parent / "cubins"
        if cubins.is_dir() and not (raw.parent / "cubins").exists():
            shutil.copytree(cubins, raw.parent / "cubins", copy_function=_link_or_copy)


def _link_file(path: Path, folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    _link_or_copy(str(path), str(folder / path.name))


def _link_or_copy(source: str, target: str) -> object:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
    return target


def convert(converter: ConverterProcess, folder: Path, request: dict[str, Any],
            progress: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:  # fmt: skip
    """Make the trace; returns the converter's summary.

    Raises:
        ConverterError: when it failed; the raw data is kept in the folder.
    """
    converter.open(folder)
    return converter.finish(request, progress)


def name_beside(folder: Path, reason: str, taken: set[Path]) -> Path:
    """NAME-001-slow-step.warp next to NAME.warp, with the next free number.

    Raises:
        WarpsightError: when a thousand of them exist.
    """
    stem = folder.name.removesuffix(".warp")
    words = (
        "".join(c if c.isalnum() else "-" for c in reason.split(":")[0].lower()).strip("-")[:32] or "trigger"
    )
    for number in range(1, 1000):
        if not any(folder.parent.glob(f"{stem}-{number:03d}-*.warp")):
            path = folder.with_name(f"{stem}-{number:03d}-{words}.warp")
            if path not in taken:
                return path
    raise WarpsightError(f"{folder} has 999 triggered traces beside it; move them away")
