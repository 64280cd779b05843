"""Whether an OpenCL loader honors OPENCL_LAYERS, tested in a separate process, and whether a loader is active in this process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_LOADER, _DRIVERS_FUNCTION = "libOpenCL", "clGetExtensionFunctionAddress"
#: Loads the loader as a program would, lists platforms, and looks whether our library has come into the
#: process.
_PROBE = """
import ctypes, sys
loader = ctypes.CDLL(sys.argv[1])
count = ctypes.c_uint()
loader.clGetPlatformIDs(0, None, ctypes.byref(count))
here = sys.argv[2] in open("/proc/self/maps").read()
print("layer" if here else "no layer", count.value)
"""


@dataclass(frozen=True)
class _LayerSupport:
    """The result of the trial: `works` is None if it could not run; `reason` explains why, in a sentence."""

    works: bool | None
    platforms: int
    reason: str


def in_use() -> bool:
    """Whether a loader in this process has loaded a driver; it has then read OPENCL_LAYERS, which it does only once.

    Loaders are called libOpenCL, so that programs find them; any other library with the function that identifies a driver
    (extension cl_khr_icd) is a driver.
    """
    import ctypes

    try:
        maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError:
        return False
    if _LOADER not in maps:
        return False
    loaders: set[int | None] = set()
    others: set[int | None] = set()
    for path in {parts[5] for line in maps.splitlines() if len(parts := line.split(None, 5)) > 5}:
        if ".so" not in path:
            continue
        try:
            function = getattr(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY), _DRIVERS_FUNCTION, None)
        except OSError:
            continue
        if function is not None:  # of the library, or of one that it is linked to
            address = ctypes.cast(function, ctypes.c_void_p).value
            (loaders if _LOADER in Path(path).name else others).add(address)
    return bool(others - loaders)


def probe(layer: Path, loader: str = "libOpenCL.so.1") -> _LayerSupport:
    """Run the loader with our layer and report whether it was loaded."""
    environment = {**os.environ, "OPENCL_LAYERS": str(layer)}
    environment.pop("WARPSIGHT_SOCKET", None)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _PROBE, loader, str(layer)],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _LayerSupport(None, 0, f"the loader could not be tried: {error}")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return _LayerSupport(None, 0, f"the loader could not be tried: {last}")
    answer, _, count = done.stdout.strip().rpartition(" ")
    if answer == "layer":
        return _LayerSupport(True, int(count), "the loader called our layer")
    return _LayerSupport(
        False,
        int(count),
        "the loader does not support OPENCL_LAYERS: it predates layers, or was built without them",
    )
