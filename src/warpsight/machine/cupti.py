"""Where libcupti is, which version it has, and its problems; the recorder searches in the same order."""

from __future__ import annotations

import ctypes
import glob
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

_WHEEL_FOLDERS = ("cu13/lib", "cuda_cupti/lib", "cu12/lib")

#: (first, last, problem): cuptiGetVersion, inclusive. The recorder has the same table (native/cuda/versions.cpp).
KNOWN_PROBLEMS = (
    (
        0,
        23,
        "detaching is unsafe once CUDA graphs were used, "
        "so a stopped recorder stays attached (fixed in 12.6)",
    ),
    (22, 22, "CUDA 12.4 update 1 may deliver no kernel records at all (fixed in 12.5)"),
    (130000, 130100, "graph ids of kernels can be wrong (fixed in 13.1 update 1)"),
    (
        130000,
        130400,
        "kernel names can be stale after modules were unloaded, "
        "and CPU use can grow over hours (fixed in 13.4 update 1)",
    ),
)


@dataclass(frozen=True)
class _Cupti:
    """An installed libcupti. `version` is cuptiGetVersion, None if it cannot be queried (see `error`)."""

    path: Path
    major: int
    version: int | None
    error: str | None


def known_problems(version: int) -> list[str]:
    """Known problems of a version."""
    return [text for first, last, text in KNOWN_PROBLEMS if first <= version <= last]


def find(driver_major: int | None) -> _Cupti | None:
    """The library the recorder would use: never of a newer major version than the driver's."""
    override = os.environ.get("WARPSIGHT_CUPTI")
    candidates = [Path(override)] if override else [*_wheels(), *_toolkits()]
    for path in candidates:
        major = int(path.name.partition(".so.")[2].split(".")[0] or 0)
        if override or driver_major is None or major <= driver_major:
            version, error = library_version(path, "cuptiGetVersion")
            return _Cupti(path, major, version, error)
    return None


def _libraries(folder: Path) -> list[Path]:
    found = [Path(p) for p in glob.glob(str(folder / "libcupti.so.1[23]"))]
    return sorted(found, key=lambda p: p.name, reverse=True)


def _wheels() -> list[Path]:
    roots = dict.fromkeys([sysconfig.get_path("purelib"), *[p for p in sys.path if p.endswith("-packages")]])
    return [
        lib
        for root in roots
        for folder in _WHEEL_FOLDERS
        for lib in _libraries(Path(root) / "nvidia" / folder)
    ]


def _toolkits() -> list[Path]:
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    roots += sorted(glob.glob("/usr/local/cuda-1[23]*"), reverse=True)
    folders = ("extras/CUPTI/lib64", "lib64", "lib")
    return [
        lib
        for root in dict.fromkeys(roots)
        if root
        for folder in folders
        for lib in _libraries(Path(root) / folder)
    ]


def library_version(path: Path, function: str) -> tuple[int | None, str | None]:
    """A library's version, or the reason why it is unknown; queried in a separate process, which a mismatch may crash."""
    code = (
        "import ctypes, sys; v = ctypes.c_uint(); "
        "r = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])(ctypes.byref(v)); print(v.value if r == 0 else -r)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code, str(path), function],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    text = done.stdout.strip()
    if not done.returncode and text.startswith("-"):
        return None, f"{function} fails with {text[1:]}: it needs a driver"
    if done.returncode or not text.isdigit():
        return None, (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    return int(text), None


def loadable() -> bool:
    """Whether the dynamic loader itself finds a libcupti (LD_LIBRARY_PATH, ldconfig)."""
    for major in (13, 12):
        try:
            ctypes.CDLL(f"libcupti.so.{major}")
        except OSError:
            continue
        return True
    return False
