"""`warpsight flame`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.analysis.flame.graph import FlameGraph
    from warpsight.model import StoredTrace


def command(
    trace: options.NewestTrace = "",
    weight: Annotated[
        str,
        typer.Option(
            "-w",
            "--weight",
            help="time, launches, bytes, idle, allocated, samples (CPU) or pc-samples (GPU warps).",
        ),
    ] = "time",
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="html, svg, png, folded, speedscope or cpuprofile; by default the suffix of -o decides.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="New file, or `-`; NAME.flame.html by default."),
    ] = None,
    force: options.Force = False,
    diff: Annotated[
        str | None, typer.Option("--diff", help="Earlier trace to compare with.", metavar="BEFORE")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Split by device, stream, rank, process or thread (samples: process, thread); repeatable."
        ),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(help="Only these levels above kernels: stack, range, op; repeatable."),
    ] = None,
    names: options.Names = "demangled",
    merge_lines: Annotated[
        bool, typer.Option("--merge-lines", help="One frame per function instead of per line.")
    ] = False,
    device: options.Device = None,
    stream: options.Stream = None,
    rank: Annotated[list[int] | None, typer.Option(help="Only this rank; repeatable.")] = None,
    process: options.Process = None,
    iteration: Annotated[int | None, typer.Option(help="Only this iteration, from 0.", min=0)] = None,
    begin: options.Begin = None,
    end: Annotated[str | None, typer.Option("--until", "--to-time", help=options.END_HELP)] = None,
    name: options.Name = None,
    include_paths: options.IncludePaths = False,
    as_json: options.ToldAsJson = False,
) -> None:
    """Draw a flame graph of the host code that launched the GPU's work, or (--weight samples) used the CPU.

    Frames are the host stack, then ranges and operators, then the kernel. Work without a host stack has a frame of its own.
    With --diff, red frames grew since BEFORE and blue ones shrank. Host samples end in running or waiting; --name running drops
    the waiting. Warp samples (record --pc-sampling) add source lines, instruction and stall reason below the kernel, shared
    among the host stacks that launched it.
    """
    from warpsight.api import flames
    from warpsight.api.trace import open as open_trace

    if to is None and out is not None and str(out) == "-":
        to = "folded"
    form = flames.form_of(to, out)
    flames.FlameOptions(
        weight, by or (), level or (), names, merge_lines
    ).shape()  # refused before anything is read
    options.check_times(begin, end)
    trace = options.or_newest(trace)
    path = out or Path(Path(trace.rstrip("/")).name.split(".")[0] + flames.FORMS[form][0])
    with open_trace(trace) as opened:
        graph = opened.flame(
            weight, to=form, out=output.target(path), force=force, diff=diff, by=by or (), level=level or (), names=names,
            merge_lines=merge_lines, device=device or (), stream=stream or (), rank=rank or (), process=process or (),
            iteration=iteration, begin=begin, end=end, name=name, include_paths=include_paths,
        )  # fmt: skip
        _print_result(opened, graph, form, path, as_json)


def _print_result(trace: StoredTrace, graph: FlameGraph, form: str, path: Path, as_json: bool) -> None:
    from warpsight.ui.render import loss, numbers, terminal
    from warpsight.ui.render.flame.page import ROWS
    from warpsight.ui.render.flame.pictures import amount

    written = None if str(path) == "-" else path.stat().st_size
    if as_json:
        made = {"path": str(path), "form": form, "bytes": written, "weight": graph.weight, "unit": graph.unit,
                "nodes": len(graph), "accounts": [account.to_json() for account in graph.accounts]}  # fmt: skip
        (sys.stderr if written is None else sys.stdout).write(output.json_text(made))
    else:
        if written is not None:
            terminal.note(f"{path}: {len(graph):,} frames, {numbers.size(written)}")
        for account, where in zip(graph.accounts, graph.traces, strict=True):
            prefix = f"{where}: " if graph.differential else ""
            without = f", {amount(account.without_stack, graph.unit)} of it without a host stack"
            rows = f" {ROWS[graph.weight]}" if not graph.unit else ""
            measured, shown = (f"{amount(w, graph.unit)}{rows}" for w in (account.measured, account.shown))
            terminal.note(
                f"{prefix}{measured} measured, {shown} in the graph{without if account.without_stack else ''}"
            )
    for account in graph.accounts:
        if account.without_time:
            terminal.warning(
                f"{account.without_time:,} kernels never finished, have no time and are not in the graph"
            )
    loss.warn(trace)
