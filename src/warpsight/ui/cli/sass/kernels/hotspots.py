"""`warpsight sass hotspots`."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output
from warpsight.ui.cli.recorded import recording

TAKES_PROGRAM = True


def command(
    words: Annotated[list[str] | None, typer.Argument(metavar="TRACE | -- PROGRAM [ARGS]…",
                     help="A recording made with --pc-sampling, or a program to record.")] = None,
    by: options.Level = "line",
    kernels: options.KernelCount = 5,
    top: options.PlaceCount = 10,
    name: options.Name = None,
    device: options.Device = None,
    process: options.Process = None,
    begin: options.Begin = None,
    end: options.EndOrTo = None,
    source: options.Sources = None,
    rate: Annotated[str, typer.Option(metavar="HZ", help="For a program: samples per second and multiprocessor.")] = "on",
    keep: options.Keep = None,
    as_json: options.JsonFrames = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV: a row for each place and stall reason.")] = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Show the hot lines of each kernel: where its warps were sampled, and what they waited for.

    A sample is one warp at one moment. `not issued` is the share taken while the scheduler had no warp to issue: only those
    cost time. Kernels without line information are shown by instruction.
    """
    from warpsight.api.trace import open as open_trace
    from warpsight.recorder.options import table
    from warpsight.recorder.options.values import of_text
    from warpsight.sass.hotspots import LEVELS
    from warpsight.ui.render import loss, terminal
    from warpsight.ui.render.sass import hotspots as shown

    options.one_of("--by", by, LEVELS)
    options.check_one_form(as_csv, as_json)
    options.check_times(begin, end)
    hertz = of_text(table.BY_NAME["pc_sampling"], rate)
    if not hertz:
        raise UsageError("--rate must be a number of samples, not off")
    recorded = recording(words or [], "hotspots", keep, force, {"pc_sampling": hertz})
    with recorded as (path, code), open_trace(path) as trace:
        levels = LEVELS if as_json else (by,)
        found = trace.hotspots(
            levels,
            top=kernels,
            name=name,
            device=device or (),
            process=process or (),
            begin=begin,
            end=end,
        )
        with output.text(out, force, csv=as_csv) as stream:
            if as_json:
                stream.write(output.json_text(found.to_json()))
            elif as_csv:
                shown.write_csv(found, stream)
            else:
                shown.show(found, stream, kernels, top, tuple(source or ()))
        terminal.warning(*found.notes)
        loss.warn(trace)
    raise typer.Exit(code)
