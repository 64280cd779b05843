"""`warpsight sass delays`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: Annotated[
        Path, typer.Argument(help="NDJSON trace of the kernel, possibly compressed.", metavar="FILE")
    ],
    delay_ns: Annotated[int, typer.Option(help="Delay at a point, in ns.", min=0)],
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            help="Instructions that contain this, `*` for all; repeatable. Memory, barriers, TMA, MMA by "
            "default."
        ),
    ] = None,
    probability: Annotated[float, typer.Option(help="Probability that a point is on.", min=0, max=1)] = 0.5,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Write a delay configuration for CUTracer: instructions of a kernel that wait, to provoke races.

    Points are instructions that the trace saw executed. `sass validate` checks the file.
    """
    from warpsight.sass.events.instructions import delays_of
    from warpsight.ui.render import terminal
    from warpsight_plugins.cutracer import delays

    found = delays_of(trace, delay_ns=delay_ns, patterns=pattern or (), probability=probability, seed=seed)
    with output.text(out, force) as stream:
        stream.write(delays.text(found))
    if out is not None:
        terminal.note(f"{out}: {found.points:,} points, {found.enabled:,} on")
