"""`warpsight sass values`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: Annotated[
        Path,
        typer.Argument(
            help="An event trace with classes memory and values, from `sass trace`.", metavar="FILE"
        ),
    ],
    top: options.Top = 20,
    as_json: options.Json = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Find patterns in the values that instructions load and store: zero, constant, few, narrower than their type, linear.

    Types are those of the code around. A file name that ends in .html gives a page with a picture.
    """
    from warpsight.sass.events.trace import EventTrace
    from warpsight.sass.events.value_patterns import value_patterns
    from warpsight.ui.cli.sass.events import answered
    from warpsight.ui.render.sass import event_answers

    opened = EventTrace(trace)
    found = value_patterns(opened)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(
                output.json_text({"values": [row.to_json() for row in found], "notes": opened.notes})
            )
        else:
            answered.write(stream, out, f"Values of {trace.name}", event_answers.values(found, top), opened)
    answered.warn(opened)
