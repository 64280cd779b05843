"""Runs of a program under test, and their outcomes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from warpsight.race.inside import VARIABLE, TrialLine, TrialRequest
from warpsight.race.outputs import file_difference
from warpsight.recorder.launch import check_runnable

PLAN_VARIABLE = "WARPSIGHT_RACE_PLAN"
#: The code that `git bisect run` takes for "cannot be tested", and those of shells for a command that is not found or not
#: executable.
_BROKEN_CODES = (125, 126, 127)
#: Signals that a program causes itself; others come from outside (the kernel's OOM killer, a user, a batch system).
_CRASHES = {
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGSEGV,
    signal.SIGSYS,
}
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_LIBC = ctypes.CDLL(None) if os.name == "posix" else None

Kind = Literal["pass", "fail", "crash", "hang", "timeout", "broken"]
#: Outcomes that count as failures, and inconclusive ones.
_FAILURES: tuple[Kind, ...] = ("fail", "crash", "hang")
BROKEN: tuple[Kind, ...] = ("timeout", "broken")


class Oracle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program, and the criteria by which a run of it fails.

    Attributes:
        command: the program; expect_exit: its exit code on success.
        same_output: its standard output must equal that of the run without delays; same_files: so must these files that it
            writes.
        tolerance: T lets numbers in those and in named outputs differ by T · (1 + |value|); 0: bit by bit.
        timeout_s: time limit of a run; hang_s: seconds without output or a trial after which a run counts as hung.
        in_process: number of trials per run, for functions decorated by `trial`.
    """

    command: tuple[str, ...]
    expect_exit: int = 0
    same_output: bool = False
    same_files: tuple[str, ...] = ()
    tolerance: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 600.0
    hang_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    in_process: Annotated[int, msgspec.Meta(ge=1)] = 1


