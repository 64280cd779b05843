"""`sass disasm`: a whole cubin as text, from NVIDIA's nvdisasm."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from warpsight.device_code.disassembly import find_tool
from warpsight.errors import WarpsightError
from warpsight.model.private_files import no_file


@dataclass(frozen=True)
class _Disassembly:
    """The text, and the command that produced it."""

    text: str
    command: tuple[str, ...]

    @property
    def lines(self) -> int:
        """Number of lines."""
        return self.text.count("\n")


def disassemble(
    cubin: Path, *, source_info: bool = True, line_info: bool = True, timeout_s: float = 60.0
) -> _Disassembly:
    """Disassemble a cubin: with files and lines (`-g`) and as plain code (`-c`) by default.

    Raises:
        WarpsightError: when nvdisasm is missing, fails, or takes longer than `timeout_s`.
    """
    if reason := no_file(cubin):
        raise WarpsightError(f"{cubin}: {reason}")
    tool = find_tool("nvdisasm")
    if tool is None:
        raise WarpsightError("nvdisasm was not found; install it with: pip install nvidia-cuda-nvdisasm")
    flags = [*(["-g"] if source_info else []), *(["-c"] if line_info else [])]
    command = (str(tool), *flags, str(cubin))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise WarpsightError(f"{cubin}: nvdisasm took longer than {timeout_s:g} s") from None
    if done.returncode:
        message = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise WarpsightError(f"{cubin}: nvdisasm: {message[-1]}")
    return _Disassembly(done.stdout, ("nvdisasm", *flags))
