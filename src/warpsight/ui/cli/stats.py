"""`warpsight stats`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.analysis.base.result import Result
    from warpsight.model import Trace


def command(
    trace: options.TracePath,
    subject: Annotated[
        str,
        typer.Argument(
            help="kernels, copies, api, launches, nvtx, events, memory, counters or sync.", metavar="SUBJECT"
        ),
    ] = "kernels",
    by: Annotated[
        str,
        typer.Option(
            help="Group kernels by name, shape, stack, device, stream, process, range or op; memory by stack."
        ),
    ] = "name",
    names: options.Names = "demangled",
    latency: Annotated[
        bool, typer.Option("--latency", help="Add the wait between launch call and kernel.")
    ] = False,
    device: options.Device = None,
    stream: options.Stream = None,
    process: options.Process = None,
    begin: options.Begin = None,
    end: options.EndOrTo = None,
    name: options.Name = None,
    top: Annotated[
        int | None,
        typer.Option(help="Rows to give, 0 for all. By default 20; all with --csv and --json.", min=0),
    ] = None,
    csv: options.Csv = False,
    as_json: options.AsJson = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Sum up kernels, copies, API calls, ranges, events, memory or counters.

    Times are exact: percentiles interpolate between neighbours, nothing is sampled. Shares are of the time of the rows
    that count.
    """
    if csv and as_json:
        raise UsageError("--csv and --json exclude each other")
    from warpsight.api.trace import open as open_trace

    options.check_times(begin, end)
    with open_trace(trace) as opened:
        result = opened.stats(
            subject, by=by, names=names, latency=latency, device=device or (), stream=stream or (), process=process or (),
            begin=begin, end=end, name=name,
        )  # fmt: skip
        _print(opened, result, top, csv, as_json, out, force)


def _print(
    trace: Trace, result: Result, top: int | None, csv: bool, as_json: bool, out: Path | None, force: bool
) -> None:
    from dataclasses import replace

    from warpsight.ui.render import loss, tables

    limit = top or None if top is not None or csv or as_json else 20
    ((name, table),) = result.tables.items()
    with output.text(out, force) as stream:
        if as_json:
            cut = replace(result, tables={name: table if limit is None else table.slice(0, limit)})
            stream.write(output.json_text({"subject": name, "trace": trace.path, **cut.to_json()}))
        elif csv:
            tables.write_csv(table if limit is None else table.slice(0, limit), stream)
        elif not len(table):
            stream.write(f"no {name} in {trace.path} with these conditions\n")
        else:
            tables.show(table, top=limit, stream=stream)
    loss.findings(result.findings)
    loss.warn(trace)
