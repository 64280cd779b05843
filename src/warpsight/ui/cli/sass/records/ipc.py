"""`warpsight sass ipc`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output


def command(
    histogram: Annotated[Path | None, typer.Option(help="Output of `sass histogram`.")] = None,
    chrome: Annotated[
        Path | None, typer.Option("--chrome-trace", help="Proton's intra-kernel Chrome trace.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="The kernel's NDJSON trace, for the warps per CTA.")
    ] = None,
    warps_per_cta: Annotated[int | None, typer.Option(help="Warps per CTA instead.", min=1)] = None,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Compute instructions per cycle of every region from an instruction histogram and Proton's cycles, as CSV."""
    if histogram is None and chrome is None:
        raise UsageError("name a --histogram, a --chrome-trace, or both")
    from warpsight.sass.records import ipc
    from warpsight_plugins.cutracer.histogram import read
    from warpsight_plugins.cutracer.trace_file import warps_per_cta as said_by

    count = warps_per_cta or (said_by(trace) if trace else None)
    if chrome is not None and count is None:
        raise UsageError(
            "global warp ids need the number of warps per CTA: --warps-per-cta N, or --trace FILE"
        )
    measured = ipc.events(chrome, count or 1) if chrome is not None else []
    regions = ipc.merge(read(histogram) if histogram is not None else {}, measured)
    with output.text(out, force, csv=True) as stream:
        import csv

        writer = csv.DictWriter(stream, ipc.COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(region.row() for region in regions)
