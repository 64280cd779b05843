"""When a process is suspected of hanging: nothing completed for too long while work is outstanding.

A very long kernel looks the same from outside, so the user sets the threshold.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from warpsight.recorder.ring.progress import Outstanding, Progress

_NS = 1_000_000_000


@dataclass(frozen=True)
class StallLimits:
    """Limits in seconds; 0 is off."""

    hang_after: float = 60.0
    kernel_timeout: float = 0.0
    no_data_timeout: float = 0.0


@dataclass
class Watched:
    """The known state of one process between checks; times are time.monotonic()."""

    pid: int
    arena: str
    since: float = field(default_factory=time.monotonic)
    #: It was stopped (a debugger, SIGSTOP) at this time, last.
    paused: float = 0.0
    #: Bytes drained when they last changed, and when that was.
    drained: int = -1
    heard: float = field(default_factory=time.monotonic)
    #: A hang was reported: completions at that time, and since when nothing had completed.
    told_at: int | None = None
    told_quiet: float = 0.0
    #: Waits seen at the last inspection, and when the next one is due.
    waits: frozenset[object] = frozenset()
    waits_since: float = 0.0
    inspect_after: float = 0.0
    #: Seconds between inspections that find nothing.
    pause: float = 0.0


@dataclass(frozen=True)
class Suspicion:
    """A suspicion, and the time since which nothing has completed (time.monotonic())."""

    kind: str
    quiet_since: float
    outstanding: Outstanding | None
    limit: float


def judge(watched: Watched, progress: Progress | None, limits: StallLimits, now: float) -> Suspicion | None:
    """Whether a process is suspected now, judging by its rows alone."""
    outstanding = progress.outstanding() if progress is not None else None
    if progress is None or outstanding is None:
        return None
    quiet = quiet_since(watched, progress)
    started = outstanding.oldest / _NS  # CLOCK_MONOTONIC, as time.monotonic()
    idle_since = max(quiet, started)
    if limits.kernel_timeout:
        running = max(outstanding.running_since / _NS, watched.paused)
        if now - running >= limits.kernel_timeout:
            return Suspicion("kernel-timeout", running, outstanding, limits.kernel_timeout)
    if limits.no_data_timeout and now - max(watched.heard, watched.paused, started) >= limits.no_data_timeout:
        return Suspicion("no-data-timeout", watched.heard, outstanding, limits.no_data_timeout)
    if limits.hang_after and watched.told_at is None and now - idle_since >= limits.hang_after:
        return Suspicion("hang", idle_since, outstanding, limits.hang_after)
    return None


def quiet_since(watched: Watched, progress: Progress) -> float:
    """The time since which nothing has completed, or since which the process was unable to report.

    The device's times count, not those of delivery: CUPTI holds records of completed kernels back while one in the same buffer is
    incomplete, so a forced flush may bring old records.
    """
    return max(progress.last_end / _NS, watched.since, watched.paused)


def stopped(pid: int) -> bool:
    """Whether a process is stopped or held by a debugger, and cannot report that work has completed."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    fields = dict(line.partition(":")[::2] for line in status.splitlines())
    return fields.get("State", "").strip()[:1] in ("T", "t")
