"""Running `warpsight record` as a user would, and looking at what it left."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warpsight.model

ROOT = Path(warpsight.__file__).resolve().parent.parent
TIMEOUT = 120
#: Announces 100 events, then runs what its first argument says.
PROGRAM = """
import os, signal, subprocess, sys, threading, time
import warpsight as ws
for number in range(100):
    ws.emit(f"event {number % 10}", kind="test", number=number)
exec(sys.argv[1] if len(sys.argv) > 1 else "")
"""


@dataclass(frozen=True)
class Recorded:
    """A finished `warpsight record`."""

    code: int
    out: str
    err: str
    path: Path

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        with warpsight.model.open(self.path) as trace:
            return trace.sql(text).fetchall()

    @property
    def events(self) -> int:
        return int(self.sql("SELECT count(*) FROM user_event WHERE kind = 'test'")[0][0])

    @property
    def exits(self) -> list[str]:
        return [row[0] for row in self.sql("SELECT exit FROM process ORDER BY process")]


def environment(library: Path, **more: str) -> dict[str, str]:
    """Of a shell outside of any recording."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WARPSIGHT", "SLURM", "TORCHELASTIC"))
    }
    return {**clean, "WARPSIGHT_LIBRARY": str(library), "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **more}


def launcher(*arguments: str) -> list[str]:
    """`warpsight record …`."""
    return [sys.executable, "-m", "warpsight.ui.cli", "record", *arguments]


def program(then: str = "") -> list[str]:
    """A Python program that announces 100 events and then does `then`."""
    return [sys.executable, "-c", PROGRAM, then]


def record(
    library: Path, path: Path, command: list[str], *options: str, stdin: str = "", **more: str
) -> Recorded:
    """Record a command to its end."""
    done = subprocess.run(launcher("-o", str(path), *options, "--", *command), input=stdin, capture_output=True, text=True,
                          timeout=TIMEOUT, env=environment(library, **more), check=False)  # fmt: skip
    return Recorded(done.returncode, done.stdout, done.stderr, path)
