"""`warpsight sanitize`: run a program under NVIDIA's Compute Sanitizer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

CONTEXT_SETTINGS = {"allow_interspersed_args": False}


def command(
    program: options.ProgramToCheck = None,
    tool: Annotated[str, typer.Option(help="memcheck, racecheck, initcheck or synccheck.")] = "memcheck",
    limit: Annotated[int, typer.Option(min=0, help="Most reports to take from the tool, 0 for all.")] = 10_000,
    top: options.Top = 20,
    error_exit: Annotated[int, typer.Option("--error-exitcode", min=0, max=255, metavar="CODE",
                          help="Exit with this code when there are findings and the program exits with 0.")] = 0,
    option: Annotated[list[str] | None, typer.Option("--tool-option", metavar="OPTION",
                      help="Another option for compute-sanitizer, such as --leak-check=full; repeatable.")] = None,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the tool's own reports (XML, text) here.")] = None,
    source: options.Sources = None,
    as_json: options.JsonFrames = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Run a program under NVIDIA's Compute Sanitizer and explain its findings.

    Findings go to standard error or to -o; reports that differ only in the thread are one finding. Build with -lineinfo to see
    lines. The program keeps its terminal and exit code, runs 10 to 100 times slower, and cannot be recorded at the same time.
    """
    from warpsight.debug.sanitizer import TOOLS, sanitize

    options.one_of("--tool", tool, TOOLS)
    if not program:
        raise UsageError(
            "no program to check; for example: warpsight sanitize --tool memcheck -- python train.py"
        )
    from warpsight.ui.render import terminal
    from warpsight.ui.render.race import sanitizer

    run = sanitize(tool, program, limit, option or (), keep)
    sources = tuple(source or ())
    for trouble in run.troubles:
        terminal.warning(f"compute-sanitizer: {trouble}")
    if limit and sum(finding.count for finding in run.findings) >= limit:
        terminal.warning(f"the tool stopped reporting at {limit:,} (--limit)")
    if as_json:
        document = {
            "tool": tool,
            "program": program,
            "exit_code": run.code,
            "findings": [finding.to_json(sources) for finding in run.findings],
            "summaries": list(run.summaries),
            "troubles": list(run.troubles),
        }
        with output.text(out, force) as stream:
            stream.write(output.json_text(document))
    elif out is not None:
        with output.text(out, force) as stream:
            sanitizer.show(run, stream, sources, top or len(run.findings))
    else:
        sanitizer.show(run, sys.stderr, sources, top or len(run.findings))
    raise typer.Exit(run.code or (error_exit if run.findings else 0))
