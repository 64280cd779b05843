"""`warpsight cluster traffic`."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output
from warpsight.ui.cli.cluster.analyze import DaskAddress, Paths, Workers

#: Ranks beyond this many are listed as pairs instead of drawn.
_DRAWN = 16


def command(
    paths: Paths = None,
    workers: Workers = 0,
    dask: DaskAddress = "",
    as_json: options.AsJson = False,
    top: Annotated[
        int, typer.Option("--top", "-n", help="Pairs to list, most bytes first.", min=0, metavar="N")
    ] = 20,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Show what the ranks of a job send to each other: bytes, operations and time.

    Bytes follow the algorithm: messages and all-to-alls go between their ranks, rings and trees between neighbors.
    """
    if not paths:
        raise UsageError("no job to look at; for example: warpsight cluster traffic run/")
    from warpsight.cluster import traffic
    from warpsight.cluster.exchange import matrix
    from warpsight.ui.render import numbers, tables

    found = traffic(*paths, workers=workers, dask=dask)
    with output.text(out, force) as target:
        if as_json:
            target.write(output.json_text({"traffic": found.to_pylist()}))
            return
        if not len(found):
            target.write("the ranks sent each other no data of a known size\n")
            return
        ranks, cells = matrix(found, "bytes")
        if len(ranks) <= _DRAWN:
            lines = [["from \\ to", *map(str, ranks)]]
            lines += [[str(rank), *(numbers.size(cell) if cell else "-" for cell in row)]
                      for rank, row in zip(ranks, cells.tolist(), strict=True)]  # fmt: skip
            widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
            target.writelines(
                "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + "\n"
                for line in lines
            )
            target.write("\n")
        tables.show(found, title="pairs", top=top or None, stream=target)
