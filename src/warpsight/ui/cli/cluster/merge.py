"""`warpsight cluster merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options
from warpsight.ui.cli.cluster.analyze import DaskAddress, Paths, Workers


def command(
    paths: Paths = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="The trace to make.")] = None,
    workers: Workers = 0,
    dask: DaskAddress = "",
    force: options.Force = False,
) -> None:
    """Join the recordings of a job's ranks into one trace on one clock, for view, report and export.

    Clocks are corrected as in `cluster analyze`; processes are numbered by rank.
    """
    if not paths or out is None:
        raise UsageError("no job to merge; for example: warpsight cluster merge run/ -o job.warp")
    from warpsight.cluster import merge
    from warpsight.ui.render import numbers, terminal

    made = merge(*paths, out=out, workers=workers, dask=dask, force=force)
    bound = "not measured" if made.bound is None else f"within {numbers.duration(made.bound)}"
    terminal.note(f"{out}: {made.ranks} ranks, clocks {bound}; warpsight export {out} --to perfetto")
    for path, reason in made.failed:
        terminal.warning(f"{path} could not be used: {reason}")
