"""`warpsight report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.api.writing import Written


def command(
    trace: options.NewestTrace = "",
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="New file, or `-`; NAME.report.html by default."),
    ] = None,
    force: options.Force = False,
    title: Annotated[str | None, typer.Option(help="Page title; the trace's name by default.")] = None,
    begin: options.Begin = None,
    end: options.End = None,
    device: options.Device = None,
    process: options.Process = None,
    include_paths: options.IncludePaths = False,
    include_arguments: options.IncludeArguments = False,
    include_environment: options.IncludeEnvironment = False,
    no_source: Annotated[bool, typer.Option("--no-source", help="Omit source lines.")] = False,
    as_json: options.ToldAsJson = False,
) -> None:
    """Write one HTML page with findings, timeline, flame graph and tables.

    The page has verdict, findings, timeline, flame graph, kernels, idle time, memory, counters and source, and opens offline.
    It omits arguments, environment variables, private paths, and names of people and hosts unless an --include option keeps
    them; it always omits secrets.
    """
    from warpsight.api.trace import open as open_trace
    from warpsight.ui.render import loss

    options.check_times(begin, end)
    with open_trace(options.or_newest(trace)) as opened:
        written = opened.report(
            output.target(out), force=force, title=title, begin=begin, end=end, device=device or (), process=process or (),
            include_paths=include_paths, include_arguments=include_arguments, include_environment=include_environment,
            source=not no_source,
        )  # fmt: skip
        _print_result(written, as_json)
        loss.warn(opened)


def _print_result(written: Written, as_json: bool) -> None:
    import sys

    from warpsight.ui.render import numbers, terminal

    if as_json:
        answer = {"path": "-" if written.path is None else str(written.path), "bytes": written.bytes}
        (sys.stderr if written.path is None else sys.stdout).write(output.json_text(answer))
    elif written.bytes is not None:
        terminal.note(f"{written.path}: {numbers.size(written.bytes)}; open it in any browser")
