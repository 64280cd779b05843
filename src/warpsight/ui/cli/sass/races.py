"""`warpsight sass races`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import output


def command(
    trace: Annotated[Path, typer.Argument(help="An event trace with classes memory and barriers.", metavar="FILE")],
    top: Annotated[int, typer.Option(min=0, help="Races to show, 0 for all.")] = 20,
    error_exit: Annotated[int, typer.Option("--error-exitcode", min=0, max=255, metavar="CODE",
                          help="Exit with this code when there are races.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:  # fmt: skip
    """Data races within launches and between streams: two accesses to the same bytes, one of them a write, that nothing orders.

    Follows __syncthreads, __syncwarp, named and cluster barriers, mbarriers, and fences with atomics and their scopes, but not
    copies by TMA and cp.async. Each race has a witness: both accesses with their source lines.
    """
    from warpsight.sass.event_trace import EventTrace
    from warpsight.sass.races.detect import races
    from warpsight.ui.render import events, terminal

    found = races(EventTrace(trace))
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text({
                "races": [race.to_json() for race in found.races], "launches": found.launches, "accesses": found.accesses,
                "notes": found.notes,
            }))  # fmt: skip
        else:
            stream.write(events.races(found, top))
    for note in found.notes:
        terminal.warning(note)
    raise typer.Exit(error_exit if found.races else 0)
