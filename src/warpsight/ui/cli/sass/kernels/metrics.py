"""`warpsight sass metrics`."""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output
from warpsight.ui.cli.recorded import recording, split

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

    from warpsight.machine.profiler_host import Metric
    from warpsight.recorder.options.types import RunOptions

TAKES_PROGRAM = True
#: With so few metrics listed, each has its suffixes.
_FEW = 20


def command(
    words: Annotated[list[str] | None, typer.Argument(metavar="TRACE | -- PROGRAM [ARGS]…",
                     help="A recording made with --metrics, or a program to measure.")] = None,
    listing: Annotated[bool, typer.Option("--list", help="List a chip's metrics with suffixes and passes; -m filters "
                                                         "them.")] = False,
    chip: Annotated[str | None, typer.Option(help="Chip for --list, such as GH100; this machine's by default.")] = None,
    metrics: Annotated[str, typer.Option("-m", "--metrics", metavar="NAMES", help="Metrics with suffixes, comma-separated, such "
                                         "as dram__bytes.sum; roofline: those for `sass counts --measured`.")] = "",
    per: Annotated[str, typer.Option(metavar="kernel|range", help="Measure each kernel launch, or each range (NVTX, "
                          "annotate).")] = "kernel",
    every_us: Annotated[int, typer.Option("--every-us", min=0, metavar="US", help="Instead, sample the whole GPU at this "
                          "interval, as counters.")] = 0,
    kernel: options.Kernels = None,
    keep: options.Keep = None,
    as_json: options.Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV.")] = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Measure hardware metrics of kernels or ranges, or sample them over time, by the chip's own names.

    Kernels run one at a time. The program runs once per pass that the metrics need, so it must do the same in every run.
    """
    from warpsight.api.trace import open as open_trace
    from warpsight.sass.metrics import measured, of_this_machine
    from warpsight.ui.render import loss, tables

    names = [name.strip() for name in metrics.split(",") if name.strip()]
    options.check_one_form(as_csv, as_json)
    if per not in ("kernel", "range"):
        raise UsageError(f"--per {per!r}: write kernel or range")
    if listing:
        return _list(chip, names, every_us > 0, as_json, as_csv, out, force)
    _, program = split(words or [], "metrics")
    if bool(program) != bool(names):
        raise UsageError("name metrics of a program: -m dram__bytes.sum -- ./program (`--list` shows all)")
    chosen, passes = of_this_machine(names, every_us > 0) if program else ((), 1)
    recorded: RunOptions = {"metrics": chosen, "metrics_per": per, "metrics_every": every_us,  # type: ignore[typeddict-item]
                            "kernels": kernel or ()} if program else {}  # fmt: skip
    with (
        _earlier_passes(program, passes, recorded) as last,
        recording(words or [], "metrics", keep, force, last) as (place, code),
        open_trace(place) as trace,
    ):
        found = measured(trace)
        with output.text(out, force, csv=as_csv) as stream:
            if as_json:
                stream.write(output.json_text(found.to_pylist()))
            elif as_csv:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(found.column_names)
                writer.writerows(row.values() for row in found.to_pylist())
            else:
                tables.show(found, stream=stream)
        loss.warn(trace)
    raise typer.Exit(code)


@contextmanager
def _earlier_passes(program: list[str], passes: int, recorded: RunOptions) -> Iterator[RunOptions]:
    """Run the program for all passes but the last, which is then recorded with the options that this returns."""
    if passes == 1:
        yield recorded
        return
    from warpsight.api.run import run
    from warpsight.ui.render import terminal

    with tempfile.TemporaryDirectory(prefix="warpsight-passes-") as folder:
        options: RunOptions = {**recorded, "metrics_passes": folder}
        terminal.note(f"these metrics need {passes} passes: the program runs {passes} times")
        for turn in range(1, passes):
            run(program, Path(folder, f"{turn}.warp"), **options)
            shutil.rmtree(Path(folder, f"{turn}.warp"), ignore_errors=True)
        yield options


def _list(
    chip: str | None,
    patterns: list[str],
    sampling: bool,
    as_json: bool,
    as_csv: bool,
    out: Path | None,
    force: bool,
) -> None:
    from warpsight.machine import profiler_host
    from warpsight.sass.metrics import listed

    found = listed(profiler_host.checked_chip(chip), patterns, sampling)
    with output.text(out, force, csv=as_csv) as stream:
        if as_json:
            stream.write(output.json_text([dict(one.__dict__) for one in found]))
        elif as_csv:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["name", "kind", "passes", "unit", "suffixes", "description"])
            writer.writerows(
                (m.name, m.kind, m.passes, m.unit, " ".join(m.suffixes), m.description) for m in found
            )
        else:
            _show(found, stream)


def _show(found: Sequence[Metric], stream: IO[str]) -> None:
    width = min(max(len(one.name) for one in found), 72)
    for one in found:
        needed = (
            "sass counts"
            if one.kind == "instruction"
            else f"{one.passes} pass{'' if one.passes == 1 else 'es'}"
        )
        stream.write(f"{one.name:<{width}}  {one.kind:<11}  {needed:<11}  {one.description}".rstrip() + "\n")
        if len(found) <= _FEW and one.suffixes:
            stream.write(f"  {' '.join(one.suffixes)}\n")
    if stream is sys.stdout and stream.isatty() and len(found) > _FEW:
        from warpsight.ui.render import terminal

        terminal.note(f"{len(found):,} metrics; -m PATTERN shows some, with their suffixes")
