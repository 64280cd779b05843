"""Getting the recorder into programs that use OpenCL: the loader puts it on top of the program's own layers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warpsight.machine.backends.backend import Requirement, Sign

LAYERS = "OPENCL_LAYERS"


def variables(library: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that loads `library` after the existing layers."""
    layers = [part for part in environment.get(LAYERS, "").split(":") if part and part != str(library)]
    return {LAYERS: ":".join([*layers, str(library)])}


def requirement() -> Requirement | None:
    """None, because there is nothing that the launcher needs to find."""
    return None


def sign() -> Sign | None:
    """None, because an OpenCL device may be the CPU, which every process uses."""
    return None
