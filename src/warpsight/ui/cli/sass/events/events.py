"""`warpsight sass events`."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: options.EventsPath,
    launch: Annotated[int | None, typer.Option(min=0, help="Only events of this launch.")] = None,
    kinds: Annotated[list[str] | None, typer.Option("--kind",
                     help="Only events of this kind (global, shared, barrier, …); repeatable.")] = None,
    head: Annotated[int, typer.Option("-n", "--head", min=0, help="The first N events, 0 for all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Write an object per line.")] = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """List the events of a trace in device order, each with its instruction and source line."""
    from warpsight.errors import UsageError
    from warpsight.formats.events.kinds import BY_NAME
    from warpsight.sass.events.listing import listed
    from warpsight.sass.events.trace import EventTrace
    from warpsight.ui.render import terminal
    from warpsight.ui.render.sass import events

    unknown = [name for name in kinds or () if name not in BY_NAME]
    if unknown:
        raise UsageError(f"--kind {unknown[0]}: there is no such kind; kinds: {', '.join(BY_NAME)}")
    opened = EventTrace(trace)
    rows = listed(opened, launch, tuple(kinds or ()), head or None)
    with output.text(out, force) as stream:
        stream.write(events.lines(rows) if as_json else events.listing(rows))
    terminal.warning(*opened.notes)
