"""Getting the recorder into programs that use MACA: a preloaded library starts it before their first call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from warpsight.errors import UsageError
from warpsight.machine.backends.backend import Requirement, Sign
from warpsight_plugins.maca import library as mcpti

PRELOAD = "LD_PRELOAD"
_ENTRY = "libwarpsight_maca.so"


def variables(library: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """LD_PRELOAD with a library of ours first, because no variable loads a tool into MACA.

    Raises:
        UsageError: when this installation lacks that library.
    """
    entry = library.with_name(_ENTRY)
    if not entry.is_file():
        raise UsageError(f"--backend maca: this installation has no {_ENTRY}; reinstall warpsight")
    preloaded = environment.get(PRELOAD, "").replace(" ", ":").split(":")
    return {PRELOAD: ":".join([str(entry), *(part for part in preloaded if part and part != str(entry))])}


def requirement() -> Requirement | None:
    """The library libmcpti."""
    return Requirement(
        mcpti.usable(),
        f"{mcpti.LIBRARY} of API version {mcpti.OLDEST} or newer, and there is none in $MACA_PATH/lib, LD_LIBRARY_PATH or "
        "/opt/maca*/lib: install the package mcpti of MetaX' SDK, or set WARPSIGHT_MCPTI",
    )


def sign() -> Sign | None:
    """Programs that use MACA map its runtime. The maps of large processes are read only where MACA may be in use."""
    if not mcpti.expected():
        return None
    return Sign("MACA", mapped=re.compile(rf"/{re.escape(mcpti.RUNTIME)}(?:\.[\d.]+)?$", re.MULTILINE))
