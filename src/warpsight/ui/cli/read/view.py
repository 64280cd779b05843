"""`warpsight view`."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.analysis.base.result import Result
    from warpsight.model import StoredTrace
    from warpsight.model.selection import Rows

_PIPE_WIDTH = 120


def command(
    trace: options.NewestTrace = "",
    listed: Annotated[
        bool, typer.Option("--list", help="Print single events in time order instead.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("-n", "--count", help="Events to print, 0 for all; 50 by default.", min=0)
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="With --list, only kernel, memcpy, memset, sync, launch, api, nvtx, op, event, overhead, "
            "memory or counter; repeatable."
        ),
    ] = None,
    device: options.Device = None,
    stream: options.Stream = None,
    process: options.Process = None,
    name: options.Name = None,
    begin: options.Begin = None,
    end: options.EndOrTo = None,
    width: Annotated[
        int | None,
        typer.Option(help="Columns of the picture, 40 to 400.", min=40, max=400),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print the picture on a terminal too.")] = False,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Use ASCII characters only.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="With --list: write CSV, times in ns.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: write JSON, times in ns.")] = False,
) -> None:
    """Show the timeline: a row per device and stream, or single events with --list.

    On a terminal it opens an interactive view (? lists the keys); in a pipe it prints the picture. Times count from the start
    of the recording.
    """
    options.check_one_form(csv, as_json)
    for given, option in ((kind, "--kind"), (count is not None, "-n"), (csv, "--csv"), (as_json, "--json")):
        if given and not listed:
            raise UsageError(f"{option} belongs to --list")
    from warpsight.api import choice
    from warpsight.api.trace import open as open_trace
    from warpsight.ui.render import loss

    options.check_times(begin, end)
    with open_trace(options.or_newest(trace)) as opened:
        if listed:
            result = opened.events(
                kind=kind or (), count=50 if count is None else count, device=device or (), stream=stream or (),
                process=process or (), name=name, begin=begin, end=end,
            )  # fmt: skip
            _list(opened, result, csv, as_json)
        else:
            _show(
                opened,
                choice.rows(opened, begin, end, device, stream, process, name),
                width,
                plain,
                ascii_only,
            )
        loss.warn(opened)


def _nothing(trace: StoredTrace) -> str:
    """Suggestions for a trace without device work to draw."""
    others = {"view --list": sum(trace.count(t) for t in ("launch", "api", "marker", "op", "user_event", "memory")),
              "flame --weight samples": trace.count("sample")}  # fmt: skip
    lines = [
        f"{count:,} {'events' if 'list' in verb else 'samples'} of the host: warpsight {verb}"
        for verb, count in others.items()
        if count
    ]
    return "\n  ".join([f"{trace.path}: no device work with these conditions", *lines]) + "\n"


def _list(trace: StoredTrace, result: Result, csv: bool, as_json: bool) -> None:
    from warpsight.ui.render import tables

    table = result.tables["events"]
    if as_json:
        sys.stdout.write(output.json_text({"trace": trace.path, **result.to_json()}))
    elif csv:
        tables.write_csv(table, sys.stdout)
    elif not len(table):
        sys.stdout.write(f"no events in {trace.path} with these conditions\n")
    else:
        unused = [name for name in table.column_names if name not in ("time", "duration", "kind", "name")
                  and (table.column(name).null_count == len(table) or set(table.column(name).to_pylist()) == {""})]  # fmt: skip
        tables.show(_seconds(table.drop_columns(unused)))


def _seconds(table: pa.Table) -> pa.Table:
    """Times to the nanosecond, since three digits would not separate neighbors."""
    import pyarrow as pa

    from warpsight.analysis.base.words import moment

    lines = [None if t is None else moment(t, 9) for t in table.column("time").to_pylist()]
    return table.set_column(table.column_names.index("time"), "time", pa.array(lines, pa.string()))


def _show(trace: StoredTrace, rows: Rows, width: int | None, plain: bool, ascii_only: bool) -> None:
    from warpsight.analysis.stats.overview import Picture
    from warpsight.ui.render.timeline import text as timeline_text

    picture = Picture.of(trace, rows)
    if not picture.lanes:
        sys.stdout.write(_nothing(trace))
        return
    terminal = sys.stdout.isatty() and sys.stdin.isatty()
    if terminal and not plain and not ascii_only:
        from warpsight.ui.render.timeline.app import TimelineApp

        shown = TimelineApp(trace, picture)
        shown.run()
        raise typer.Exit(shown.return_code or 0)
    columns = width or (shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH)
    sys.stdout.write(
        timeline_text.plain(picture, picture.begin, picture.end, max(columns, 40), ascii_only=ascii_only)
    )
