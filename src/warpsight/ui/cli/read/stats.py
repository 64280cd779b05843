"""`warpsight stats`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.analysis.base.result import Result
    from warpsight.model import StoredTrace


def command(
    trace: options.TracePath,
    subject: Annotated[
        str,
        typer.Argument(
            help="kernels, copies, api, launches, nvtx, events, memory, counters, sync, ops or modules.",
            metavar="SUBJECT",
        ),
    ] = "kernels",
    by: Annotated[
        str,
        typer.Option(
            help="Group kernels by name, shape, stack, device, stream, process, range or op; memory by stack; "
            "ops by name, shapes, family or forward; modules by name or class."
        ),
    ] = "name",
    names: options.Names = "demangled",
    latency: Annotated[
        bool, typer.Option("--latency", help="Add the wait between launch and kernel.")
    ] = False,
    device: options.Device = None,
    stream: options.Stream = None,
    process: options.Process = None,
    begin: options.Begin = None,
    end: options.EndOrTo = None,
    name: options.Name = None,
    top: Annotated[
        int | None,
        typer.Option("--top", "-n", help="Rows, 0 for all; 20 by default, all with --csv and --json.", min=0),
    ] = None,
    csv: options.Csv = False,
    as_json: options.AsJson = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Summarize kernels, copies, API calls, ranges, events, memory, counters, operators or modules.

    Times are exact, percentiles interpolated. `ops` lists a framework's operators: host and device time, estimated FLOP and
    bytes, and the share of the device's peak. `modules` is the tree of a PyTorch model, with backward counted with its forward.
    """
    options.check_one_form(csv, as_json)
    from warpsight.analysis.stats.sums import SUBJECTS
    from warpsight.api.trace import open as open_trace

    options.check_times(begin, end)
    if str(trace) in SUBJECTS and not Path(trace).exists():
        raise UsageError(f"{trace} is a subject; name a trace before it: warpsight stats TRACE {trace}")
    with open_trace(trace) as opened:
        result = opened.stats(
            subject, by=by, names=names, latency=latency, device=device or (), stream=stream or (), process=process or (),
            begin=begin, end=end, name=name,
        )  # fmt: skip
        _print(opened, result, top, csv, as_json, out, force)


def _print(
    trace: StoredTrace,
    result: Result,
    top: int | None,
    csv: bool,
    as_json: bool,
    out: Path | None,
    force: bool,
) -> None:
    from dataclasses import replace

    from warpsight.ui.render import loss, tables, terminal

    limit = top or None if top is not None or csv or as_json else 20
    ((name, table),) = result.tables.items()
    left = 0
    if name == "modules" and limit is not None:
        from warpsight.analysis.ops.modules import largest

        left, table = len(table), largest(table, limit)
        left -= len(table)
    with output.text(out, force, csv=csv) as stream:
        if as_json:
            cut = replace(result, tables={name: table if limit is None else table.slice(0, limit)})
            stream.write(output.json_text({"subject": name, "trace": trace.path, **cut.to_json()}))
        elif csv:
            tables.write_csv(table if limit is None else table.slice(0, limit), stream)
        elif not len(table):
            stream.write(f"no {name} in {trace.path} with these conditions\n")
        else:
            tables.show(_indented(table), top=limit, stream=stream)
            if left:
                terminal.note(f"… {left:,} smaller modules; --top {left + len(table)} shows all")
    loss.findings(result.findings)
    loss.warn(trace)


def _indented(table: pa.Table) -> pa.Table:
    """A tree with its names indented, for people, who can then see what depth, path, class and number say."""
    if "depth" not in table.column_names:
        return table
    import pyarrow as pa

    rows = zip(table["module"].to_pylist(), table["depth"].to_pylist(), strict=True)
    names = pa.array(["  " * depth + name for name, depth in rows], pa.string())
    return table.drop_columns(["depth", "path", "class", "number"]).set_column(0, "module", names)
