"""Runs `warpsight-replay`, under a tool and with a time limit, and again at other addresses if one was taken."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from warpsight import _native
from warpsight.device_code.disassembly import find_tool
from warpsight.errors import UsageError, WarpsightError
from warpsight.replay import results
from warpsight.replay.results import ReplayResults
from warpsight.replay.script import WrittenScript

PROGRAM = "warpsight-replay"
_ADDRESS_TAKEN = 3
#: The program's name for the failure when the driver, or one of its functions, is missing.
_NO_DRIVER, LIBRARY = "driver", "libcuda.so.1"
#: Each try is loaded at other random addresses; every other one is loaded without randomization.
TRIES = 8
_NO_RANDOMIZATION = 0x0040000
#: Arguments that debuggers require before the program's own.
_DEBUGGERS = ("cuda-gdb", "gdb")


def program() -> Path:
    """Path of the replay program.

    Raises:
        WarpsightError: when this installation lacks it.
    """
    return _native.needed_beside(
        PROGRAM,
        f"cannot replay: {PROGRAM} is missing, because a build without CUDA's headers leaves it out; install a Linux wheel",
    )


def tool_command(under: str) -> list[str]:
    """The words of `--under`, with the tool's full path first.

    Raises:
        UsageError: when it is empty or the tool is not installed.
    """
    words = shlex.split(under)
    path = find_tool(words[0]) if words else None
    if path is None:
        raise UsageError(
            f"--under {under!r}: {words[0] if words else 'nothing'} is not installed or not on the PATH"
        )
    return [str(path), *words[1:], *(["--args"] if path.name in _DEBUGGERS else [])]


def run(
    written: WrittenScript, folder: Path, *, under: Sequence[str] = (), timeout: float | None = None,
    variables: Mapping[str, str] | None = None,
) -> ReplayResults:  # fmt: skip
    """Run a script, again at other addresses if a needed one is taken; `variables` are additional environment variables.

    Raises:
        WarpsightError: when it cannot be run, runs too long, or a needed address stays taken.
    """
    command = [*under, str(program()), str(written.script), str(written.data), str(folder)]
    for attempt in range(TRIES):
        code = _once(
            command, timeout, randomized=attempt % 2 == 1, interactive=bool(under), variables=variables or {}
        )
        found = results.read(folder / "results")
        if found.taken is None or code not in (_ADDRESS_TAKEN, 0):
            break
    if found.failure is not None and found.failure.error == _NO_DRIVER:
        raise WarpsightError(_without_driver(found.failure.what))
    if found.taken is not None:
        address, by = found.taken
        raise WarpsightError(
            f"the address {address:#x} of the recording is taken by {by} in each of {TRIES} processes: nothing was replayed"
        )
    if not found.ended and found.failure is None and not under:
        found.failure = results.Failure(-1, f"exit code {code}", "the replay ended early")
    return found


def _without_driver(missing: str) -> str:
    if missing == LIBRARY:
        return f"nothing was replayed: this machine has no NVIDIA driver ({LIBRARY} cannot be loaded)"
    return f"nothing was replayed: the NVIDIA driver is too old, it has no {missing}"


def start_stepping(written: WrittenScript, folder: Path) -> subprocess.Popen[bytes]:
    """Start the program for a debugger (native/replay/serve.h): commands on its input, answers on its output."""
    return subprocess.Popen(
        [str(program()), str(written.script), str(written.data), str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def _once(
    command: Sequence[str], timeout: float | None, *, randomized: bool, interactive: bool, variables: Mapping[str, str]
) -> int:  # fmt: skip
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **variables},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=None if interactive else sys.stderr,
            preexec_fn=None if randomized else _fixed_addresses(),
        )
    except OSError as error:
        raise WarpsightError(f"{command[0]}: {error.strerror or error}") from None
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise WarpsightError(
            f"the replay did not finish within {timeout:g} s (--timeout): a kernel that hangs, or one that is slow under a tool"
        ) from None
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _fixed_addresses() -> Callable[[], None]:
    libc = ctypes.CDLL(None)  # loaded here: little may be done between fork and exec

    def prepare() -> None:
        libc.personality(_NO_RANDOMIZATION)

    return prepare
