"""`warpsight export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.formats.registry import EXPORTERS
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.api.writing import Written


def command(
    trace: options.TracePath,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help=f"Format: {', '.join(EXPORTERS)}; by default, the one that the suffix of -o implies, otherwise perfetto.",
            metavar="FORMAT",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="New file, or `-`; NAME with the format's suffix by default.",
        ),
    ] = None,
    force: options.Force = False,
    begin: options.Begin = None,
    end: options.End = None,
    device: options.Device = None,
    stream: options.Stream = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Only kernel, memcpy, memset, sync, launch, api, nvtx, op, event, sample, overhead, build, "
            "memory or counter; repeatable."
        ),
    ] = None,
    process: options.Process = None,
    no_flows: Annotated[
        bool, typer.Option("--no-flows", help="Omit arrows from launches to their work.")
    ] = False,
    no_counters: Annotated[bool, typer.Option("--no-counters", help="Omit counters.")] = False,
    no_rows: Annotated[
        bool,
        typer.Option(
            "--no-rows",
            help="Omit the rows that make perfetto, chrome and kineto files importable without loss.",
        ),
    ] = False,
    critical_path: Annotated[
        bool,
        typer.Option(
            "--critical-path",
            help="Draw the critical path: a track of segments, with arrows (perfetto only).",
        ),
    ] = False,
    findings: Annotated[
        bool,
        typer.Option(
            "--findings",
            help="Mark the findings of `analyze`, one track each (perfetto only).",
        ),
    ] = False,
    include_paths: options.IncludePaths = False,
    include_arguments: options.IncludeArguments = False,
    include_environment: options.IncludeEnvironment = False,
    as_json: options.ToldAsJson = False,
) -> None:
    """Write a trace in another tool's format.

    A name that ends with .zst is compressed. Kineto's format holds one process, so several become files (rank0.pt.trace.json,
    …) in a folder that HTA's `TraceAnalysis(trace_dir=…)` loads. Private data is omitted as in a report.
    """
    from warpsight.api.trace import open as open_trace
    from warpsight.formats.registry import exporter
    from warpsight.ui.render import loss, terminal

    form = to or _format_of(out)
    exporter(form)  # fail on a wrong name before reading anything
    options.check_times(begin, end)
    with open_trace(trace) as opened:
        written = opened.export(
            form, output.target(out), force=force, begin=begin, end=end, device=device or (), stream=stream or (),
            kind=kind or (), process=process or (), flows=not no_flows, counters=not no_counters, critical_path=critical_path,
            findings=findings, rows=not no_rows, include_paths=include_paths, include_arguments=include_arguments,
            include_environment=include_environment,
        )  # fmt: skip
        _print_result(written, form, as_json)
        if to is None and form != "perfetto":
            terminal.note(f"its name chose the format {form}; --to chooses another")
        loss.warn(opened)


def _format_of(out: Path | None) -> str:
    """The format that matches a file's suffix."""
    from warpsight.formats.registry import named

    return (None if out is None or str(out) == "-" else named(out.name)) or "perfetto"


def _print_result(written: Written, form: str, as_json: bool) -> None:
    import sys

    from warpsight.analysis.base import words
    from warpsight.ui.render import numbers, terminal

    counts, size = written.counts, written.bytes
    if as_json:
        path = "-" if written.path is None else str(written.path)
        text = output.json_text({"format": form, "path": path, "bytes": size, **counts})
        (sys.stderr if size is None else sys.stdout).write(text)
    else:
        summary = ", ".join(f"{count:,} {name}" for name, count in counts.items() if name != "unplaced")
        if "tracks" in counts:
            summary = (
                f"{words.counted(counts['slices'], 'slice')} and {words.counted(counts['samples'], 'sample')} "
                f"on {words.counted(counts['tracks'], 'track')}"
            )
        if "files" in counts:
            summary = f"{words.counted(counts['files'], 'file')}, {summary}"
        terminal.note(f"{written.path or '-'}: {summary}{'' if size is None else ', ' + numbers.size(size)}")
        if form == "perfetto" and size is not None:
            terminal.note("open it at https://ui.perfetto.dev (the file stays on your machine)")
    if counts.get("unplaced"):
        terminal.warning(
            f"{counts['unplaced']:,} kernels that never finished have no time and are not in the file"
        )
