"""ROCm's part of `warpsight doctor` and `warpsight version`."""

from __future__ import annotations

from pathlib import Path

from warpsight.machine.checks import DEGRADED, Check
from warpsight_plugins.rocm import devices, library


def checks() -> list[Check]:
    """librocprofiler-sdk; nothing on machines with neither an AMD GPU nor ROCm."""
    found = library.find()
    if found is not None:
        version = f", version {found.version}" if found.version else ""
        return [Check("ROCm recording", DEGRADED, f"{found.path}{version}: {library.UNTESTED}")]
    if not devices.devices(Path("/sys")):
        return []
    why = "no librocprofiler-sdk: --backend rocm runs rocprofv3 instead"
    return [
        Check("ROCm recording", DEGRADED, why, "install ROCm's package rocprofiler-sdk, or set ROCM_PATH")
    ]


def libraries() -> dict[str, str | None]:
    """Where librocprofiler-sdk is."""
    found = library.find()
    return {"rocprofiler-sdk": str(found.path) if found else None}
