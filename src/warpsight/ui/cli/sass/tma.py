"""`warpsight sass tma`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: Annotated[
        Path,
        typer.Argument(
            help="An event trace with classes tma and mbarrier, from `sass trace`.", metavar="FILE"
        ),
    ],
    launch: Annotated[int | None, typer.Option(min=0, help="Only this launch.")] = None,
    block: Annotated[int | None, typer.Option(min=0, help="Only this block.")] = None,
    top: Annotated[
        int, typer.Option("--top", "-n", min=0, help="Blocks to show, 0 for all, with all events.")
    ] = 20,
    as_json: options.Json = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Show the pipelines of blocks: copies by the TMA, arrivals and waits at mbarriers, matrix products, over time.

    The block whose warps wait longest comes first, with its events. A file name that ends in .html gives a page with a picture.
    """
    from warpsight.sass.events.pipelines import pipelines
    from warpsight.sass.events.trace import EventTrace
    from warpsight.ui.cli.sass import answered
    from warpsight.ui.render.sass import event_answers

    opened = EventTrace(trace)
    found = pipelines(opened, launch, block)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(
                output.json_text({"blocks": [one.to_json() for one in found], "notes": opened.notes})
            )
        else:
            answered.write(
                stream, out, f"Pipelines of {trace.name}", event_answers.pipelines(found, top), opened
            )
    answered.warn(opened)
