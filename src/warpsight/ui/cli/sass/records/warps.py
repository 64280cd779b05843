"""`warpsight sass warps`."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: options.RecordsPath,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Show every range of ids.")] = False,
    as_json: options.Json = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Show which warps of a kernel completed, are in progress, or were never seen.

    A warp is complete when its last instruction, padding aside, is an EXIT. Warps of the grid that are absent from the trace
    are missing.
    """
    from warpsight.sass.records import warps
    from warpsight.ui.render import terminal
    from warpsight.ui.render.sass import warps as shown

    found = warps.summary(trace)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text(found.to_json()))
        else:
            shown.write(found.to_json(), stream, everything)
    if not found.observed:
        terminal.warning(f"{trace}: none of its records belongs to a warp")
    terminal.warning(*found.notes)
