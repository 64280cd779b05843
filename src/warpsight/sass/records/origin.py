"""Sources of records: a file, or a trace that was imported from one."""

from __future__ import annotations

from pathlib import Path

from warpsight.errors import UsageError

#: First bytes of a zip archive, which a packed trace is.
_ZIP = b"PK"
#: First bytes of an event trace (:mod:`warpsight.formats.events.blocks`).
_EVENTS = b"WSEVENT1"


def is_trace(path: Path | str) -> bool:
    """Whether a path is an imported trace rather than a file of records."""
    place = Path(path)
    if place.is_file() and place.name != "manifest.json":
        with place.open("rb") as file:
            head = file.read(len(_EVENTS))
        if head == _EVENTS:
            raise UsageError(
                f"{path} is an event trace: ask it with sass events, memory or races, or import it first"
            )
        if head[:2] != _ZIP:
            return False  # decided without importing the trace reader
    elif not place.exists():
        return False
    elif (place / "manifest.json").is_file():
        return True
    from warpsight.formats.importing import is_trace as is_trace_of_ours

    return is_trace_of_ours(str(path))
