"""`warpsight sass disasm`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    cubin: Annotated[Path, typer.Argument(help="A cubin.", metavar="CUBIN")],
    out: Annotated[
        Path | None, typer.Option("-o", "--output", help="New file; CUBIN's name with .sass by default.")
    ] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Write to standard output.")] = False,
    no_source: Annotated[bool, typer.Option("-G", "--no-source-info", help="Omit files and lines.")] = False,
    no_lines: Annotated[
        bool, typer.Option("-C", "--no-line-info", help="Addresses only, no control flow.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Time limit for nvdisasm, in seconds.", min=0.1)] = 60.0,
    force: options.Force = False,
) -> None:
    """Disassemble a cubin with NVIDIA's nvdisasm, from the wheel nvidia-cuda-nvdisasm or a toolkit."""
    from warpsight.sass.disassemble import disassemble
    from warpsight.ui.render import terminal

    found = disassemble(cubin, source_info=not no_source, line_info=not no_lines, timeout_s=timeout)
    path = None if stdout else out or cubin.with_suffix(".sass")
    with output.text(path, force) as stream:
        stream.write(found.text)
    if path is not None:
        terminal.note(f"{path}: {found.lines:,} lines ({' '.join(found.command)})")
