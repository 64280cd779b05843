"""What the tests of host stacks share: interpreters to test, and stacks read back from segment files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.capture.segments import layout

HERE = Path(__file__).parent
#: Minor versions of CPython; with a t those built without a GIL.
MINORS = (10, 11, 12, 13, 14, "13t", "14t")

#: (qualified name, file, line), as the tests' programs log them.
Frame = tuple[str, str, int]


@cache
def interpreter(minor: int | str) -> str | None:
    """A CPython 3.`minor`: this one, on PATH, or one that pyenv has; None when there is none."""
    if f"{sys.version_info[1]}{sys.abiflags}" == str(minor):
        return sys.executable
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = shutil.which(f"python3.{minor}")
    candidates = [Path(found)] if found else []
    number = str(minor).rstrip("t")
    kind = str(minor)[len(number) :]
    for path in [*candidates, *sorted(versions.glob(f"3.{number}.*[0-9]{kind}/bin/python3"))]:
        command = [str(path), "-c", "import sys, ctypes; print(f'{sys.version_info[1]}{sys.abiflags}')"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if answer.stdout.strip() == str(minor):
            return str(path)
    return None


@dataclass
class Recorded:
    """Rows of one directory of segments."""

    strings: dict[int, str]
    frames: dict[int, Any]
    stacks: dict[int, Any]
    samples: list[Any]

    def chain(self, stack: int) -> list[Frame]:
        """Frames of a stack, outermost first."""
        chain: list[Frame] = []
        while stack:
            row = self.stacks[stack]
            frame = self.frames[int(row["frame"])]
            chain.append(
                (self.strings[int(frame["function"])], self.strings[int(frame["file"])], int(frame["line"]))
            )
            stack = int(row["parent"])
        return chain[::-1]

    def kinds(self, stack: int) -> list[int]:
        """FRAME_* of each frame of a stack, outermost first."""
        kinds: list[int] = []
        while stack:
            row = self.stacks[stack]
            kinds.append(int(self.frames[int(row["frame"])]["kind"]))
            stack = int(row["parent"])
        return kinds[::-1]


def read(directory: Path) -> Recorded:
    """Read every segment under `directory`."""
    recorded = Recorded({0: ""}, {}, {}, [])
    header_type = layout.dtype(layout.BLOCK_HEADER)
    for path in sorted(directory.rglob("*.seg*")):
        data = path.read_bytes()
        for start in range(0, len(data) - layout.BLOCK_HEADER_BYTES + 1, layout.BLOCK_BYTES):
            header = np.frombuffer(data, header_type, 1, start)[0]
            payload = data[start + layout.BLOCK_HEADER_BYTES :][: int(header["committed"])]
            _add_block(recorded, int(header["kind"]), payload)
    return recorded


def _add_block(recorded: Recorded, kind: int, payload: bytes) -> None:
    if kind == layout.BY_NAME["String"].kind:
        _add_strings(recorded.strings, payload)
        return
    rows = np.frombuffer(payload, layout.dtype(layout.BY_KIND[kind]))
    if kind == layout.BY_NAME["Frame"].kind:
        recorded.frames.update((int(row["id"]), row) for row in rows)
    elif kind == layout.BY_NAME["Stack"].kind:
        recorded.stacks.update((int(row["id"]), row) for row in rows)
    elif kind == layout.BY_NAME["Sample"].kind:
        recorded.samples.extend(rows)


def _add_strings(strings: dict[int, str], payload: bytes) -> None:
    at = 0
    while at < len(payload):
        number, length = (int(word) for word in np.frombuffer(payload, "<u4", 2, at))
        strings[number] = payload[at + 8 : at + 8 + length].decode("utf-8")
        at += 8 + (length + 7) // 8 * 8
