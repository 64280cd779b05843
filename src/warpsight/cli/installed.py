"""What this installation consists of: the parts of warpsight and the libraries it uses."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

from warpsight._version import __version__

LIBRARIES = ("pyarrow", "duckdb", "numpy", "typer", "rich", "fsspec", "msgspec", "nvidia-ml-py",
             "nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12", "nvidia-cuda-cupti-cu13", "viztracer", "torch")  # fmt: skip


def versions() -> dict[str, Any]:
    """What is installed; `recorder` is the path of the compiled part or None."""
    from warpsight import _native
    from warpsight.trace.schema import SCHEMA_VERSION

    library = _native.library_path()
    libraries = {}
    for name in LIBRARIES:
        try:
            libraries[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "warpsight": __version__,
        "trace_schema": SCHEMA_VERSION,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "recorder": None if library is None else str(library),
        "libraries": libraries,
    }


def text() -> str:
    """The same for reading."""
    found = versions()
    lines = [
        f"warpsight {found['warpsight']}",
        f"Python {found['python']}, {found['platform']}",
        f"recorder: {found['recorder'] or 'none: this installation reads traces but cannot record'}",
        *(f"{name} {version}" for name, version in found["libraries"].items()),
    ]
    return "\n".join(lines) + "\n"
