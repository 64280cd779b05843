"""What a vendor's recorder is: where it is, how it is called, what it leaves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """What the user asked of the recorder. Seconds; 0 is not given."""

    duration: float = 0.0
    delay: float = 0.0
    #: Template of Instruments; empty for the recorder's own choice.
    template: str = ""
    #: The user's own arguments for the recorder, which stand behind ours.
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vendor:
    """One recorder.

    `arguments(request, folder, program)` is everything behind the recorder's name, the program at its end; `outputs(folder)`
    are the files to import, the newest run's only.
    """

    name: str
    tool: str
    #: What to do when the recorder is not there.
    advice: str
    find: Callable[[], list[str] | None]
    arguments: Callable[[Request, Path, Sequence[str]], list[str]]
    outputs: Callable[[Path], list[Path]]
    #: The reader of what it leaves.
    form: str
    #: The recorder does not promise to end with the program's exit code: the program says it itself, in a file.
    hides_exit_code: bool = False
    #: The program's exit code as the recording tells it, for recorders that launch it themselves.
    exit_code: Callable[[Path], int | None] | None = None
    #: Options of `record` that it takes beside its own: duration, delay, template.
    takes: tuple[str, ...] = ()


def on_path(program: str, *folders: str | None) -> list[str] | None:
    """The command that runs a program: on PATH, or else in one of these folders."""
    found = shutil.which(program)
    for folder in folders:
        if found is None and folder:
            candidate = os.path.join(folder, program)
            found = candidate if os.access(candidate, os.X_OK) and os.path.isfile(candidate) else None
    return [found] if found else None


def below(variable: str, *parts: str) -> str | None:
    """A folder below the one that an environment variable names; None when it is not set."""
    root = os.environ.get(variable)
    return os.path.join(root, *parts) if root else None


def given(arguments: Sequence[str], *flags: str) -> bool:
    """Whether the user gave one of these flags, with its value attached or behind."""
    return any(one == flag or one.startswith(flag + "=") for one in arguments for flag in flags)
