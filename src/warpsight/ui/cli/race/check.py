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
    program: options.ProgramToCheck = None,
    kernels: options.Kernels = None,
    launches: Annotated[int, typer.Option(min=1, help="Launches of those kernels to trace.")] = 64,
    seconds: Annotated[float, typer.Option("--for", min=0, metavar="S", help="Seconds of repeated runs with delays; 0: "
                          "none.")] = 30.0,
    same_output: Annotated[bool, typer.Option("--same-output", help="With delays, count changed output as a failure.")] = False,
    top: options.Top = 20,
    as_json: options.JsonFrames = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write a page: each race on a timeline of "
                          "its warps, with evidence and repair.")] = None,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Look for data races in three ways, and suggest a repair for each: one verdict.

    Runs the program once with its accesses traced, for races within launches and between streams; once under racecheck, for
    shared memory; and many times with delays, to see whether a race makes it fail. The exit code is 1 when there is a race.
    Build with -lineinfo to see lines.
    """
    from warpsight.model.sharing import secrets
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
            stream.write(race_page.page(found, secrets.arguments(program)))
    with output.text(out, force) as stream:
        stream.write(output.json_text(found.to_json()) if as_json else race.verdict(found, top))
    raise typer.Exit(int(found.racy))
