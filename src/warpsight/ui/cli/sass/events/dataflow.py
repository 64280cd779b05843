"""`warpsight sass dataflow`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: Annotated[
        Path, typer.Argument(help="An event trace with class memory, from `sass trace`.", metavar="FILE")
    ],
    top: options.Top = 20,
    as_json: options.Json = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Show which instructions read the data that others wrote: within threads, warps and blocks, between blocks and launches.

    A file name that ends in .html gives a page with a picture. Copies by the TMA are not followed.
    """
    from warpsight.sass.events.dataflow import dataflow
    from warpsight.sass.events.trace import EventTrace
    from warpsight.ui.cli.sass.events import answered
    from warpsight.ui.render.sass import event_answers

    opened = EventTrace(trace)
    found = dataflow(opened)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text({**found.to_json(), "notes": opened.notes}))
        else:
            answered.write(stream, out, f"Dataflow of {trace.name}", event_answers.flows(found, top), opened)
    answered.warn(opened)
