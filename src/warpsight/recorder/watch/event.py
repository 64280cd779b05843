"""The data that a watch gathered at one moment, from which the report is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsight.recorder.ring.progress import Outstanding
from warpsight.recorder.watch.coredump import CoreDump


@dataclass(frozen=True)
class StuckProcess:
    """One stuck process: seconds without completion, and its wait."""

    pid: int
    quiet_s: float
    outstanding: Outstanding | None
    #: Completions it had shown before.
    completions: int

    def to_json(self) -> dict[str, Any]:
        """For the report."""
        out = self.outstanding
        return {"pid": self.pid, "quiet_s": round(self.quiet_s, 1), "completions": self.completions,
                "outstanding": out.count if out else None, "oldest_launch": out.oldest if out else None}  # fmt: skip


@dataclass
class Incident:
    """One hang, crash, timeout, or request for a report."""

    #: hang, crash, kernel-timeout, no-data-timeout, interrupt, asked
    kind: str
    reason: str
    #: CLOCK_MONOTONIC ns.
    time: int
    suspects: list[StuckProcess] = field(default_factory=list)
    #: The evidence that confirmed a suspicion, as sentences.
    evidence: list[str] = field(default_factory=list)
    #: Threads of all processes of the tree (session.inspect), before anything was touched.
    processes: list[dict[str, Any]] = field(default_factory=list)
    trace: Path | None = None
    dumps: list[CoreDump] = field(default_factory=list)
    #: How the crashed process ended: "signal 6".
    exit: str = ""
    pid: int = 0
    notes: list[str] = field(default_factory=list)
    #: Seconds it took to gather all this.
    took_s: float = 0.0
    #: Whether the program is killed because of this.
    ends: bool = False
