"""MACA's part of `warpsight doctor`."""

from __future__ import annotations

from pathlib import Path

from warpsight.machine.checks import DEGRADED, MISSING, Check
from warpsight_plugins.maca import devices, library

_FEATURE = "MetaX recording"


def checks() -> list[Check]:
    """libmcpti; nothing on machines with neither a MetaX GPU nor its SDK."""
    path = library.find()
    if path is None:
        if not devices.devices(Path("/sys")):
            return []
        why = f"no {library.LIBRARY}: --backend maca runs mcTracer instead"
        advice = "install the SDK's mcpti package, or set MACA_PATH or WARPSIGHT_MCPTI"
        return [Check(_FEATURE, DEGRADED, why, advice)]
    version, problem = library.version(path)
    if version is None:
        return [Check(_FEATURE, DEGRADED, f"{path}: {problem}")]
    shown = f"{path}, API version {version}"
    if version < library.OLDEST:
        return [Check(_FEATURE, MISSING, f"{shown}, older than {library.OLDEST}", "install a newer MACA SDK")]
    return [Check(_FEATURE, DEGRADED, f"{shown}: {library.UNTESTED}")]


def libraries() -> dict[str, str | None]:
    """None: `doctor` reports the location of libmcpti, if there is one."""
    return {}
