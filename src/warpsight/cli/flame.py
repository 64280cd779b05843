"""`warpsight flame`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsight.cli import output
from warpsight.errors import UsageError, WarpsightError

if TYPE_CHECKING:
    from warpsight.analysis.flame import FlameGraph
    from warpsight.analysis.selection import Rows
    from warpsight.trace import Trace

#: Form → suffixes that mean it; the first is the one written by default.
FORMS = {
    "html": (".flame.html", ".html", ".htm"),
    "svg": (".flame.svg", ".svg"),
    "png": (".flame.png", ".png"),
    "folded": (".folded", ".txt", ".collapsed"),
    "speedscope": (".speedscope.json", ".json"),
}
#: What a graph of each weight is made of.
_NEEDED = {
    "time": "device work",
    "launches": "kernel launches",
    "bytes": "copies or sets",
    "idle": "device work",
    "allocated": "allocations",
    "samples": "samples of host threads",
}


def command(
    trace: Annotated[
        str,
        typer.Argument(
            help="A trace: folder, packed file, URL, or any file that `import` reads.", metavar="TRACE"
        ),
    ],
    weight: Annotated[
        str,
        typer.Option(
            "-w", "--weight", help="time, launches, bytes, idle, allocated, or samples (of the CPU)."
        ),
    ] = "time",
    to: Annotated[
        str | None,
        typer.Option(
            "--to", help="html, svg, png, folded or speedscope; by default what the name of -o says."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="New file, `-` for standard output; NAME.flame.html by default."),
    ] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
    diff: Annotated[
        str | None, typer.Option("--diff", help="An earlier trace to compare with.", metavar="BEFORE")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Split by device, stream, rank, process or thread; repeatable. Samples: process and thread."
        ),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(help="Only these levels above the leaves: stack, range, op; repeatable."),
    ] = None,
    names: Annotated[str, typer.Option(help="Kernel names: demangled, short or mangled.")] = "demangled",
    merge_lines: Annotated[
        bool, typer.Option("--merge-lines", help="One frame per function, whatever its lines.")
    ] = False,
    device: Annotated[list[int] | None, typer.Option(help="Only this device; repeatable.")] = None,
    stream: Annotated[list[int] | None, typer.Option(help="Only this stream; repeatable.")] = None,
    rank: Annotated[list[int] | None, typer.Option(help="Only this rank; repeatable.")] = None,
    process: Annotated[
        list[int] | None, typer.Option(help="Only this process id of the trace; repeatable.")
    ] = None,
    iteration: Annotated[int | None, typer.Option(help="Only this iteration, from 0.", min=0)] = None,
    begin: Annotated[
        str | None, typer.Option("--from", help="Only from this time since the begin: 1.5s, 200ms.")
    ] = None,
    end: Annotated[str | None, typer.Option("--until", "--to-time", help="Only up to this time.")] = None,
    name: Annotated[str | None, typer.Option(help="Only names that this regular expression matches.")] = None,
    include_paths: Annotated[
        bool, typer.Option("--include-paths", help="Keep paths, user and host names as recorded.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Draw a flame graph: which host code asked for the time on the GPU, or (--weight samples) spent the CPU's.

    Host stack, then ranges and operators, then the kernel. What went in comes out: work without a host stack has a frame
    of its own, and the sums are printed. With --diff, red frames grew since BEFORE and blue ones shrank. Samples of host
    threads end in what the thread did: running or waiting; --name running leaves the waiting out.
    """
    from warpsight.analysis.flame import LEVELS, Shape, flame, flame_diff
    from warpsight.formats.importing import open_any

    form = _form(to, out)
    split = by or (("process", "thread") if weight == "samples" else ())
    shape = Shape(weight, tuple(split), tuple(level or LEVELS), names, not merge_lines)
    shape.check()
    choice = _Choice(device, stream, process, rank, iteration, begin, end, name)
    with open_any(trace) as opened:
        if diff is None:
            graph = flame(opened, choice.rows(opened), shape)
        else:
            with open_any(diff) as before:
                graph = flame_diff(before, opened, (choice.rows(before), choice.rows(opened)), shape)
        _check_not_empty(opened, graph)
        graph = _redacted(opened, graph, include_paths)
        path = out or _default(trace, form)
        _write(opened, graph, form, path, force)
        _tell(opened, graph, form, path, as_json)


