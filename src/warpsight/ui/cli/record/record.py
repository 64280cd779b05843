"""`warpsight record`: run a program and record it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder import backend_choice
from warpsight.recorder.options import table as options
from warpsight.recorder.options.given import Given, gather
from warpsight.recorder.options.settings import Settings
from warpsight.recorder.options.types import CommandValues
from warpsight.ui.cli.record.recording import takes
from warpsight.ui.render import terminal

if TYPE_CHECKING:
    from warpsight.recorder.backend_choice import BackendChoice
    from warpsight.recorder.server import Server
    from warpsight.recorder.signals import Signals
    from warpsight.recorder.summary import RecordingSummary

CONTEXT_SETTINGS = {"allow_interspersed_args": False}
EPILOG = """\
Each option has a variable, such as WARPSIGHT_STACKS for --stacks. Defaults may also be set in table `record` of a
warpsight.toml, or `tool.warpsight.record` of a pyproject.toml, in this folder or above it. The command line wins, then the
environment."""
_EXIT_LOSS = 3
#: Options of a recording as a whole, which mean nothing to a program that joins another one.
_OF_THE_WHOLE = ("path", "export", "capsule", "strict", "kernel_log", "ring", "max_size", "duration", "delay")


@takes(options.OPTIONS)
def command(
    program: Annotated[
        list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program to record.")
    ] = None,
    **values: object,
) -> None:
    """Record a program into a trace.

    The program keeps its terminal, signals and exit code; `--` before it is optional. Inside another recording, or as another
    rank of a job that records into the same folder, it joins that recording.
    """
    program = program or []
    given = gather(values, os.environ, Path.cwd())
    asked = CommandValues(**given.of_scope(options.COMMAND, options.VENDOR))
    _set_verbosity(asked, given)
    choice = backend_choice.choose(given)
    given = backend_choice.fitting(given, choice)
    settings = _settings(given, choice)
    if choice.note:
        terminal.note(choice.note)
    if asked.print_env:
        return _print_environment(program, asked, settings, choice)
    _check_program(program, asked.pid, choice)
    where = asked.path or (
        Path(f"{asked.pid}.warp") if asked.pid else _default_output(program, force=asked.force)
    )
    where = _partition(where)
    if asked.export:
        from warpsight.ui.cli.record import record_export

        record_export.check(where, asked.export, force=asked.force)
    if choice.external:
        from warpsight.ui.cli.record import record_external

        if asked.capsule:
            raise UsageError("--capsule is for NVIDIA GPUs, and a vendor's recorder was chosen")

        code = record_external.record(choice, where, program, given, asked)
    else:
        alone = [
            options.BY_NAME[name].spelled[0]
            for name in _OF_THE_WHOLE
            if given.by_hand(name) and given.get(name)
        ]
        code = record(
            where, program, settings, force=asked.force, strict=asked.strict, export=asked.export,
            capsule=asked.capsule, alone=alone,
        )  # fmt: skip
    if asked.open:
        _open(where)
    raise typer.Exit(code)


def _partition(path: Path) -> Path:
    """The part of a job's folder that this host's ranks record into; the path itself on one host, or inside a recording."""
    from warpsight.recorder import ranks
    from warpsight.recorder.environment import SOCKET

    return path if os.environ.get(SOCKET) else ranks.partition(path, os.environ)


def record(path: Path, program: list[str], settings: Settings, *, force: bool = False, strict: bool = False,
           export: str = "", capsule: str = "", alone: Sequence[str] = ()) -> int:  # fmt: skip
    """Record a program and print a summary; returns its exit code, or 3 under `strict` when data was lost.

    `capsule` says what to cut out of the program. `alone` lists options given for this recording, which are lost if the program
    joins another one.
    """
    from warpsight.recorder.launch import LaunchedProgram, become, join_or_serve
    from warpsight.recorder.server import CannotRecordError
    from warpsight.recorder.signals import Signals
    from warpsight.replay.capsule.store import check_place
    from warpsight.ui.cli.record import record_capsule

    def joining() -> None:
        if alone:
            terminal.warning("the program joins the enclosing recording, which has its own options: "
                             f"{', '.join(alone)} given here {'has' if len(alone) == 1 else 'have'} no effect")  # fmt: skip

    choice, out = record_capsule.chosen(capsule, settings), path.with_suffix(".capsule")
    if choice is not None:
        check_place(out, replace=force)
    terminal.let_messages_fail()
    try:
        server = join_or_serve(path, program, settings, force=force, joining=joining)
    except CannotRecordError as error:
        if strict:
            raise
        terminal.warning(f"{error}; the program runs unrecorded")
        become(program, os.environ)
    cutting = record_capsule.cutting(choice, out, program, server.ring, force=force)
    with Signals() as signals, cutting as extra:
        try:
            launched = LaunchedProgram(server, terminal.note, extra=extra)
            code = launched.run(program, signals)
        except WarpsightError:
            server.abandon()
            raise
        summary = _finish(server, program, signals)
    if launched.ended_by not in ("", "SIGINT"):  # the shell will not report it: we exit with a code
        terminal.warning(f"the program was ended by {launched.ended_by}")
    if summary is None:  # said already; the exit code stays the program's
        return _EXIT_LOSS if strict and code == 0 else code
    if terminal.verbosity() >= 0:
        _summarize(summary)
    elif summary.lost:
        terminal.warning(
            f"{summary.path}: {summary.lost:,} rows or buffers were lost; warpsight info {summary.path}"
        )
    if export:
        from warpsight.ui.cli.record import record_export

        record_export.write(summary.path, export, force=force)
    return _EXIT_LOSS if strict and summary.lost and code == 0 else code


def _summarize(summary: RecordingSummary) -> None:
    """Print the summary; the exit code is the program's even if this fails."""
    from warpsight.ui.cli.record.record_summary import print_summary

    try:
        print_summary(summary)
    except Exception as error:
        terminal.warning(f"{summary.path} is complete, but cannot be summed up: {error}")


