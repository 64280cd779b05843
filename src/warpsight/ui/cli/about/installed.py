"""The parts of this installation: warpsight's own and the libraries it uses."""

from __future__ import annotations

import ctypes
import platform
import sys
from importlib import metadata
from typing import Any

from warpsight._version import __version__

LIBRARIES = ("pyarrow", "duckdb", "numpy", "typer", "rich", "fsspec", "msgspec", "nvidia-ml-py",
             "nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12", "nvidia-cuda-cupti-cu13", "viztracer", "torch")  # fmt: skip

#: Programs that some verbs run, besides those of backends; `shutil.which` or the CUDA toolkit's folders find them.
PROGRAMS = ("cuda-gdb", "compute-sanitizer", "nvdisasm", "bpftrace")


def versions() -> dict[str, Any]:
    """What is installed; `recorder` is the path of the compiled part or None."""
    from warpsight import _native
    from warpsight.model.schema import SCHEMA_VERSION

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
        "parts": []
        if library is None
        else sorted(p.name for p in library.parent.glob("*warpsight*") if p.suffix in ("", ".so")),
        "libraries": libraries,
        "system": system(),
    }


def system() -> dict[str, str | None]:
    """Libraries and programs of the machine that verbs use: the location and version of each; None for missing ones."""
    from warpsight.device_code import disassembly
    from warpsight.machine.backends import registry

    found = _recorders_libraries() if sys.platform.startswith("linux") else {}
    programs = (*PROGRAMS, *(one.program for one in registry.external().values()))
    return found | {name: str(disassembly.find_tool(name) or "") or None for name in programs}


def _recorders_libraries() -> dict[str, str | None]:
    from warpsight.machine import cupti, opencl
    from warpsight.machine.backends import registry
    from warpsight.machine.cuda import cuda_driver

    driver = cuda_driver.version()
    tracing = cupti.find(driver[0] if driver else None)
    others: dict[str, str | None] = {}
    for one in registry.with_part("doctor"):
        others |= one.part("doctor").libraries()
    return {
        "CUDA driver": f"libcuda.so.1, CUDA {driver[0]}.{driver[1]}" if driver else None,
        "CUPTI": f"{tracing.path}, API version {tracing.version or 'unknown'}" if tracing else None,
        "NVML": _loadable("libnvidia-ml.so.1"),
        "OpenCL loader": getattr(opencl.library(), "_name", None),
        **others,
    }


def _loadable(name: str) -> str | None:
    try:
        ctypes.CDLL(name)
    except OSError:
        return None
    return name


def text() -> str:
    """The same for reading."""
    found = versions()
    lines = [
        f"warpsight {found['warpsight']}",
        f"Python {found['python']}, {found['platform']}",
        f"recorder: {found['recorder'] or 'none: this installation reads traces but cannot record'}",
        *([f"parts: {', '.join(found['parts'])}"] if found["parts"] else []),
        *(f"{name} {version}" for name, version in found["libraries"].items()),
        *(f"{name}: {where}" for name, where in found["system"].items() if where),
        f"not found: {', '.join(name for name, where in found['system'].items() if not where) or 'nothing'}",
    ]
    return "\n".join(lines) + "\n"
