"""`warpsight race check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.api import files
from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

CONTEXT_SETTINGS = {"allow_interspersed_args": False}


def command(
    program: Annotated[list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program to check.")] = None,
    kernels: Annotated[list[str] | None, typer.Option("-k", "--kernel", metavar="PATTERN",
                       help="Kernels that are traced, by mangled or demangled name; repeatable.")] = None,
    launches: Annotated[int, typer.Option(min=1, help="Launches of those kernels that are traced.")] = 64,
    seconds: Annotated[float, typer.Option("--for", min=0, metavar="S", help="Seconds for delays: the program runs again and "
                       "again; 0 leaves that out.")] = 30.0,
    same_output: Annotated[bool, typer.Option("--same-output", help="With delays: other output than without is a failure too.")]
                          = False,
    top: Annotated[int, typer.Option(min=0, help="Races to show, 0 for all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, frames innermost first.")] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page too: the accesses of each race on a "
                    "time line of their warps, the evidence, the repair.")] = None,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Look for data races in three ways, and suggest a repair for each: one verdict.

    Runs the program once with its accesses traced, which shows races within launches and between streams; once under
    racecheck, which looks at shared memory; and many times with delays, which shows whether a race makes it fail. Says where
    they disagree. The exit code is 1 when there is a race. Build with -lineinfo to see lines.
    """
    from warpsight.race import prepare
    from warpsight.race.check import check
    from warpsight.ui.render.race import page as race_page
    from warpsight.ui.render.race import plans as race

    if not program:
        raise UsageError("no program to check; for example: warpsight race check -- ./app")
    if html is not None:
        files.check_free(html, force)
    patterns = tuple(kernels or ())
    provoke = (
        (lambda first: prepare.provoked(program, patterns, first, seconds, same_output)) if seconds else None
    )
    found = check(program, patterns, launches, provoke)
    if html is not None:
        with output.text(html, force) as stream:
            stream.write(race_page.page(found, program))
    with output.text(out, force) as stream:
        stream.write(output.json_text(found.to_json()) if as_json else race.verdict(found, top))
    raise typer.Exit(int(found.racy))
