"""`warpsight sass histogram`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import output


def command(
    trace: Annotated[
        Path,
        typer.Argument(help="NDJSON trace, packed or not, or a trace it was imported into.", metavar="FILE"),
    ],
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:
    """Instructions that each warp executed between two clock reads, as CSV: warp_id,region_id,instruction,count.

    `sass ipc` joins it with the cycles that Proton measured for the same regions.
    """
    from warpsight.sass.events.instructions import histogram_of
    from warpsight.ui.render import terminal
    from warpsight_plugins.cutracer import histogram

    counted, notes = histogram_of(trace)
    with output.text(out, force) as stream:
        histogram.write(counted, stream)
    for note in notes:
        terminal.warning(note)
