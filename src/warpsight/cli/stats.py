"""`warpsight stats`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.cli import output
from warpsight.errors import UsageError

if TYPE_CHECKING:
    from warpsight.analysis.result import Result
    from warpsight.trace import Trace


def command(
    trace: Annotated[
        str,
        typer.Argument(
            help="A trace: folder, packed file, URL, or any file that `import` reads.", metavar="TRACE"
        ),
    ],
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
    names: Annotated[str, typer.Option(help="Kernel names: demangled, short or mangled.")] = "demangled",
    latency: Annotated[
        bool, typer.Option("--latency", help="Add the wait between launch call and kernel.")
    ] = False,
    device: Annotated[list[int] | None, typer.Option(help="Only this device; repeatable.")] = None,
    stream: Annotated[list[int] | None, typer.Option(help="Only this stream; repeatable.")] = None,
    process: Annotated[
        list[int] | None, typer.Option(help="Only this process id of the trace; repeatable.")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="Only what began at or after this time since the begin: 1.5s, 200ms."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--until", "--to", help="Only what began before this time.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only names that this regular expression matches.")] = None,
    top: Annotated[
        int | None,
        typer.Option(help="Rows to give, 0 for all. By default 20; all with --csv and --json.", min=0),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV, times in ns.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, times in ns.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:
    """Sum up kernels, copies, API calls, ranges, events, memory or counters.

    Times are exact: percentiles interpolate between neighbours, nothing is sampled. Shares are of the time of the rows
    that count.
    """
    if csv and as_json:
        raise UsageError("--csv and --json exclude each other")
    from warpsight.analysis.selection import Rows, begin_of
    from warpsight.analysis.stats import stats
    from warpsight.formats.importing import open_any

    times = output.nanoseconds(begin, "--from"), output.nanoseconds(end, "--until")
    with open_any(trace) as opened:
        origin = begin_of(opened) if any(t is not None for t in times) else 0
        first, last = (None if t is None else origin + t for t in times)
        rows = Rows(first, last, device or (), stream or (), process or (), name)
        result = stats(opened, subject, rows, by=by, names=names, latency=latency)
        _print(opened, result, top, csv, as_json, out, force)


def _print(
    trace: Trace, result: Result, top: int | None, csv: bool, as_json: bool, out: Path | None, force: bool
) -> None:
    from dataclasses import replace

    from warpsight.render import loss, tables

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
