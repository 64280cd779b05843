"""`warpsight sass delays`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import output


def command(
    trace: Annotated[Path, typer.Argument(help="NDJSON trace of the kernel, packed or not.", metavar="FILE")],
    delay_ns: Annotated[int, typer.Option(help="How long a point waits, in ns.", min=0)],
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            help="Instructions that contain this; repeatable; `*` for all. Memory, barriers, TMA, MMA by default."
        ),
    ] = None,
    probability: Annotated[float, typer.Option(help="Probability that a point is on.", min=0, max=1)] = 0.5,
    seed: Annotated[int, typer.Option(help="The same seed turns on the same points.")] = 0,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a delay configuration that CUTracer replays: instructions of a kernel that wait, to bring races out.

    Points are instructions that the trace saw executed. `sass validate` checks a configuration.
    """
    from warpsight.sass.events.instructions import delays_of
    from warpsight.ui.render import terminal
    from warpsight_plugins.cutracer import delays

    found = delays_of(trace, delay_ns=delay_ns, patterns=pattern or (), probability=probability, seed=seed)
    with output.text(out, force) as stream:
        stream.write(delays.text(found))
    if out is not None:
        terminal.note(f"{out}: {found.points:,} points, {found.enabled:,} on")
