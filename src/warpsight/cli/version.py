"""`warpsight version` and `warpsight --version`: the parts and libraries this installation has."""

from __future__ import annotations

import json
import platform
import sys
from importlib import metadata
from typing import Annotated, Any

import typer

from warpsight._version import __version__

LIBRARIES = ("pyarrow", "duckdb", "numpy", "typer", "rich", "fsspec", "msgspec", "nvidia-ml-py",
             "nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12", "nvidia-cuda-cupti-cu13", "viztracer", "torch")  # fmt: skip


def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show versions of warpsight, its parts and its libraries."""
    found = versions()
    if as_json:
        print(json.dumps(found, indent=1))
        return
    print(f"warpsight {found['warpsight']}")
    print(f"Python {found['python']}, {found['platform']}")
    print(f"recorder: {found['recorder'] or 'none: this installation reads traces but cannot record'}")
    for name, version in found["libraries"].items():
        print(f"{name} {version}")


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
