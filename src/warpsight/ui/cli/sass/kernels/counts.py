"""`warpsight sass counts`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output
from warpsight.ui.cli.recorded import recording, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpsight.sass.counts.kernels import CountedKernel
    from warpsight.sass.counts.roofline import Roofline

TAKES_PROGRAM = True


def command(
    words: Annotated[list[str] | None, typer.Argument(metavar="TRACE | -- PROGRAM [ARGS]…",
                     help="A recording made with --sass-counts, or a program to count.")] = None,
    by: options.Level = "line",
    kernels: options.KernelCount = 5,
    top: options.PlaceCount = 10,
    name: options.Name = None,
    device: options.Device = None,
    process: options.Process = None,
    metrics: Annotated[str, typer.Option("-m", "--metrics", metavar="on|all|NAMES", help="What to count in a program; on: "
                                         "executions, threads, sectors, shared-memory wavefronts, divergent branches.")] = "on",
    roofline: Annotated[bool, typer.Option("--roofline", help="Run the program again, without counting, to measure its "
                          "kernels' time and bytes.")] = False,
    measured: Annotated[Path | None, typer.Option(metavar="TRACE", help="Take those from a recording of `sass metrics -m "
                          "roofline`.")] = None,
    keep: options.Keep = None,
    as_json: options.JsonFrames = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV: a row for each place.")] = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Count exactly what each kernel executes: warps, threads, lanes switched off, memory sectors, by line or instruction.

    Shows the mix of operations, arithmetic by type, bytes by memory and, with --roofline, how close the kernel comes to the
    device's peaks. While counted, kernels run one at a time and many times slower.
    """
    from warpsight.api.trace import open as open_trace
    from warpsight.model.selection import Rows
    from warpsight.sass.counts.kernels import LEVELS, counted_kernels
    from warpsight.ui.render import loss, terminal
    from warpsight.ui.render.sass import counts as shown

    options.one_of("--by", by, tuple(LEVELS))
    options.check_one_form(as_csv, as_json)
    if roofline and measured:
        raise UsageError("--roofline measures, --measured uses an earlier measurement: give one of them")
    path, program = split(words or [], "counts")
    if roofline and path is not None:
        raise UsageError("--roofline runs a program again; for a recording give --measured TRACE")
    recorded = recording(words or [], "counts", keep, force, {"sass_counts": metrics})
    with recorded as (place, code), open_trace(place) as trace:
        rows = Rows(devices=device or (), processes=process or (), name=name)
        found, notes = counted_kernels(trace, rows, tuple(LEVELS) if as_json else (by,))
        roofs, more = _rooflines(found, program if roofline else [], measured)
        with output.text(out, force, csv=as_csv) as stream:
            if as_json:
                plain = [kernel.to_json() for kernel in found]
                stream.write(
                    output.json_text({"kernels": plain, "rooflines": [one.to_json() for one in roofs]})
                )
            elif as_csv:
                shown.write_csv(found, stream)
            else:
                shown.show(found, roofs, stream, kernels, top)
        terminal.warning(*notes, *more)
        loss.warn(trace)
    raise typer.Exit(code)


def _rooflines(
    found: Sequence[CountedKernel], program: list[str], measured: Path | None
) -> tuple[list[Roofline], list[str]]:
    """Rooflines of the counted kernels, from a recording without counting, made earlier or now."""
    from warpsight.model import open as open_trace
    from warpsight.sass.counts.roofline import rooflines

    if measured is not None:
        with open_trace(measured) as trace:
            return rooflines(found, trace)
    if not program:
        return [], []
    from warpsight.api.run import run
    from warpsight.sass.metrics import of_this_machine

    with tempfile.TemporaryDirectory(prefix="warpsight-roofline-") as folder:
        done = run(program, Path(folder, "run.warp"), metrics=of_this_machine(["roofline"])[0])
        with open_trace(done.path) as trace:
            return rooflines(found, trace)
