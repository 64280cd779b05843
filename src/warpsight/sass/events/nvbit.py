"""The NVBit tool, which records any instruction and its registers: found, or built with the user's copy of NVBit.

We may not ship NVBit, so the user names a copy in NVBIT_PATH, and nvcc links it with our sources, once for each copy and GPU.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from warpsight import _native
from warpsight.errors import WarpsightError
from warpsight.machine.nvbit import PATH, compiler, core_folder

_TOOL = "libwarpsight_nvbit.so"
#: The environment of a program that runs with NVBit: no banner, no advice for tool writers.
QUIET = {"NOBANNER": "1", "ACK_CTX_INIT_LIMITATION": "1"}

#: Categories of `--category`: extended regular expressions on an instruction's text.
_GUARD = r"^(@!?U?P[T0-9]+ +)?"
CATEGORIES = {
    "mma": _GUARD + r"([HIDBQO]G?MMA|UTC[A-Z0-9]*MMA|BGMMA|QGMMA|IGMMA)",
    "tma": _GUARD + r"(UTMA|UBLKCP|UBLKRED|UBLKPF)",
    "sync": _GUARD + r"(BAR|B2R|SYNCS|WARPSYNC|WARPGROUP|"
    r"DEPBAR|LDGDEPBAR|ARRIVES|MEMBAR|FENCE|ERRBAR|UCGABAR|ELECT|ACQBULK|NANOSLEEP)",
    "memory": _GUARD + r"(LD|ST|ATOM|RED[^U]|UBLK|UTMA)",
}  # fmt: skip


def tool(architectures: Callable[[], Sequence[int]]) -> Path:
    """The tool, built first for the architectures (90 for sm_90) if necessary.

    Raises:
        WarpsightError: when a part is missing, or nvcc fails.
    """
    ready = _native.installed_beside(_TOOL)
    if ready is not None and PATH not in os.environ:
        return ready
    core, nvcc, sources = core_folder(), compiler(), _sources()
    numbers = architectures()
    built = _place(core, nvcc, sources, numbers)
    if not built.is_file():
        command = [
            sys.executable,
            str(sources / "nvbit" / "build.py"),
            "--nvbit",
            str(core),
            "--nvcc",
            str(nvcc),
        ]
        command += ["--output", str(built), "--architectures", *map(str, numbers)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
            first = next((line for line in said if "error" in line), said[0])
            raise WarpsightError(f"the NVBit tool cannot be built with {core}: {first}")
    return built


def _sources() -> Path:
    library = _native.library_path()
    places = [Path(__file__).parents[4] / "native"]  # a build in the source tree
    if library is not None:
        places.insert(0, library.with_name("nvbit_sources"))
    for place in places:
        if (place / "nvbit" / "build.py").is_file():
            return place
    raise WarpsightError("this installation of warpsight cannot build the NVBit tool: it lacks the sources")


def _place(core: Path, nvcc: Path, sources: Path, architectures: Sequence[int]) -> Path:
    """Where the tool is cached, named by a hash of its inputs."""
    made = hashlib.sha256(f"{nvcc}\n{nvcc.stat().st_mtime_ns}\n{list(architectures)}".encode())
    for folder in ("nvbit", "sanitizer", "cuda", "ring", "runtime"):
        for file in sorted((sources / folder).glob("*")):
            if file.is_file():
                made.update(file.name.encode() + file.read_bytes())
    made.update((core / "libnvbit.a").read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "warpsight" / f"nvbit-{made.hexdigest()[:16]}" / _TOOL
