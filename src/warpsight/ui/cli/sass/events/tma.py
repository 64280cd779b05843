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
            help="An event trace with classes tma and mbarrier, or tensor-copies, from `sass trace`.",
            metavar="FILE",
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

    Copies recorded with NVBit (class tensor-copies) come first, by instruction and tensor map.

    The block whose warps wait longest comes first, with its events. A file name that ends in .html gives a page with a picture.
    """
    from dataclasses import asdict

    from warpsight.formats.events.tensor_copies import CopyReader
    from warpsight.sass.events import tensor_copies
    from warpsight.sass.events.pipelines import pipelines
    from warpsight.sass.events.trace import EventTrace
    from warpsight.ui.cli.sass.events import answered
    from warpsight.ui.render.sass import pipeline_answers

    opened = EventTrace(trace)
    reader = CopyReader(opened.tensor_maps)
    found = pipelines(opened, launch, block, reader)
    copies = tensor_copies.summaries(opened, reader, launch, block)
    gaps = tensor_copies.gaps(opened, reader, copies)
    with output.text(out, force) as stream:
        if as_json:
            maps = {
                key: asdict(tensor) if tensor else reader.raw[key].hex()
                for key, tensor in reader.maps.items()
            }
            answer = {"blocks": [one.to_json() for one in found], "copies": [asdict(one) for one in copies]}
            stream.write(output.json_text({**answer, "maps": maps, "notes": [*opened.notes, *gaps]}))
        else:
            sections = [
                *pipeline_answers.copies(copies, reader.maps, top),
                *pipeline_answers.pipelines(found, top),
            ]
            answered.write(stream, out, f"Pipelines of {trace.name}", sections, opened, gaps)
    answered.warn(opened, gaps)
