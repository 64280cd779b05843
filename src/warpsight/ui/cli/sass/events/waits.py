"""`warpsight sass waits`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: Annotated[Path, typer.Argument(metavar="FILE", help="An event trace with classes memory, values, barriers, mbarrier "
                                          "and cluster.")],
    top: options.Top = 20,
    as_json: options.Json = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Show who waits for whom at the end of a trace, for a program that hung while it was traced.

    Names the warps missing at a barrier, arrivals at an mbarrier, and words that warps poll without seeing them change.
    """
    from warpsight.sass.events.trace import EventTrace
    from warpsight.sass.events.waits import waits
    from warpsight.ui.render import terminal
    from warpsight.ui.render.sass import events

    found = waits(EventTrace(trace))
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text({
                "waits": [wait.to_json() for wait in found.waits], "roots": [list(root) for root in found.roots],
                "notes": found.notes,
            }))  # fmt: skip
        else:
            stream.write(events.waits(found, top))
    terminal.warning(*found.notes)
