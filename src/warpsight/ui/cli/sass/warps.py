"""`warpsight sass warps`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import output


def command(
    trace: Annotated[
        Path,
        typer.Argument(
            help="NDJSON trace, compressed or not, or a trace it was imported into.", metavar="FILE"
        ),
    ],
    everything: Annotated[
        bool, typer.Option("-a", "--all", help="Every range of ids instead of a few lines.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:
    """Which warps of a kernel completed, which are in progress, which were never seen.

    A warp is completed when its last instruction, padding aside, is an EXIT. Warps of the grid that the trace lacks are missing.
    """
    import shutil

    from warpsight.sass.records import warps
    from warpsight.ui.render import terminal
    from warpsight.ui.render.sass import warps as shown

    found = warps.summary(trace)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text(found.to_json()))
        else:
            stream.write(shown.text(found.to_json(), shutil.get_terminal_size().columns, everything))
    if not found.observed:
        terminal.warning(f"{trace}: no record of it is of a warp")
    for note in found.notes:
        terminal.warning(note)
