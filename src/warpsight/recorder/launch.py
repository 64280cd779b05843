"""Running a program under a recording: its terminal, signals and exit code stay the same."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from warpsight.errors import WarpsightError
from warpsight.recorder import join
from warpsight.recorder.environment import SOCKET, recorder_variables
from warpsight.recorder.options.settings import Settings
from warpsight.recorder.server import Server
from warpsight.recorder.signals import Signals

_PR_SET_CHILD_SUBREAPER = 36
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class StartError(WarpsightError):
    """The program could not be started; the exit code is the shell's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class EndedError(WarpsightError):
    """A program that should have run to its end was killed by a signal; the exit code is the shell's."""

    def __init__(self, number: int) -> None:
        super().__init__(f"the program was ended by {signal.Signals(number).name}, and is not run again")
        self.exit_code = 128 + number


def check_uninterrupted(code: int) -> None:
    """Refuse to run a program again after Ctrl-C, SIGTERM or SIGHUP ended it.

    Raises:
        EndedError: when a signal ended it; the message names the signal.
    """
    if code - 128 in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        raise EndedError(code - 128)


def join_or_serve(path: Path, command: Sequence[str], settings: Settings, *, force: bool,
                  joining: Callable[[], None]) -> Server:  # fmt: skip
    """Become the command inside an existing recording (and never return), or start a recording.

    `joining` is called before the command joins the recording around it.

    Raises:
        WarpsightError: when the command can neither join nor start a recording.
    """
    environment = dict(os.environ)
    socket = join.enclosing(environment)
    if socket is None:
        with join.alone(path):
            job = join.job_of(environment)
            socket = join.siblings(path, job)
            if socket is None:
                return Server(path, settings, force=force, job=job)
    else:
        joining()
    become(command, {**environment, **recorder_variables(settings, environment), SOCKET: socket})


