"""`warpsight race check`."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

CONTEXT_SETTINGS = {"allow_interspersed_args": False}


def command(
    program: Annotated[list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program to check.")] = None,
    kernels: Annotated[list[str] | None, typer.Option("-k", "--kernel", metavar="PATTERN",
                       help="Kernels that are traced, by mangled or demangled name; repeatable.")] = None,
    launches: Annotated[int, typer.Option(min=1, help="Launches of those kernels that are traced.")] = 64,
    top: Annotated[int, typer.Option(min=0, help="Races to show, 0 for all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, frames innermost first.")] = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Look for data races in every way there is, and suggest a repair for each: one verdict.

    Runs the program once with its accesses traced, which shows races within launches and between streams, and once under
    racecheck, which looks at shared memory. Says where the two disagree. The exit code is 1 when there is a race. Build with
    -lineinfo to see lines.
    """
    from warpsight.race.check import check
    from warpsight.ui.render import race

    if not program:
        raise UsageError("no program to check; for example: warpsight race check -- ./app")
    found = check(program, tuple(kernels or ()), launches)
    with output.text(out, force) as stream:
        stream.write(output.json_text(found.to_json()) if as_json else race.verdict(found, top))
    raise typer.Exit(int(found.racy))