def _default_output(program: list[str], *, force: bool) -> Path:
    """NAME.warp after the script, module or program; where that exists and `force` does not replace it, a number is added.

    No number is added where our own job is recording into it, or its hosts each record a part of it.
    """
    from warpsight.recorder import join, output, ranks

    script = next((a for a in program[1:] if a.endswith((".py", ".sh"))), program[0])
    if script == program[0] and "-m" in program[1:-1]:
        script = program[program.index("-m", 1) + 1].rpartition(".")[2]
    name = Path(script).stem or "trace"
    if ranks.of(os.environ).several_hosts:
        return Path(f"{name}.warp")
    job = join.job_of(os.environ)
    for number in range(1, 10_000):
        path = Path(f"{name}.warp" if number == 1 else f"{name}-{number}.warp")
        if force or (not path.exists() and not path.is_symlink()):
            return path
        live = output.announced(path)
        if job and live is not None and live.job == job and live.alive():
            return path
    raise UsageError(f"{name}.warp and its numbered successors exist; choose a name with -o")


def _settings(given: Given, choice: BackendChoice) -> Settings:
    """The settings of warpsight's own recorders; a vendor's recorder does not use them."""
    found = given.of_scope(options.RECORDING)
    if choice.external:
        return Settings()
    if log := found.get("kernel_log"):
        found["kernel_log"] = str(Path(log).absolute())
    return Settings(**found)


def _check_program(program: list[str], pid: int, choice: BackendChoice) -> None:
    """Refuse a recording of nothing, or of both a process and a program."""
    if pid:
        if choice.backend is None or "pid" not in choice.backend.tool_options or program:
            from warpsight.machine.backends import registry

            names = [name for name, one in registry.external().items() if "pid" in one.tool_options]
            raise UsageError(f"--pid goes with --backend {' or '.join(names)} and instead of a program")
    elif not program:
        raise UsageError("no program to record; for example: warpsight record -- python train.py")


def _print_environment(
    program: list[str], asked: CommandValues, settings: Settings, choice: BackendChoice
) -> None:
    from warpsight.recorder.shell import print_environment

    if program or choice.external:
        raise UsageError(
            "--print-env takes no program and no vendor's recorder: it prints variables for this shell"
        )
    for name in ("export", "open", "strict"):
        if getattr(asked, name):
            raise UsageError(f"--{name} applies at the end of a program; --print-env returns at once, and the trace is "
                             "completed when this shell ends")  # fmt: skip
    print_environment(asked.path or Path("shell.warp"), settings, force=asked.force)


def _finish(server: Server, program: list[str], signals: Signals) -> RecordingSummary | None:
    """Complete the trace; a failure is reported, and never replaces the program's exit code.

    The first Ctrl-C meanwhile does not cost the trace; the second leaves it to `warpsight recover`.
    """
    from warpsight.ui.cli.app import EXIT_INTERRUPTED
    from warpsight.ui.cli.record.record_summary import ProgressLine

    def interrupted(count: int) -> None:
        progress.clear()
        if count == 1:
            terminal.note(f"writing {server.folder}; Ctrl-C again stops that")
            return
        server.leave()
        terminal.error(
            f"{server.folder} is not complete; this makes it readable: warpsight recover {server.folder}"
        )
        os._exit(EXIT_INTERRUPTED)

    try:
        with ProgressLine() as progress, signals.impatience(interrupted):
            return server.finish(command=program, progress=progress.update)
    except (WarpsightError, OSError, MemoryError, RuntimeError) as error:
        terminal.error(str(error) or type(error).__name__)
        return None


def _open(path: Path) -> None:
    """Open the recording; skipped if this process only joined a recording that is still running."""
    from warpsight.model.storage import manifest

    if (path / manifest.FILE).is_file():
        from warpsight.ui.cli.read.open import serve

        serve(str(path))
    else:
        terminal.warning(f"{path} holds no finished recording: there is nothing to open")


def _set_verbosity(asked: CommandValues, given: Given) -> None:
    if asked.quiet or asked.verbose:
        terminal.configure(verbosity=int(asked.verbose) - int(asked.quiet))
    if terminal.verbosity() > 0:
        os.environ.setdefault("WARPSIGHT_VERBOSE", "1")
    if names := given.from_file():
        terminal.note(f"{given.file}: defaults of {', '.join(names)}", level=1)