def become(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command.

    Raises:
        StartError: when it cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and an ignored signal would be inherited
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        raise start_error(command[0], error) from None


def start_error(program: str, error: OSError) -> StartError:
    """A shell's message and exit code."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        here = "/" not in program and os.path.isfile(program)
        how = f"python {program}" if program.endswith(".py") else f"./{program}"
        return StartError(f"{program}: not found" + (f"; write {how}" if here else ""), NOT_FOUND)
    why = f"{program}: cannot be run: {(error.strerror or str(error)).lower()}"
    if error.errno == errno.EACCES and os.path.isfile(program):
        why += f"; write python {program}" if program.endswith(".py") else f"; chmod +x {program}"
    return StartError(why, NOT_EXECUTABLE)


def check_runnable(program: str) -> None:
    """Refuse a program before asking another process to start it.

    Raises:
        StartError: when it is not found (127) or not executable (126).
    """
    found = shutil.which(program)
    if found is not None:
        return
    place = Path(program)
    if os.sep not in program or not place.exists():
        raise start_error(program, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    reason = errno.EISDIR if place.is_dir() else errno.EACCES
    raise start_error(program, OSError(reason, os.strerror(reason)))


class LaunchedProgram:
    """One run of a program under a server."""

    def __init__(self, server: Server, say: Callable[[str], None], *, extra: Mapping[str, str | None] | None,
                 on_interrupt: Callable[[], None] | None = None, on_start: Callable[[], None] | None = None) -> None:  # fmt: skip
        """`extra` changes the program's environment (None: without the variable).

        `on_start` is called when the program runs, `on_interrupt` at each Ctrl-C.
        """
        self._server = server
        self._say = say
        self._extra = dict(extra or {})
        self._on_interrupt = on_interrupt
        self._on_start = on_start
        self._pid = 0
        self._status: int | None = None
        self._impatient = False

    def run(self, command: Sequence[str], signals: Signals) -> int:
        """Run the program to its end, then wait a limited time for processes it left; returns its exit code, or 128 + the signal.

        The caller has blocked `signals`, and they are still blocked afterwards, so an impatient Ctrl-C cannot lose the trace.

        Raises:
            StartError: when it cannot be started; nothing was recorded.
        """
        changed = {**self._server.environment(dict(os.environ)), **self._extra}
        environment = {name: value for name, value in changed.items() if value is not None}
        _become_subreaper()
        self._server.start()  # its threads inherit the blocked mask, so signals come to us
        with signals.open_for_child():
            self._pid = _spawn(command, environment, self._server.restore_limits, signals.restore)
        if self._on_start is not None:
            self._on_start()
        signals.wait(self._main_ended, self._pass_on)
        assert self._status is not None
        self._server.note_exit(self._pid, self._status)
        self._wait_for_rest(signals)
        return exit_code(self._status)

    @property
    def exit_code(self) -> int | None:
        """The program's exit code; None if it has not exited or never ran."""
        return None if self._status is None else exit_code(self._status)

    @property
    def ended_by(self) -> str:
        """The signal that ended the program, such as `SIGSEGV`, or empty."""
        if self._status is None or not os.WIFSIGNALED(self._status):
            return ""
        number = os.WTERMSIG(self._status)
        try:
            return signal.Signals(number).name
        except ValueError:  # a real-time signal
            return f"signal {number}"

    def _main_ended(self) -> bool:
        self._reap_adopted()
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def _pass_on(self, number: int, whole_group: bool) -> None:
        if number == signal.SIGUSR2 and self._server.ring is not None:
            self._server.trigger("signal")  # meant for us: this asks a ring's launcher for a trace
            return
        if number == signal.SIGINT and self._on_interrupt is not None:
            self._on_interrupt()
        if not whole_group and self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _wait_for_rest(self, signals: Signals) -> None:
        """Record processes that outlive the main one (workers, other ranks) until they exit, or for a while."""
        seconds = self._server.settings.wait
        if self._server.wait_idle(0.5) or not seconds:
            return
        left = self._server.connected
        self._say(
            f"waiting up to {seconds:g} s for {left} process{'es' if left > 1 else ''} still being recorded "
            "(Ctrl-C ends the recording)"
        )
        deadline = time.monotonic() + seconds
        signals.wait(lambda: self._rest_ended(deadline), self._stop_waiting)
        if self._server.connected:
            self._server.note_loss("launcher", f"{self._server.connected} processes were still running when the recording ended",
                                   severity="ended")  # fmt: skip

    def _rest_ended(self, deadline: float) -> bool:
        self._reap_adopted()
        return self._impatient or time.monotonic() >= deadline or self._server.wait_idle(0)

    def _stop_waiting(self, number: int, whole_group: bool) -> None:
        self._impatient = True

    def _reap_adopted(self) -> None:
        """Reap orphans of the program, which become our children and would otherwise stay zombies."""
        ours = {self._pid, *self._server.own_processes}
        for pid in children() - ours:
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
            if ended:
                self._server.note_exit(ended, status)


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], *restored: Callable[[], object] | None
) -> int:
    steps = [restore for restore in restored if restore is not None]

    def as_found() -> None:
        for restore in steps:
            restore()

    try:
        # Same process group, same terminal, inherited descriptors, same limits: as if the shell had started it.
        process = subprocess.Popen(
            list(command), env=dict(environment), close_fds=False, preexec_fn=as_found if steps else None
        )
    except OSError as error:
        raise start_error(command[0], error) from None
    except ValueError as error:  # a null byte
        raise StartError(f"{command[0]!r}: {error}", NOT_FOUND) from None
    process.returncode = 0  # we wait for it ourselves; Popen must not
    return process.pid


def exit_code(status: int) -> int:
    """The shell's exit code of a wait status."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _become_subreaper() -> None:
    """Make orphaned descendants our children, so that their exits are noticed."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """Process ids of this process's children."""
    found: set[int] = set()
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:  # too many open files: the next look may find them
        return found
    for task in tasks:
        try:
            found.update(map(int, Path(f"/proc/self/task/{task}/children").read_text().split()))
        except OSError:
            continue
    return found
