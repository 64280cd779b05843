"""Runs an installed cuda-gdb with a time limit and reads its output.

Only its text is used: `info cuda kernels`, `info cuda threads` and the lines about exceptions, as cuda-gdb 12 and 13 print them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsight.device_code.disassembly import find_tool
from warpsight.errors import WarpsightError

Coordinates = tuple[int, int, int]
_TRIPLE = r"\((\d+),(\d+),(\d+)\)"
_KERNEL = re.compile(
    rf"^(\*?)\s*(\d+)\s+(\S+)\s+(\d+)\s+(-?\d+)\s+(\w+(?: \w+)*)\s+0x[0-9a-f]+\s+{_TRIPLE}\s+{_TRIPLE}\s+(.*?)\s*$"
)
_THREADS = re.compile(
    rf"^(\*?)\s*{_TRIPLE}\s+{_TRIPLE}\s+{_TRIPLE}\s+{_TRIPLE}\s+(\d+)\s+0x([0-9a-f]+)\s+(.*?)\s*(\d+)\s*$"
)
_KERNEL_HEADER = re.compile(r"^Kernel (\d+)\s*$")
_EXCEPTION = re.compile(r"^CUDA Exception: (.*?)\s*$", re.MULTILINE)
_TRIGGERED = re.compile(r"The exception was triggered at PC 0x([0-9a-f]+)")
_FOCUS = re.compile(
    rf"focus (?:set )?to CUDA kernel (\d+), grid (-?\d+),.*?block {_TRIPLE}, thread {_TRIPLE}, device (\d+), sm (\d+), "
    r"warp (\d+), lane (\d+)"
)


@dataclass(frozen=True)
class _GdbKernel:
    """A row of `info cuda kernels`: cuda-gdb's number, the grid's id and shape, and the name as printed."""

    number: int
    device: int
    grid_id: int
    status: str
    grid: Coordinates
    block: Coordinates
    name: str
    focus: bool


@dataclass(frozen=True)
class _Threads:
    """A row of `info cuda threads`: consecutive threads at one PC."""

    kernel: int
    first_block: Coordinates
    first_thread: Coordinates
    last_block: Coordinates
    last_thread: Coordinates
    count: int
    pc: int
    file: str
    line: int


@dataclass(frozen=True)
class _Focus:
    """The thread that cuda-gdb chose to show first."""

    kernel: int
    grid_id: int
    block: Coordinates
    thread: Coordinates
    device: int
    sm: int
    warp: int
    lane: int


@dataclass(frozen=True)
class GdbState:
    """What cuda-gdb printed.

    Attributes:
        exception: its words, None without one; `Trap` for a SIGTRAP, `Warp Assert` for a failed assertion.
    """

    kernels: tuple[_GdbKernel, ...]
    threads: tuple[_Threads, ...]
    focus: _Focus | None
    exception: str | None
    error_pc: int | None


def parse(text: str) -> GdbState:
    """Read cuda-gdb's output."""
    kernels, threads = [], []
    current = 0
    for line in text.splitlines():
        if match := _KERNEL_HEADER.match(line):
            current = int(match[1])
        elif match := _KERNEL.match(line):
            numbers = [int(n) for n in match.groups()[6:12]]
            kernels.append(
                _GdbKernel(int(match[2]), int(match[4]), int(match[5]), match[6], _triple(numbers[:3]),
                       _triple(numbers[3:]), match[13], bool(match[1]))
            )  # fmt: skip
        elif match := _THREADS.match(line):
            n = [int(number) for number in match.groups()[1:13]]
            threads.append(
                _Threads(current, _triple(n[:3]), _triple(n[3:6]), _triple(n[6:9]), _triple(n[9:]), int(match[14]),
                        int(match[15], 16), match[16].strip(), int(match[17]))
            )  # fmt: skip
    triggered = _TRIGGERED.search(text)
    return GdbState(tuple(dict.fromkeys(kernels)), tuple(dict.fromkeys(threads)), _focus(text), _exception(text),
                int(triggered[1], 16) if triggered else None)  # fmt: skip


def _triple(numbers: Sequence[int]) -> Coordinates:
    x, y, z = numbers
    return x, y, z


def _focus(text: str) -> _Focus | None:
    match = _FOCUS.search(text)
    if match is None:
        return None
    n = [int(number) for number in match.groups()]
    return _Focus(n[0], n[1], _triple(n[2:5]), _triple(n[5:8]), n[8], n[9], n[10], n[11])


def _exception(text: str) -> str | None:
    match = _EXCEPTION.search(text)
    if match:
        return match[1]
    if re.search(r"^Assertion failed\.$", text, re.MULTILINE):
        return "Warp Assert"
    return "Trap" if "terminated with signal SIGTRAP" in text else None


def find() -> Path | None:
    """The path of cuda-gdb; None if it is not installed."""
    found = shutil.which("cuda-gdb")
    return Path(found) if found else find_tool("cuda-gdb")


def run(commands: Sequence[str], timeout_s: float) -> str:
    """Run cuda-gdb over commands and return what it printed.

    Args:
        commands: run one after another; a failing one does not stop the next.
        timeout_s: seconds after which cuda-gdb is killed.

    Raises:
        WarpsightError: when cuda-gdb is not installed, cannot be started or takes too long.
    """
    tool = find()
    if tool is None:
        raise WarpsightError(
            "cuda-gdb is not installed: it is part of the CUDA toolkit (package cuda-gdb-13-0 or later)"
        )
    # run neither start-up files nor scripts next to the binaries that the process has loaded
    command = [
        str(tool),
        "--batch",
        "-nx",
        "-iex",
        "set auto-load no",
        "-ex",
        "set pagination off",
        "-ex",
        "set width 0",
    ]
    for text in commands:
        command += ["-ex", text]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
            errors="replace", timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise WarpsightError(f"cuda-gdb did not answer within {timeout_s:g} s") from None
    except OSError as error:
        raise WarpsightError(f"{tool}: {error.strerror or error}") from None
    return done.stdout


def core_commands(core: Path, kernels: int) -> list[str]:
    """Commands for a dump: its kernels, and every thread of the first few."""
    quoted = str(core).replace("\\", "\\\\").replace('"', '\\"')
    asked = [f"info cuda threads kernel {number}" for number in range(kernels)]
    return [
        f'target cudacore "{quoted}"' if " " in quoted else f"target cudacore {quoted}",
        "info cuda kernels",
        *asked,
    ]
