"""Programs of the stand-in (tests/standin) under warpsight's own commands."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, environment
from tests.standin import recording


@dataclass(frozen=True)
class Standin:
    """The built stand-in and how to run commands that use it."""

    folder: Path
    library: Path

    def program(self, *steps: str) -> list[str]:
        return [str(self.folder / "program"), *steps]

    def environment(self, **more: str) -> dict[str, str]:
        clean = {
            k: v
            for k, v in environment(self.library).items()
            if not k.startswith(("CUDA_", "STANDIN", "TORCH_"))
        }
        return {**clean, "LD_LIBRARY_PATH": str(self.folder), **more}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "warpsight.ui.cli", *arguments]

    def run(self, *arguments: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), env=self.environment(**more), cwd=cwd, capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)  # fmt: skip

    def start(self, *arguments: str, cwd: Path | None = None, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command(*arguments), env=self.environment(**more), cwd=cwd, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def build(library: Path, folder: Path) -> Standin:
    """Build the stand-in, or skip."""
    headers = recording.cuda_headers()
    if headers is None or recording.compiler() is None:
        pytest.skip("building the stand-in needs a C++ compiler and CUDA's headers")
    subprocess.run([recording.SOURCES / "build.sh", folder, headers], check=True)
    return Standin(folder, library)


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found


def child_named(pid: int, name: str) -> int:
    """The process id of a child by its executable's name."""
    found: list[int] = []

    def look() -> bool:
        for child in children(pid):
            try:
                if os.readlink(f"/proc/{child}/exe").endswith("/" + name):
                    found.append(child)
            except OSError:
                continue
        return bool(found)

    until(look, f"process {name}")
    return found[0]
