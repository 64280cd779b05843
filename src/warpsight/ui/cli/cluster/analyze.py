"""`warpsight cluster analyze`."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        help="A job's folder, or traces, other tools' files and flight recorder dumps, one or more per rank.",
        metavar="FOLDER|FILES…",
    ),
]
Workers = Annotated[
    int, typer.Option("--workers", help="Processes that read traces; 0: one per core.", min=0, metavar="N")
]
DaskAddress = Annotated[
    str,
    typer.Option(
        "--dask", help="Read on a Dask cluster: its scheduler's address or file.", metavar="ADDRESS"
    ),
]


def command(
    paths: Paths = None,
    workers: Workers = 0,
    dask: DaskAddress = "",
    everything: Annotated[bool, typer.Option("--all", help="Show every finding and row in full.")] = False,
    as_json: options.AsJson = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 when a rank is missing or unreadable.")
    ] = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Say which rank of a job holds the others up, since when and why; or which rank a hung job waits for.

    Reads the ranks' traces, other tools' files, and dumps of PyTorch's flight recorder. It matches collectives across ranks,
    aligns clocks, and separates waiting from transfer. A summary kept beside each trace (`.NAME.summary.zip`) answers later
    questions.
    """
    if not paths:
        raise UsageError("no job to analyze; for example: warpsight cluster analyze run/")
    from warpsight.cluster import analyze
    from warpsight.ui.render import findings

    found = analyze(*paths, workers=workers, dask=dask)
    with output.text(out, force) as target:
        if as_json:
            target.write(output.json_text(found.to_json()))
        else:
            findings.show_job(found, target, everything=everything)
    if strict and any(one.severity == "loss" for one in found.findings):
        raise typer.Exit(3)
