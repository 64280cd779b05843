"""Where librocprofiler-sdk is, through which AMD's GPUs are recorded in the process. Untested on AMD's hardware."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

#: The names that ROCm's runtimes and the recorder look for.
_NAMES = ("librocprofiler-sdk.so", "librocprofiler-sdk.so.1", "librocprofiler-sdk.so.0")
#: Python packages that bring ROCm along, and where in them.
_PACKAGES = (("torch", "lib"), ("_rocm_sdk_core", "lib"))
#: Shown wherever recording through it is offered.
UNTESTED = "ROCm programs are recorded in the process (--backend rocm), untested on AMD's hardware"
_VERSION = re.compile(r"\.so\.(\d+\.\d+\.\d+)$")


@dataclass(frozen=True)
class _Rocprofiler:
    """An installed librocprofiler-sdk; `version` comes from its file name, None if that has none."""

    path: Path
    version: str | None


def find(environment: Mapping[str, str] = os.environ) -> _Rocprofiler | None:
    """The library that a program with this environment would load.

    Looked for in LD_LIBRARY_PATH, then below ROCM_PATH, in /opt/rocm and /opt/rocm-*, and in the PyTorch or ROCm wheels of
    this Python.
    """
    for folder in _folders(environment):
        for name in _NAMES:
            path = folder / name
            if path.is_file():
                version = _VERSION.search(path.resolve().name)
                return _Rocprofiler(path, version[1] if version else None)
    return None


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    for part in environment.get("LD_LIBRARY_PATH", "").split(":"):
        if part:
            yield Path(part)
    if root := environment.get("ROCM_PATH"):
        yield Path(root) / "lib"
    yield Path("/opt/rocm/lib")
    yield from sorted(Path("/opt").glob("rocm-*/lib"), reverse=True)
    for package, below in _PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place) / below
