"""Running a program under a vendor's recorder, and importing what that leaves."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.errors import TraceError, UsageError, WarpsightError
from warpsight.session.backends import recorder
from warpsight.session.backends.vendor import Request, Vendor

if TYPE_CHECKING:
    from warpsight.formats.importing import Imported

#: Runs the program and leaves its exit code in the file that is $0; no argument passes through the shell's own rules.
_TELLS = '"$@"; code=$?; echo "$code" > "$0"; exit "$code"'


@dataclass(frozen=True)
class Finished:
    """A program that ran: its exit code, and the trace or why there is none.

    `kept` is where the recorder's own files lie, None when they are gone.
    """

    exit_code: int
    imported: Imported | None
    problem: str
    kept: Path | None


def request_of(
    vendor: Vendor, *, duration: float, delay: float, template: str, arguments: Sequence[str]
) -> Request:
    """What is asked of a recorder.

    Raises:
        UsageError: for something it cannot do.
    """
    for name, flag, value in (
        ("duration", "--for", duration),
        ("delay", "--delay", delay),
        ("template", "--template", template),
    ):
        if value and name not in vendor.takes:
            raise UsageError(f"--backend {vendor.name}: {vendor.tool} takes no {flag}")
    return Request(duration, delay, template, tuple(arguments))


def record(name: str, program: Sequence[str], path: Path, request: Request, *, keep: bool = False,
           force: bool = False) -> Finished:  # fmt: skip
    """Run `program` under a vendor's recorder into the trace `path`. The program shares our terminal.

    Raises:
        WarpsightError: when the recorder is not there or `path` exists; the program was not run.
    """
    vendor = recorder(name)
    tool = vendor.find()
    if tool is None:
        raise WarpsightError(f"--backend {name} runs {vendor.tool}, and there is none here: {vendor.advice}")
    if os.path.lexists(path) and not force:
        raise TraceError(f"{path} exists already; -f replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.{name}.", dir=path.parent.absolute()))  # mode 0700
    try:
        code = _run(vendor, tool, program, folder, request)
    except WarpsightError:  # it never ran
        shutil.rmtree(folder, ignore_errors=True)
        raise
    imported, problem = None, ""
    try:
        imported, problem = _import(vendor, folder, path, code, force)
    finally:  # whatever ends us: what was recorded stays until it is a trace
        kept = _kept(folder, path, vendor) if keep or imported is None else None
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)
    return Finished(code, imported, problem, kept)


def _kept(folder: Path, path: Path, vendor: Vendor) -> Path | None:
    """Move the recorder's files beside the trace, under a name that is free; None when there are none."""
    if not any(folder.iterdir()):
        folder.rmdir()
        return None
    for number in range(1, 10_000):
        place = path.with_suffix(f".{vendor.name}" if number == 1 else f".{vendor.name}-{number}")
        if not os.path.lexists(place):
            return folder.rename(place)
    return folder


def _run(vendor: Vendor, tool: Sequence[str], program: Sequence[str], folder: Path, request: Request) -> int:
    """The program's exit code, 128 + signal."""
    from warpsight.session.launch import start_error

    told = folder / ".exit-code"
    inner = (
        ["/bin/sh", "-c", _TELLS, str(told), *program]
        if vendor.hides_exit_code and program
        else list(program)
    )
    if program and shutil.which(program[0]) is None:
        raise start_error(program[0], FileNotFoundError(2, "No such file"))
    command = [*tool, *vendor.arguments(request, folder, inner)]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        child = subprocess.Popen(command, close_fds=False)
    except OSError as error:
        raise start_error(command[0], error) from None
    with _passed_on(child):
        code = child.wait()
    code = 128 - code if code < 0 else code
    found: int | None = None
    if vendor.hides_exit_code:
        with contextlib.suppress(OSError, ValueError):
            found = int(told.read_text())
        told.unlink(missing_ok=True)
    elif vendor.exit_code is not None:
        found = vendor.exit_code(folder)
    return code if found is None else found


@contextlib.contextmanager
def _passed_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Signals sent to us go to the recorder, which ends the program and keeps its data. Keys on the terminal reach it anyway."""

    def pass_on(number: int, frame: Any) -> None:
        if number == signal.SIGINT and sys.stdin is not None and sys.stdin.isatty():
            return
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    before = {
        number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _import(vendor: Vendor, folder: Path, path: Path, code: int, force: bool) -> tuple[Imported | None, str]:
    """The trace, or why there is none: the program's exit code must not be lost for it."""
    from warpsight.formats.importing import import_files

    found = vendor.outputs(folder)
    if not found:
        return None, f"{vendor.tool} left no recording (it ended with code {code})"
    try:
        return import_files(found, path, vendor.form, force), ""
    except WarpsightError as error:
        return None, str(error)
