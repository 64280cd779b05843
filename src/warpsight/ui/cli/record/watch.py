"""`warpsight watch`: run a program, and say what it was doing when it hangs or crashes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.cli import options
from warpsight.ui.render import terminal

CONTEXT_SETTINGS = {"allow_interspersed_args": False}


def command(
    program: Annotated[list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program to watch.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for reports; PROGRAM.watch by default. "
                          "Removed if empty.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing folder of reports.")] = False,
    hang_after: Annotated[float, typer.Option(metavar="S", help="Report a hang after this many seconds without progress; 0: "
                          "never.")] = 60.0,
    kernel_timeout: Annotated[float, typer.Option(metavar="S", help="End the program when a kernel runs this long; 0: "
                          "never.")] = 0.0,
    no_data_timeout: Annotated[float, typer.Option(metavar="S", help="End the program when a kernel runs and nothing is recorded "
                                                   "for this long; 0: never.")] = 0.0,
    on_hang: Annotated[str, typer.Option(help="report: leave the program alone; dump: also take a GPU core dump, which ends the "
                       "stuck kernel; kill: dump, then end the program.")] = "report",
    dumps: Annotated[bool, typer.Option("--dumps", help="Also arm GPU core dumps for crashes, as --on-hang dump and kill do. "
                                        "Device work is then not recorded.")] = False,
    dump_memory: Annotated[str, typer.Option(help="Memory in a dump: none, stack, shared (with stack) or all.")] = "stack",
    dump_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for dumps; by default that "
                        "of the reports.")] = None,
    gzip: options.Gzip = False,
    ring: Annotated[str, typer.Option(metavar="TIME|SIZE", help="Length of a report's trace, as time or size.")] = "30s",
    stacks: Annotated[str, typer.Option(help="Host stacks of launches: python, native, both or off.")] = "python",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only the reports.")] = False,
) -> None:  # fmt: skip
    """Run a program, and say what it was doing when it hangs or crashes.

    The report has the stacks of every thread, the last seconds as a trace, outstanding launches and, with core dumps armed,
    what the GPU was executing. If the program is stuck in the driver, Ctrl-C writes a report; a second Ctrl-C ends the program.
    The exit code is the program's.
    """
    from warpsight.recorder.signals import without_signals

    with without_signals():
        from warpsight.recorder.watch import coredump, watch
        from warpsight.ui.cli.record import watching

    if quiet:
        terminal.configure(verbosity=-1)
    if not program:
        raise UsageError("no program to watch; for example: warpsight watch -- python train.py")
    if on_hang not in watch.ON_HANG:
        raise UsageError(f"--on-hang must be one of {', '.join(watch.ON_HANG)}, not {on_hang!r}")
    if dump_memory not in coredump.MEMORY:
        raise UsageError(f"--dump-memory must be one of {', '.join(coredump.MEMORY)}, not {dump_memory!r}")
    for name, value in (
        ("--hang-after", hang_after),
        ("--kernel-timeout", kernel_timeout),
        ("--no-data-timeout", no_data_timeout),
    ):
        if not 0 <= value < 1e6:
            raise UsageError(f"{name} must be a number of seconds, 0 or more, not {value:g}")
    folder = _folder(output, program, force)
    wanted = watching.Wanted(folder, hang_after, kernel_timeout, no_data_timeout, on_hang, dumps or on_hang != "report",
                             dump_memory, dump_dir, gzip, ring, stacks)  # fmt: skip
    raise typer.Exit(watching.run(program, wanted))


def _folder(output: Path | None, program: list[str], force: bool) -> Path:
    """Make the folder of reports."""
    script = next((a for a in program[1:] if a.endswith((".py", ".sh"))), program[0])
    path = output or Path(f"{Path(script).stem or 'program'}.watch")
    if output is None:
        number = 1
        while path.exists() and not force:
            number += 1
            path = Path(f"{Path(script).stem or 'program'}-{number}.watch")
    if path.exists():
        _replaceable(path, force)
        shutil.rmtree(path)
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise WarpsightError(f"{path} cannot be created: {(error.strerror or str(error)).lower()}") from None
    return path.absolute()


def _replaceable(path: Path, force: bool) -> None:
    if not force:
        raise WarpsightError(f"{path} exists; -f replaces it, -o chooses another name")
    known = {"last.warp", "pipe", "core", "report", "last-"}
    if not path.is_dir() or any(not entry.name.startswith(tuple(known)) for entry in path.iterdir()):
        raise WarpsightError(f"{path} exists and holds more than reports, so -f does not replace it")
