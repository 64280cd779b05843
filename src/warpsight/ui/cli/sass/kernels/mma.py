"""`warpsight sass mma`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    source: Annotated[
        Path,
        typer.Argument(help="A cubin, or a trace with instruction samples or counts.", metavar="CUBIN|TRACE"),
    ],
    kernel: Annotated[
        str | None,
        typer.Argument(help="A kernel, by name or part of it, if there are several.", metavar="[KERNEL]"),
    ] = None,
    top: options.Top = 40,
    as_json: options.Json = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """List a kernel's matrix instructions: shape, types, executions, gaps between them, and what waits for their results.

    Gaps and waits are issue cycles by the compiler's stall counts. Executions need a recording with --sass-counts.
    """
    from warpsight.sass.matrix_products import matrix_products
    from warpsight.ui.cli.sass.kernels.list import chosen_kernel
    from warpsight.ui.render.sass import event_answers

    code, _, counts = chosen_kernel(source, kernel)
    found = matrix_products(code, counts)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text(found.to_json()))
        else:
            event_answers.write(event_answers.products(found, top), stream)
