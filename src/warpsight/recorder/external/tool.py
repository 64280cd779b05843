"""A vendor's recorder: its location, its command line, and the files it writes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsight.machine.backends.backend import Backend


@dataclass(frozen=True)
class ToolRequest:
    """The user's request to the recorder. Times in seconds; 0 means not given."""

    duration: float = 0.0
    delay: float = 0.0
    #: One of the recorder's presets by name; empty for its own choice.
    template: str = ""
    #: The process to record instead of a program; 0 for a program.
    pid: int = 0
    #: The user's own arguments for the recorder, which follow ours.
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tool:
    """One recorder.

    `arguments(request, folder, program)` returns everything after the recorder's name, ending with the program to record;
    `outputs(folder)` returns the files to import, only of the newest run.
    """

    #: What to do if the recorder is not installed.
    advice: str
    find: Callable[[], list[str] | None]
    arguments: Callable[[ToolRequest, Path, Sequence[str]], list[str]]
    outputs: Callable[[Path], list[Path]]
    #: The reader of its output.
    form: str
    #: The recorder may exit with a code of its own, so the program's is left in a file.
    hides_exit_code: bool = False
    #: The program's exit code as the recording has it, for recorders that launch it themselves.
    exit_code: Callable[[Path], int | None] | None = None
    #: Arguments that make it answer without recording, for `doctor --selftest`; None where the tool is ours.
    probe: tuple[str, ...] | None = ("--version",)


def of(backend: Backend) -> Tool:
    """The recorder of a backend that has one."""
    found: Tool = backend.part("tool").TOOL
    return found


def on_path(program: str, *folders: str | None) -> list[str] | None:
    """The command that runs a program, found on PATH or in one of these folders."""
    found = shutil.which(program)
    for folder in folders:
        if found is None and folder:
            candidate = os.path.join(folder, program)
            found = candidate if os.access(candidate, os.X_OK) and os.path.isfile(candidate) else None
    return [found] if found else None


def below(variable: str, *parts: str) -> str | None:
    """A folder below the one in an environment variable; None if it is not set."""
    root = os.environ.get(variable)
    return os.path.join(root, *parts) if root else None


def given(arguments: Sequence[str], *flags: str) -> bool:
    """Whether the user passed one of these flags, with its value attached or as the next argument."""
    return any(one == flag or one.startswith(flag + "=") for one in arguments for flag in flags)
