"""`warpsight sass histogram`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: Annotated[
        Path,
        typer.Argument(
            help="NDJSON trace, possibly compressed, or a trace imported from it.", metavar="FILE"
        ),
    ],
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Count the instructions that each warp executed between clock reads, as CSV: warp_id,region_id,instruction,count.

    `sass ipc` joins it with Proton's cycles for the same regions.
    """
    from warpsight.sass.events.instructions import histogram_of
    from warpsight.ui.render import terminal
    from warpsight_plugins.cutracer import histogram

    counted, notes = histogram_of(trace)
    with output.text(out, force, csv=True) as stream:
        histogram.write(counted, stream)
    terminal.warning(*notes)
