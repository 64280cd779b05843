"""`warpsight record --export FORMAT`: writes the trace in another tool's format, next to the trace."""

from __future__ import annotations

import os
from pathlib import Path

from warpsight.errors import WarpsightError
from warpsight.formats.registry import exporter
from warpsight.ui.render import terminal


def check(path: Path, kind: str, *, force: bool) -> None:
    """Refuse an existing file already before the program runs.

    Raises:
        WarpsightError: when the file exists; the message names it.
    """
    beside = _beside(path, kind)
    if not force and os.path.lexists(beside):
        raise WarpsightError(f"{beside} exists already, where --export {kind} would write; -f replaces it")


def write(path: Path, kind: str, *, force: bool) -> None:
    """Export a trace; a failure is a warning, since the trace itself is complete."""
    from warpsight.ui.cli import parser

    beside = str(_beside(path, kind))
    code = parser.run(["export", str(path), "--to", kind, "-o", beside, *(["-f"] if force else [])])
    if code:
        terminal.warning(f"the trace is complete, but its export to {kind} failed with code {code}")


def _beside(path: Path, kind: str) -> Path:
    """Where the export of a trace goes."""
    return path.with_suffix(exporter(kind).suffix)
