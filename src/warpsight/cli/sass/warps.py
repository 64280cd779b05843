"""`warpsight sass warps`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.cli import output


def command(
    trace: Annotated[
        Path,
        typer.Argument(
            help="NDJSON trace, compressed or not, or a trace it was imported into.", metavar="FILE"
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Which warps of a kernel completed, which are in progress, which were never seen.

    A warp is completed when the last instruction it executed, padding aside, is an EXIT. Warps are missing when the
    kernel's grid has them and the trace does not.
    """
    from warpsight.render import records, terminal
    from warpsight.sass import warps

    found = warps.summary(trace)
    with output.text(out, force) as stream:
        stream.write(output.json_text(found.to_json()) if as_json else records.warp_text(found.to_json()))
    for note in found.notes:
        terminal.warning(note)
