"""Keeps raw data bounded: if the converter lags, it first gets more of the machine, then draining waits and rings drop rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warpsight.recorder.drain.arena import LOSS_DATA, LOSS_ENDED, LOSS_NOTE, OwnRows
from warpsight.recorder.drain.converter import ConverterProcess
from warpsight.recorder.output import RAW

_HURRY_BYTES = 512 << 20
_MOST_BYTES = 1 << 30
#: Draining resumes when raw data falls below this: a small margin avoids stutter at the bound.
_RESUME_BYTES = 768 << 20
#: Approximate Parquet bytes per byte of raw data, used by --max-size for data that is not converted yet, until this much has
#: been.
_COMPRESSION = 0.15
_MEASURED_BYTES = 16 << 20


@dataclass
class RawBound:
    """Watches the sizes of a recording's folder and decides when draining may continue and when recording must end."""

    folder: Path
    rows: OwnRows
    converter: ConverterProcess
    max_bytes: int = 0
    #: Bytes of raw data since the recording began.
    drained: Callable[[], int] = lambda: 0
    #: When the trace reached `max_bytes`, ns of CLOCK_MONOTONIC.
    full_at: int | None = None
    #: Draining is to wait for the converter.
    waiting: bool = False
    full: bool = False
    _hurried: bool = False

    def look(self) -> None:
        """Measure and decide; called about once a second."""
        raw = folder_bytes(self.folder / RAW)
        if raw > _HURRY_BYTES and not self._hurried:
            self._hurried = True
            self.converter.hurry()
            self.rows.loss(
                "converter",
                "conversion lags behind recording and now runs at normal priority",
                severity=LOSS_NOTE,
            )
        if not self.waiting and raw > _MOST_BYTES and self.converter.alive:
            self.waiting = True
            self.rows.loss("converter", "conversion cannot keep up: rows wait in the rings until raw data is under "
                           f"{_RESUME_BYTES >> 20} MB", severity=LOSS_NOTE)  # fmt: skip
        elif self.waiting and (raw < _RESUME_BYTES or not self.converter.alive):
            self.waiting = False
        if not self.converter.alive and raw > _MOST_BYTES and not self.full:
            self._end(f"the converter is gone and raw data reached {_MOST_BYTES >> 20} MB")
        elif self.max_bytes and not self.full:
            parts = folder_bytes(self.folder) - raw
            converted = self.drained() - raw
            ratio = parts / converted if converted > _MEASURED_BYTES else _COMPRESSION
            if parts + raw * ratio >= self.max_bytes:
                self.full_at = time.monotonic_ns()
                self._end(
                    f"the trace reached --max-size {self.max_bytes // 1_000_000} MB; the program continued unrecorded"
                )

    def _end(self, cause: str) -> None:
        self.full = True
        self.rows.loss("launcher", cause, severity=LOSS_ENDED)

    def say_write_error(self, error: int) -> None:
        """Note that segments cannot be written: rows waiting in rings will be lost when they are full."""
        self.rows.loss("drainer", f"segments cannot be written: {os.strerror(error)}", severity=LOSS_DATA)


def folder_bytes(folder: Path) -> int:
    """Total size in bytes of all readable files in a folder and below."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    total += (
                        folder_bytes(Path(entry.path))
                        if is_folder
                        else entry.stat(follow_symlinks=False).st_size
                    )
                except OSError:
                    continue  # converted and deleted at this moment
    except OSError:
        pass
    return total