class RunOutcome(msgspec.Struct, frozen=True):
    """The outcome of a run.

    Attributes:
        kind: class of the outcome; why: the reason in words. seconds: duration. control, delayed: numbers of trials without and
            with delays; both 0 if the whole run is one trial. failed_delayed, failed_seed: whether the failed trial was delayed,
            and its seed, if delays are switched within the process.
    """

    kind: Kind
    why: str = ""
    seconds: float = 0.0
    control: int = 0
    delayed: int = 0
    failed_delayed: bool | None = None
    failed_seed: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it counts as a failure."""
        return self.kind in _FAILURES


@dataclass
class TestedProcess:
    """A process of the program under test. After a failed trial it may take further requests.

    Attributes:
        oracle: the criteria of failure; process: the program; reference: folder of the reference outputs.
        begin_ns: when it began; pipe: where it takes requests; -1: nowhere.
    """

    oracle: Oracle
    process: subprocess.Popen[bytes]
    reference: Path
    begin_ns: int
    pipe: int = -1

    @classmethod
    def start(
        cls, oracle: Oracle, folder: Path, request: TrialRequest, environment: Mapping[str, str]
    ) -> TestedProcess:
        """Start the program; standard output and errors go to the folder.

        Raises:
            StartError: when it cannot be started.
        """
        check_runnable(oracle.command[0])
        Path(request.outputs).mkdir(exist_ok=True)
        pipe = -1
        if request.more:
            os.mkfifo(request.more, 0o600)
            pipe = os.open(request.more, os.O_RDWR | os.O_CLOEXEC)
        variables = {**os.environ, **environment, VARIABLE: msgspec.json.encode(request).decode()}
        begin_ns = time.time_ns()
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as errors:
            process = subprocess.Popen(
                oracle.command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=variables, start_new_session=True,
                preexec_fn=_die_with_parent,
            )  # fmt: skip
        return cls(oracle, process, Path(request.outputs), begin_ns, pipe)

    @property
    def waits(self) -> bool:
        """Whether it accepts another request after the last outcome."""
        return self.pipe >= 0

    def ask(self, request: TrialRequest) -> None:
        """Have a waiting process run further trials."""
        os.write(self.pipe, msgspec.json.encode(request) + b"\n")

    def outcome(
        self, folder: Path, stop: threading.Event, *, save: bool = False, pause_s: float = 0.1
    ) -> RunOutcome:
        """The outcome of the request whose report is in the folder.

        Args:
            folder: folder of the report.
            stop: when it is set, the run is ended.
            save: keep the program's output as the reference.
            pause_s: seconds between checks of the process.
        """
        begin = time.monotonic()
        code, limit = self._ended(folder, stop, pause_s)
        lines = _report(folder / "report")
        kind, why = _judged(self.oracle, folder, self.reference, code, limit, lines, save, self.begin_ns)
        return _charged(RunOutcome(kind, why, round(time.monotonic() - begin, 3)), lines)

    def _ended(self, folder: Path, stop: threading.Event, pause_s: float) -> tuple[int | None, str]:
        """The exit code, negative for a signal and None where it waits, and what ended it: `hang`, `timeout`, `stop` or none."""
        files = [folder / name for name in ("stdout", "stderr", "report")]
        begin = heard = time.monotonic()
        sizes: list[int] = []
        limit = ""
        while not limit:
            try:
                code = self.process.wait(pause_s)
                self._close()
                return code, ""
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            except BaseException:  # Ctrl-C
                self.end()
                raise
            if (seen := [file.stat().st_size if file.exists() else 0 for file in files]) != sizes:
                sizes, heard = seen, now
                if self.pipe >= 0 and any(line.waits for line in _report(files[-1])[-1:]):
                    return None, ""
            if stop.is_set():
                limit = "stop"
            elif now - heard > self.oracle.hang_s:
                limit = "hang"
            elif now - begin > self.oracle.timeout_s:
                limit = "timeout"
        return self.end(), limit

    def end(self) -> int:
        """End the program and its children; returns its exit code."""
        self._close()
        _end(self.process)
        return self.process.wait()

    def _close(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
        self.pipe = -1


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its child processes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _die_with_parent() -> None:
    if _LIBC is not None and hasattr(_LIBC, "prctl"):
        _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _report(path: Path) -> list[TrialLine]:
    """The whole lines of a report."""
    if not path.exists():
        return []
    found = []
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(msgspec.DecodeError):
            found.append(msgspec.json.decode(line, type=TrialLine))
    return found


def _judged(oracle: Oracle, folder: Path, reference: Path, code: int | None, limit: str, lines: list[TrialLine], save: bool,
            begin_ns: int) -> tuple[Kind, str]:  # fmt: skip
    """The class of a run, and why."""
    if limit == "stop":
        return "broken", "was interrupted"
    if limit == "hang":
        return "hang", f"it printed nothing for {oracle.hang_s:g} s"
    if limit == "timeout":
        return "timeout", f"still running after {oracle.timeout_s:g} s"
    failed = next((line for line in lines if line.why), None)
    if code is None:
        return ("fail", failed.why) if failed else ("pass", "")
    ended = code if code < 0 else 128 - code if code > 128 else 0  # a shell's 128 + signal
    if ended:
        name = _signal_name(-ended)
        return ("crash", name) if -ended in _CRASHES else ("broken", f"was ended by {name}")
    if code in _BROKEN_CODES and code != oracle.expect_exit:
        return "broken", f"exit code {code}"
    if failed:
        return ("crash" if failed.crashed else "fail"), failed.why
    if code != oracle.expect_exit:
        return "fail", f"exit code {code}"
    differences = _differences(oracle, folder, reference, save, begin_ns)
    return ("fail", "; ".join(differences)) if differences else ("pass", "")


def _differences(oracle: Oracle, folder: Path, reference: Path, save: bool, begin_ns: int) -> list[str]:
    """How the run's output differs from the reference; `save` stores it as the reference."""
    made = [("standard output", folder / "stdout")] if oracle.same_output else []
    made += [(name, Path(name)) for name in oracle.same_files]
    found = []
    for number, (name, path) in enumerate(made):
        expected = reference / f"{number}{path.suffix}"
        # The clock of files is coarse, so a time just before the start may be after it.
        if not path.exists() or path.stat().st_mtime_ns < begin_ns - 100_000_000:
            found.append(f"{name} was not written")
        elif save:
            expected.write_bytes(path.read_bytes())
        elif difference := file_difference(path, expected, oracle.tolerance):
            found.append(f"{name} {difference}")
    return found


def _charged(outcome: RunOutcome, lines: list[TrialLine]) -> RunOutcome:
    """The outcome with its trials counted, naming the trial that failed, crashed or hung."""
    trials = [line for line in lines if line.trial is not None]
    begun = [line for line in trials if not line.ended]
    if not begun:
        return outcome
    outcome = msgspec.structs.replace(
        outcome,
        control=sum(line.delayed is False for line in begun),
        delayed=sum(line.delayed is not False for line in begun),
    )
    last = trials[-1]
    if not outcome.failed or (last.ended and not last.why):
        return outcome
    why = f"trial {last.trial}: {outcome.why}"
    return msgspec.structs.replace(outcome, why=why, failed_delayed=last.delayed, failed_seed=last.seed)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end_leftovers(folder: Path) -> None:
    """Kill processes that runs of an interrupted experiment in this folder left behind."""
    mark = f'"report":"{folder}{os.sep}'.encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes() and int(process.name) != os.getpid():
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue
