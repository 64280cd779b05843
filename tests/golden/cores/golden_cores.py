"""The golden dumps: where they are and how to open them."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NAMES = sorted(path.name.removesuffix(".gpucore.xz") for path in HERE.glob("*.gpucore.xz"))


@cache
def content(name: str) -> bytes:
    """A dump as the driver wrote it."""
    return lzma.decompress((HERE / f"{name}.gpucore.xz").read_bytes())


def unpack(name: str, folder: Path) -> Path:
    """A dump as a file in a folder."""
    path = folder / f"{name}.gpucore"
    path.write_bytes(content(name))
    return path


def debugger_text(name: str) -> str:
    """What cuda-gdb 13.0 printed about it."""
    return (HERE / f"{name}.cuda-gdb.txt").read_text()
