"""Getting the recorder into programs that use ROCm: rocprofiler-sdk loads the tools that a variable names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warpsight.machine.backends.backend import Requirement, Sign
from warpsight_plugins.rocm import library as rocprofiler

TOOLS = "ROCP_TOOL_LIBRARIES"


def variables(library: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that loads `library` after the tools that are there."""
    tools = [part for part in environment.get(TOOLS, "").split(":") if part and part != str(library)]
    # rocprofiler-sdk 1.0 ignores what follows the last of several colons.
    return {TOOLS: ":".join([*tools, str(library), ""]) if tools else str(library)}


def requirement() -> Requirement | None:
    """librocprofiler-sdk."""
    found = rocprofiler.find()
    return Requirement(
        None if found is None else found.path,
        "librocprofiler-sdk, and there is none in LD_LIBRARY_PATH, $ROCM_PATH/lib, /opt/rocm/lib or this Python's ROCm "
        "wheels: install the package rocprofiler-sdk of ROCm 6.2 or newer",
    )


def sign() -> Sign | None:
    """Programs that use ROCm open the compute device."""
    return Sign("ROCm", "/dev/kfd", loader="rocprofiler-sdk", variable=TOOLS)
