"""Warnings about missing data, in red wherever an answer could look complete without it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from warpsight.analysis.base import words
from warpsight.ui.render import terminal

if TYPE_CHECKING:
    from warpsight.analysis.base.result import Finding
    from warpsight.model import StoredTrace


def lost(trace: StoredTrace) -> list[tuple[str, str, int]]:
    """Source, cause and count of everything that is missing, missing files and then largest first; notes are left out."""
    rows = trace.sql("""SELECT source, cause, sum("count")::BIGINT AS n FROM loss WHERE severity <> 'note'
                        GROUP BY source, cause ORDER BY n DESC, cause""").fetchall()
    gone = [(table, "its files are missing; copy the trace again", n) for table, n in trace.missing.items()]
    return [*gone, *((source, cause, int(count)) for source, cause, count in rows)]


def warn(trace: StoredTrace) -> bool:
    """Print the loss line on standard error when the trace is not complete; returns whether it was printed."""
    missing = lost(trace)
    if not missing:
        return False
    source, cause, count = missing[0]
    more = f" and {words.counted(len(missing) - 1, 'more cause', 'more causes')}" if len(missing) > 1 else ""
    terminal.warning(f"incomplete: {count:,} lost in {source}: {cause}{more} (warpsight info shows all)")
    return True


def findings(found: Iterable[Finding]) -> None:
    """Print findings on standard error: losses and warnings in red, notes plainly."""
    for finding in found:
        if finding.severity == "note":
            terminal.note(finding.text)
        else:
            terminal.warning(finding.text)
