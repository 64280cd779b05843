"""Traces from existing data: other tools' files, and what an interrupted recording left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from warpsight.errors import TraceError
from warpsight.formats.importing import Imported as Imported
from warpsight.formats.importing import import_files as import_files


def recover(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Make a trace of what an interrupted recording left at `path`.

    Returns:
        `recovered` (False when the trace was complete already), and the trace's `rows` by table and `loss`.

    Raises:
        TraceError: when there is nothing to recover, it is still being recorded, or the trace cannot be written; nothing
            is lost then.
    """
    from warpsight.capture import recover as recovering

    root = Path(path)
    try:
        found = recovering.recover(root)
    except OSError as error:
        raise TraceError(
            f"{root}: {error.strerror or error}; nothing was lost, run it again when that is fixed"
        ) from None
    return found
