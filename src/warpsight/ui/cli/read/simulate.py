"""`warpsight simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.simulate.simulation import Simulated


def command(
    trace: options.TracePath,
    what: Annotated[
        list[str] | None,
        typer.Option(
            "-w",
            "--what",
            metavar="WHAT",
            help="A change; repeatable, applied in order: kernel:NAME/2, kernel:NAME*1.5, kernel:NAME=none, "
            "copy:HtoD/2, launch/2, sync:NAME, host:NAME=none, graphs, fuse:RANGE=200us, overlap:copies, "
            "streams:NAME, batch*2, device:H100.",
        ),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="A step's time without the recorder, such as 4.8ms, to correct for its cost.",
        ),
    ] = None,
    process: options.Process = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the re-timed recording to this new trace.")
    ] = None,
    force: options.Force = False,
    top: options.TableRows = None,
    as_json: options.AsJson = False,
) -> None:
    """Estimate how long a program's steps would take after a change.

    Replays every launch, kernel, copy and wait of the recording as soon as its dependencies allow. NAME is a regular
    expression; for `host`, `graphs`, `fuse` and `batch` it matches ranges.
    """
    from warpsight.api import choice
    from warpsight.api.trace import open as open_trace

    choice.nanoseconds(step, "--step")

    with open_trace(trace) as opened:
        found = opened.simulate(
            *(what or ()), process=process or (), step=step, out=out, force=force, top=top
        )
        with output.text(None) as stream:
            if as_json:
                stream.write(output.json_text({"trace": opened.path, **found.to_json()}))
            else:
                _print(found, 10 if top is None else top, stream)
        from warpsight.ui.render import loss

        loss.findings(found.result.findings)
        loss.warn(opened)


def _print(found: Simulated, top: int, stream: object) -> None:
    from typing import IO, cast

    from warpsight.ui.render import simulated

    simulated.show(found, cast(IO[str], stream), top or None)