class _Choice:
    """Which rows the options mean, in a given trace: times and iterations differ from trace to trace."""

    def __init__(
        self, device: list[int] | None, stream: list[int] | None, process: list[int] | None, rank: list[int] | None,
        iteration: int | None, begin: str | None, end: str | None, name: str | None,
    ) -> None:  # fmt: skip
        self._device, self._stream, self._process = device or (), stream or (), list(process or ())
        self._rank, self._iteration, self._name = rank or (), iteration, name
        self._times = output.nanoseconds(begin, "--from"), output.nanoseconds(end, "--until")

    def rows(self, trace: Trace) -> Rows:
        """The conditions, for this trace.

        Raises:
            UsageError: for a rank or iteration it has not.
        """
        from warpsight.analysis.selection import Rows, begin_of

        processes = list(self._process)
        for rank in self._rank:
            found = trace.sql("SELECT process FROM process WHERE rank = $rank", rank=rank).fetchall()
            if not found:
                raise UsageError(f"{trace.path} has no rank {rank}")
            processes += [int(row[0]) for row in found]
        origin = begin_of(trace) if any(t is not None for t in self._times) else 0
        first, last = (None if t is None else origin + t for t in self._times)
        if self._iteration is not None:
            from warpsight.analysis.flame_windows import iteration_window

            first, last = iteration_window(trace, self._iteration, first, last)
        return Rows(first, last, self._device, self._stream, processes, self._name)


def _form(to: str | None, out: Path | None) -> str:
    if to is not None:
        if to not in FORMS:
            raise UsageError(f"there is no form {to!r}: {', '.join(FORMS)}")
        return to
    if out is None or str(out) == "-":
        return "html" if out is None else "folded"
    for form, suffixes in FORMS.items():
        if str(out).endswith(suffixes):
            return form
    raise UsageError(
        f"{out}: the name says no form; end it with {', '.join(s[-1] for s in FORMS.values())}, or use --to"
    )


def _check_not_empty(trace: Trace, graph: FlameGraph) -> None:
    """Refuse to draw nothing.

    Raises:
        WarpsightError: saying what else there is to draw.
    """
    from warpsight.analysis.flame_samples import count

    if any(account.rows or account.without_time for account in graph.accounts):
        return
    samples = 0 if graph.weight == "samples" else count(trace)
    other = f"; --weight samples draws its {samples:,} samples of host threads" if samples else ""
    raise WarpsightError(
        f"{' and '.join(graph.traces)}: no {_NEEDED[graph.weight]} among what was asked for, so there is nothing to draw{other}"
    )


def _default(trace: str, form: str) -> Path:
    return Path(Path(trace.rstrip("/")).name.split(".")[0] + FORMS[form][0])


def _redacted(trace: Trace, graph: FlameGraph, include_paths: bool) -> FlameGraph:
    from dataclasses import replace

    from warpsight.trace.redaction import Redactor

    redactor = Redactor.of(trace, include=("paths",) if include_paths else ())
    return replace(graph, labels=[redactor.text(label) for label in graph.labels],
                   traces=tuple(redactor.text(path) for path in graph.traces))  # fmt: skip


def _write(trace: Trace, graph: FlameGraph, form: str, path: Path, force: bool) -> None:
    if form == "png":
        from warpsight.render.flame_pictures import png

        with output.binary(path, force) as file:
            png(graph, file)
        return
    with output.text(path, force) as stream:
        _write_text(trace, graph, form, stream)


def _write_text(trace: Trace, graph: FlameGraph, form: str, stream: Any) -> None:
    from warpsight.render import flame_page, flame_pictures, flame_text, loss

    if form == "folded":
        flame_text.write_folded(graph, stream)
    elif form == "speedscope":
        import msgspec

        stream.write(
            msgspec.json.encode(flame_text.speedscope(graph, Path(graph.traces[-1]).name)).decode() + "\n"
        )
    elif form == "svg":
        stream.write(flame_pictures.svg(graph))
    else:
        missing = [
            f"Incomplete: {count:,} lost in {source}: {cause}" for source, cause, count in loss.lost(trace)
        ]
        name = " → ".join(Path(path).name for path in graph.traces)
        stream.write(flame_page.page(graph, name, lost=missing))


def _tell(trace: Trace, graph: FlameGraph, form: str, path: Path, as_json: bool) -> None:
    from warpsight.render import loss, numbers, terminal
    from warpsight.render.flame_page import ROWS
    from warpsight.render.flame_pictures import amount

    written = None if str(path) == "-" else path.stat().st_size
    if as_json:
        made = {"path": str(path), "form": form, "bytes": written, "weight": graph.weight, "unit": graph.unit,
                "nodes": len(graph), "accounts": [account.to_json() for account in graph.accounts]}  # fmt: skip
        (sys.stderr if written is None else sys.stdout).write(output.json_text(made))
    else:
        if written is not None:
            terminal.note(f"{path}: {len(graph):,} frames, {numbers.size(written)}")
        for account, where in zip(graph.accounts, graph.traces, strict=True):
            told = f"{where}: " if graph.differential else ""
            without = f", {amount(account.without_stack, graph.unit)} of it without a host stack"
            rows = f" {ROWS[graph.weight]}" if not graph.unit else ""
            measured, shown = (f"{amount(w, graph.unit)}{rows}" for w in (account.measured, account.shown))
            terminal.note(
                f"{told}{measured} measured, {shown} in the graph{without if account.without_stack else ''}"
            )
    for account in graph.accounts:
        if account.without_time:
            terminal.warning(
                f"{account.without_time:,} kernels never finished, have no time and are not in the graph"
            )
    loss.warn(trace)
