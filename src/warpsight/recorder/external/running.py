"""Running a program under a vendor's recorder, and importing its files."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.errors import TraceError, WarpsightError
from warpsight.machine.backends.backend import Backend
from warpsight.recorder.external import tool as tools
from warpsight.recorder.external.tool import Tool, ToolRequest
from warpsight.recorder.signals import run_to_end

if TYPE_CHECKING:
    from warpsight.formats.importing import Imported


@dataclass(frozen=True)
class _Finished:
    """A finished program: its exit code, and its trace or the reason why there is none.

    `kept` is where the recorder's own files are, None when they are gone.
    """

    exit_code: int
    imported: Imported | None
    problem: str
    kept: Path | None


def record(backend: Backend, program: Sequence[str], path: Path, request: ToolRequest, *, keep: bool = False,
           force: bool = False) -> _Finished:  # fmt: skip
    """Run `program` under a backend's recorder into the trace `path`. The program shares our terminal.

    Raises:
        WarpsightError: when the recorder is missing or `path` exists; the program was not run.
    """
    name, tool = backend.name, tools.of(backend)
    command = tool.find()
    if command is None:
        raise WarpsightError(
            f"--backend {name} runs {backend.program}, which is not installed here: {tool.advice}"
        )
    if os.path.lexists(path) and not force:
        raise TraceError(f"{path} exists already; -f replaces it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(
            tempfile.mkdtemp(prefix=f".{path.name}.{name}.", dir=path.parent.absolute())
        )  # mode 0700
    except OSError as error:
        raise TraceError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    try:
        code = _run(tool, command, program, folder, request)
    except WarpsightError:  # it never ran
        shutil.rmtree(folder, ignore_errors=True)
        raise
    imported, problem = None, ""
    try:
        imported, problem = _import(backend, folder, path, code, force)
    finally:  # whatever ends this process, the recorded data stays until it has become a trace
        kept = _kept(folder, path, name) if keep or imported is None else None
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)
    return _Finished(code, imported, problem, kept)


def _kept(folder: Path, path: Path, name: str) -> Path | None:
    """Move the recorder's files next to the trace, under an unused name; None if there are no files."""
    if not any(folder.iterdir()):
        folder.rmdir()
        return None
    for number in range(1, 10_000):
        place = path.with_suffix(f".{name}" if number == 1 else f".{name}-{number}")
        if not os.path.lexists(place):
            return folder.rename(place)
    return folder


def _run(
    tool: Tool, command: Sequence[str], program: Sequence[str], folder: Path, request: ToolRequest
) -> int:
    """The program's exit code, 128 + signal."""
    kept = folder / ".exit-code"
    _check(program)
    inner = list(program)
    if tool.hides_exit_code and program:
        inner = [sys.executable, str(Path(__file__).with_name("exit_code.py")), str(kept), *program]
    code = _wait_for([*command, *tool.arguments(request, folder, inner)])
    found: int | None = None
    if tool.hides_exit_code:
        with contextlib.suppress(OSError, ValueError):
            found = int(kept.read_text())
        kept.unlink(missing_ok=True)
    elif tool.exit_code is not None:
        found = tool.exit_code(folder)
    return code if found is None else found


def _check(program: Sequence[str]) -> None:
    """Refuse programs that a shell would refuse, before starting the recorder.

    Raises:
        StartError: with the shell's code, 127 or 126.
    """
    from warpsight.recorder.launch import start_error

    if not program or shutil.which(program[0]) is not None:
        return
    if os.path.dirname(program[0]) and os.path.exists(program[0]):
        raise start_error(program[0], PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    raise start_error(program[0], FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


def _wait_for(command: Sequence[str]) -> int:
    """Run the recorder to its end; returns its exit code. Signals are passed to it: it ends the program and keeps its data."""
    from warpsight.recorder.launch import start_error

    try:
        return run_to_end(command)
    except OSError as error:
        raise start_error(command[0], error) from None


def _import(
    backend: Backend, folder: Path, path: Path, code: int, force: bool
) -> tuple[Imported | None, str]:
    """The trace, or the reason why there is none; an import error must not hide the program's exit code."""
    from warpsight.formats.importing import import_files

    tool = tools.of(backend)
    found = tool.outputs(folder)
    if not found:
        return None, f"{backend.program} left no recording (it ended with code {code})"
    try:
        return import_files(found, path, tool.form, force), ""
    except WarpsightError as error:
        return None, str(error)
