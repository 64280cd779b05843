"""`warpsight recover`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    directory: Annotated[Path, typer.Argument(help="The recording's folder, NAME.warp.", metavar="FOLDER")],
) -> None:
    """Complete the trace of an interrupted recording.

    Use it when the launcher was killed: everything that reached the disk becomes readable. It can be interrupted and repeated;
    a complete trace stays unchanged.
    """
    from warpsight.api.made import recover

    result = recover(directory)
    rows = result["rows"]
    if not result["recovered"]:
        typer.echo(f"{directory} is complete; there was nothing to recover")
        return
    counts = ", ".join(
        f"{rows[name]:,} {name}"
        for name in ("kernel", "launch", "memcpy", "marker", "sample")
        if rows.get(name)
    )
    typer.echo(f"{directory}: recovered {counts or 'no rows'}")
    for loss in result["loss"]:
        if loss["severity"] != "note":
            typer.secho(f"lost: {loss['count']:,} × {loss['cause']} ({loss['source']})", fg="red")
