"""`warpsight sass memory`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import output


def command(
    trace: Annotated[Path, typer.Argument(help="An event trace, as sass trace writes it.", metavar="FILE")],
    top: Annotated[int, typer.Option(min=0, help="Instructions to show, 0 for all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:
    """What each memory instruction costs: sectors per request of global memory, passes over the banks of shared memory.

    Instructions that move most beyond their ideal come first.
    """
    from warpsight.sass.events.memory import accesses
    from warpsight.sass.events.trace import EventTrace
    from warpsight.ui.render import terminal
    from warpsight.ui.render.sass import events

    opened = EventTrace(trace)
    found = accesses(opened)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(
                output.json_text({"accesses": [row.to_json() for row in found], "notes": opened.notes})
            )
        else:
            stream.write(events.memory(found, top))
    for note in [
        *opened.notes,
        *([f"a part of the events: {', '.join(opened.partial)}"] if opened.partial else []),
    ]:
        terminal.warning(note)
