"""Disassembly with NVIDIA's `nvdisasm`, from the wheel `nvidia-cuda-nvdisasm` or a toolkit, if available.

The code is passed as raw instructions with its address, so no cubin is written or parsed, and disassembling a part of a kernel
costs only that part. nvdisasm's known flaws do not matter here: it repeats the chain of inlined calls only when the innermost
line changes, and prints no function names, but chains come from :mod:`warpsight.device_code.cubin`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

#: Bytes of one instruction since Volta.
INSTRUCTION_SIZE = 16
_LINE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;?\s*$")
_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Instruction:
    """One instruction: its address (as given to :func:`disassemble`) and its text without the semicolon."""

    address: int
    text: str

    @property
    def operation(self) -> str:
        """The operation with its modifiers: `LDG.E.STRONG.SYS`."""
        words = self.text.split()
        return next((word for word in words if not word.startswith(("@", "{"))), "")


@lru_cache(maxsize=8)
def find_tool(name: str) -> Path | None:
    """A program of the CUDA toolkit: on PATH, in an installed wheel, in CUDA_HOME or /usr/local/cuda."""
    import shutil

    found = shutil.which(name)
    if found:
        return Path(found)
    folders = [Path(sys.prefix, "bin")]
    for entry in sys.path:
        if entry.endswith(("site-packages", "dist-packages")):
            folders += [*Path(entry, "nvidia").glob("*/bin"), *Path(entry, "nvidia").glob(f"*/{name}")]
    for variable in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        if os.environ.get(variable):
            folders.append(Path(os.environ[variable], "bin"))
    folders.append(Path("/usr/local/cuda/bin"))
    for folder in folders:
        candidate = folder / name
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    return None


def disassemble(code: bytes, address: int, architecture: int) -> list[Instruction]:
    """Instructions of a piece of code.

    Args:
        code: whole instructions of 16 bytes each.
        address: address of the first instruction.
        architecture: the number in `sm_90`.

    Returns:
        The instructions that nvdisasm could read; empty without nvdisasm, or for code that it does not support.
    """
    tool = find_tool("nvdisasm")
    if tool is None or not code or not architecture:
        return []
    # Features of a single architecture (sm_90a: wgmma) are a superset; older ones have no such name.
    for suffix in ("a", "") if architecture >= 90 else ("",):
        found = _run(tool, code, address, f"SM{architecture}{suffix}")
        if found:
            return found
    return []


def disassemble_together(codes: Mapping[int, bytes], architecture: int) -> dict[int, dict[int, str]]:
    """Texts of several pieces of code by key and offset, from a single run of nvdisasm over their concatenation.

    A run takes a tenth of a second and more, whatever it reads.
    """
    found: dict[int, dict[int, str]] = {key: {} for key in codes}
    texts = {one.address: one.text for one in disassemble(b"".join(codes.values()), 0, architecture)}
    begin = 0
    for key, code in codes.items():
        for offset in range(0, len(code), INSTRUCTION_SIZE):
            if begin + offset in texts:
                found[key][offset] = texts[begin + offset]
        begin += len(code)
    return found


def _run(tool: Path, code: bytes, address: int, architecture: str) -> list[Instruction]:
    import subprocess
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="warpsight-", suffix=".sass") as file:
        file.write(code)
        file.flush()
        command = [str(tool), "-ndf", "--binary", architecture, "--base-address", hex(address), file.name]
        try:
            done = subprocess.run(
                command, capture_output=True, errors="replace", timeout=_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return []
    return parse(done.stdout)


def parse(text: str) -> list[Instruction]:
    """The instructions of nvdisasm's output."""
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            found.append(Instruction(int(match[1], 16), " ".join(match[2].split())))
    return found
