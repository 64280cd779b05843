"""`warpsight merge`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.cli import output

if TYPE_CHECKING:
    from warpsight.analysis.merge.merge import Merged


def command(
    cpu: Annotated[
        str,
        typer.Option(
            "-c",
            "--cpu",
            help="Host stacks: extended folded, perf script, bpftrace or a trace.",
            metavar="FILE",
        ),
    ],
    gpu: Annotated[
        str,
        typer.Option("-g", "--gpu", help="GPU side: a trace or another tool's file.", metavar="FILE"),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="New file: folded stacks, or NAME.warp for the GPU trace with these stacks. By default "
            "folded stacks go to standard output.",
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            "-t",
            "--tolerance",
            help="Largest distance between a stack and its launch, with clocks aligned.",
            metavar="MS",
            min=0,
        ),
    ] = 10.0,
    weight: Annotated[
        str | None,
        typer.Option("-w", "--weight", help="Weight of folded stacks: count, time (ns; default) or bytes."),
    ] = None,
    summary: Annotated[
        bool, typer.Option("-s", "--summary", help="Show matches, clocks, and kernels by name.")
    ] = False,
    compat: Annotated[
        bool,
        typer.Option("--compat", help="Reproduce bpf-developer-tutorial's merge script byte for byte."),
    ] = False,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file or trace.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Join host stacks from another tool with the GPU work they launched.

    Matches stacks and launches one to one in time order, per process and thread, and finds the clock offset from the files.
    Ambiguous stacks are not used. All device work appears; where there is no stack, below a root that says why.
    """
    as_trace = out is not None and out.name.endswith(".warp")
    _check((cpu, gpu), out, weight, compat, as_json)
    if compat:
        _compat(cpu, gpu, out, tolerance, summary, force)
        return
    from warpsight.analysis.merge import trace_file
    from warpsight.analysis.merge.inputs import load_samples
    from warpsight.analysis.merge.merge import merge
    from warpsight.formats.importing import open_any
    from warpsight.ui.render import loss

    samples = load_samples(cpu)
    with open_any(gpu) as trace:
        merged = merge(samples, trace, int(tolerance * 1_000_000))
        failure = merged.failure()
        if failure is not None:
            raise WarpsightError(
                f"{cpu}: none of its {len(samples):,} stacks found its launch in {gpu}: {failure}"
            )
        if out is not None and as_trace:
            trace_file.write(merged, trace, out, cpu, force)
        else:
            with output.text(out, force) as stream:
                lines = sorted(merged.folded(weight or "time").items())
                stacks = _secretless([stack for stack, _ in lines])
                stream.writelines(
                    f"{stack} {value}\n" for stack, (_, value) in zip(stacks, lines, strict=True)
                )
        if as_json:
            found = {
                "cpu": cpu,
                "gpu": gpu,
                "output": str(out),
                "counts": merged.counts(),
                **merged.summary().to_json(),
            }
            sys.stdout.write(output.json_text(found))
        else:
            _print_result(merged, summary)
        loss.warn(trace)


def _check(
    inputs: tuple[str, str], out: Path | None, weight: str | None, compat: bool, as_json: bool
) -> None:
    """Refuse what is not a file, an output that is an input, and options that exclude each other."""
    from warpsight.analysis.merge.merge import WEIGHTS
    from warpsight.model.private_files import no_file

    for name in inputs:
        if "://" in name:
            continue
        reason = no_file(name) if compat or not Path(name).is_dir() else ""
        if reason:
            raise WarpsightError(f"{name}: {reason}")
    if as_json and (out is None or str(out) == "-"):
        raise UsageError("--json prints the summary: give the folded stacks a file with -o")
    as_trace = out is not None and out.name.endswith(".warp")
    if weight is not None and (as_trace or compat):
        raise UsageError(
            f"--weight is for folded stacks: {'--compat counts' if compat else 'a trace keeps all'}"
        )
    if compat and as_json:
        raise UsageError("--compat and --json exclude each other")
    if compat and as_trace:
        raise UsageError("--compat writes folded stacks, no trace")
    if weight is not None and weight not in WEIGHTS:
        raise UsageError(f"there is no weight {weight!r}: {', '.join(WEIGHTS)}")
    for name in inputs if not compat else ():
        if out is not None and out.exists() and Path(name).exists() and out.samefile(name):
            raise UsageError(f"{out} is the input; name another file with -o")


def _print_result(merged: Merged, full: bool) -> None:
    """The conservation line always, tables on request; to standard error, the stacks may be on standard output."""
    from warpsight.ui.render import loss, numbers, tables, terminal

    counts, result = merged.counts(), merged.summary()
    rows = {row["work"]: row for row in result.tables["conservation"].to_pylist()}
    terminal.note(
        f"{counts['launches']:,} launches, {counts['stacks']:,} stacks: {counts['matched']:,} matched, "
        f"{counts['ambiguous']:,} ambiguous, {counts['alone']:,} without a launch, {counts['foreign']:,} of other processes"
    )
    out = sum(rows[name]["time"] for name in rows if name != "all")
    terminal.note(
        f"GPU time {numbers.duration(rows['all']['time'])} in, {numbers.duration(out)} out, "
        f"{numbers.duration(rows['with their stack']['time'])} of it with its stack"
    )
    if full:
        span = merged.span_ns
        terminal.note(f"host stacks span {numbers.duration(span)}; {counts['work']:,} pieces of device work")
        for name in ("conservation", "clock", "kernels"):
            tables.show(result.tables[name], title=name, stream=sys.stderr)
    loss.findings(result.findings)


def _secretless(stacks: list[str]) -> list[str]:
    """Folded stacks without secrets, which are searched for in each frame."""
    from warpsight.model.sharing import secrets

    frames = list({frame: None for stack in stacks for frame in stack.split(";")})
    clean = dict(zip(frames, secrets.each(frames), strict=True))
    return [";".join(clean[frame] for frame in stack.split(";")) for stack in stacks]


def _compat(cpu: str, gpu: str, out: Path | None, tolerance: float, summary: bool, force: bool) -> None:
    from warpsight.analysis.merge import compat

    path = out or Path("merged_trace.folded")
    printed_output = compat.merge(cpu, gpu, str(path), tolerance, summary)
    with output.binary(path, force) as stream:
        stream.write(_secretless([printed_output.folded])[0].encode("utf-8", "surrogateescape"))
    if str(path) != "-":
        sys.stdout.write("".join(f"{line}\n" for line in printed_output.lines))
