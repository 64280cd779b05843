"""Where MetaX' libmcpti is, and its version; the recorder (native/maca/find_mcpti.cpp) looks in the same places."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from warpsight.machine import pci
from warpsight.machine.cupti import library_version

LIBRARY = "libmcpti.so"
#: The library that every program of MACA uses, a version behind its name or not.
RUNTIME = "libmcruntime.so"
_VENDOR_ID = 0x9999
#: The oldest version whose records are known.
OLDEST = 18
UNTESTED = "untested on hardware"


def find() -> Path | None:
    """The library that a MACA program probably loads, or None.

    The recorder takes the one in the program, or beside its runtime, before any of these.
    """
    override = os.environ.get("WARPSIGHT_MCPTI")
    if override:
        return Path(override) if os.path.isfile(override) else None
    return next((folder / LIBRARY for folder in _folders() if (folder / LIBRARY).is_file()), None)


def expected() -> bool:
    """Whether programs here may use MACA: a MetaX GPU, the SDK, or a variable that names its folder."""
    has_variable = any(os.environ.get(variable) for variable in ("MACA_PATH", "MACA_ROOT", "MACA_HOME"))
    return has_variable or bool(glob.glob("/opt/maca*")) or any(pci.devices(_VENDOR_ID))


def usable() -> Path | None:
    """The library, unless its version is too old."""
    path = find()
    if path is not None and os.environ.get("WARPSIGHT_MCPTI") is None:
        number, _ = version(path)
        if number is not None and number < OLDEST:
            return None
    return path


def version(path: Path) -> tuple[int | None, str | None]:
    """The library's API version, or None and the reason."""
    return library_version(path, "mcptiGetVersion")


def _folders() -> Iterator[Path]:
    for variable in ("MACA_PATH", "MACA_ROOT", "MACA_HOME"):
        if root := os.environ.get(variable):
            yield from _below(root)
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder:
            yield Path(folder)
    for root in ("/opt/maca", *sorted(glob.glob("/opt/maca-*"), reverse=True)):
        yield from _below(root)


def _below(root: str) -> tuple[Path, Path]:
    return Path(root, "lib"), Path(root, "lib64")
