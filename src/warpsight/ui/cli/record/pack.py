"""`warpsight pack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer


def command(
    trace: Annotated[
        Path, typer.Argument(help="A trace folder, or with --unpack a packed file.", metavar="TRACE")
    ],
    out: Annotated[Optional[Path], typer.Option("-o", "--output", help="Where to write it.")] = None,  # noqa: UP045
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace a file that exists.")] = False,
    unpack: Annotated[bool, typer.Option("--unpack", help="Turn a packed file back into a folder.")] = False,
) -> None:
    """Pack a trace folder into one file.

    The file, NAME.warp.zip by default, opens like the folder; opening verifies its checksums.
    """
    from warpsight.errors import TraceError
    from warpsight.model.sharing import pack

    name = trace.name or trace.resolve().name
    try:
        if unpack:
            target = out or trace.with_name(
                name.removesuffix(".zip") if name.endswith(".zip") else name + ".warp"
            )
            pack.unpack(trace, target, force=force)
            typer.echo(f"{target}")
            return
        target = out or trace.with_name(name.removesuffix(".warp") + pack.SUFFIX)
        size = pack.pack(trace, target, force=force)
    except OSError as error:
        raise TraceError(f"{error.filename or trace}: {error.strerror or error}") from None
    typer.echo(f"{target}  {size / 1e6:.1f} MB")
