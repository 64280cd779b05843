"""`warpsight sass waits`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import output


def command(
    trace: Annotated[Path, typer.Argument(help="An event trace with classes memory, values, barriers, mbarrier and cluster.",
                     metavar="FILE")],
    top: Annotated[int, typer.Option(min=0, help="Waits to show, 0 for all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:  # fmt: skip
    """Who waits for whom where a trace ends: for a program that hung and was ended while it was traced.

    Names the warps that have not come to a barrier, the arrivals at an mbarrier, and words that warps poll: those whose value
    stays the same, so a loop that goes on is none.
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
    for note in found.notes:
        terminal.warning(note)
