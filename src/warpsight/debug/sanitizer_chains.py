"""Completes source chains of findings that name only one line, from the program's own code.

Race reports have the innermost function and the instruction's offset, but not the calls it was inlined through. The program's
cubins, taken out of it by `cuobjdump`, have the chain: the instruction at that offset whose innermost line is the reported one.
If several kernels fit and disagree, the finding keeps its single line.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from warpsight.debug.sanitizer_report import RaceSide, SanitizerFinding
from warpsight.device_code.cubin import Cubin
from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.device_code.disassembly import find_tool
from warpsight.device_code.elf import ElfError

_TIMEOUT_S = 30.0


def complete(findings: Iterable[SanitizerFinding], program: Sequence[str]) -> None:
    """Give accesses without outer frames their full chain, if the program's code contains it and cuobjdump is installed."""
    short = [finding for finding in findings if any(len(access.chain) == 1 for access in finding.accesses)]
    if not short:
        return
    with tempfile.TemporaryDirectory(prefix="warpsight-code-") as folder:
        cubins = list(_cubins(program, Path(folder)))
        for finding in short:
            finding.accesses = tuple(completed(access, cubins) for access in finding.accesses)


def completed(access: RaceSide, cubins: Sequence[Cubin]) -> RaceSide:
    """The access with the chain of its instruction; unchanged unless exactly one fits."""
    if access.offset is None or len(access.chain) != 1:
        return access
    inner = access.chain[0]
    found: set[tuple[Frame, ...]] = set()
    for cubin in cubins:
        for section in cubin.sections:
            chain = cubin.chain(section, access.offset)
            if chain and (chain.innermost.file, chain.innermost.line) == (inner.file, inner.line):
                found.add(chain.frames)
    return replace(access, chain=found.pop()) if len(found) == 1 else access


def _cubins(program: Sequence[str], folder: Path) -> Iterable[Cubin]:
    tool, path = find_tool("cuobjdump"), shutil.which(program[0]) if program else None
    if tool is None or path is None:
        return
    command = [str(tool), "-xelf", "all", str(Path(path).resolve())]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return
    for file in sorted(folder.glob("*.cubin")):
        try:
            yield Cubin.open(file)
        except ElfError:
            continue
