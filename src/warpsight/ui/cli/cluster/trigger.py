"""`warpsight cluster trigger`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.errors import UsageError


def command(
    folder: Annotated[
        Path | None,
        typer.Argument(help="The recording, or the folder of the job's recordings.", metavar="FOLDER"),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option("--step", help="Begin once a rank has ended this many steps.", min=1, metavar="N"),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", help="Steps to record.", min=0, metavar="K")] = 0,
    wait: Annotated[
        float,
        typer.Option("--in", help="Without --step: begin this many seconds from now.", min=0, metavar="S"),
    ] = 5.0,
    seconds: Annotated[float, typer.Option("--for", help="Seconds to record.", min=0, metavar="S")] = 0.0,
) -> None:
    """Begin and end recording on all ranks of a job at the same step or time.

    Start the ranks with `record --on-trigger`. Steps are those that end with `ws.step()`; the request travels through the
    folder that the ranks write to.
    """
    if folder is None:
        raise UsageError(
            "no job to trigger; for example: warpsight cluster trigger train.warp --step 100 --steps 10"
        )
    from warpsight.cluster import trigger
    from warpsight.ui.render import terminal

    found = trigger(folder, step=step, steps=steps, wait=wait, seconds=seconds)
    total = len(found.taken) + len(found.failed)
    terminal.note(f"{len(found.taken)} of {total} recordings of {folder} record {found.when}")
    for path, reason in found.failed:
        terminal.warning(f"{path} {reason}")
    if found.failed:
        raise typer.Exit(1)
