"""`warpsight export`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.cli import output
from warpsight.errors import UsageError
from warpsight.formats.registry import EXPORTERS, Exporter

if TYPE_CHECKING:
    from warpsight.formats.selection import Selection
    from warpsight.trace import Trace


def command(
    trace: Annotated[
        str,
        typer.Argument(
            help="A trace: folder, packed file, URL, or any file that `import` reads.", metavar="TRACE"
        ),
    ],
    to: Annotated[
        str, typer.Option("--to", help=f"Format: {', '.join(EXPORTERS)}.", metavar="FORMAT")
    ] = "perfetto",
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="New file, `-` for standard output; NAME with the format's suffix in this folder by default.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
    begin: Annotated[
        str | None, typer.Option("--from", help="Only from this time since the begin: 1.5s, 200ms.")
    ] = None,
    end: Annotated[str | None, typer.Option("--until", help="Only what began before this time.")] = None,
    device: Annotated[list[int] | None, typer.Option(help="Work of this device only; repeatable.")] = None,
    stream: Annotated[list[int] | None, typer.Option(help="Work of this stream only; repeatable.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Only kernel, memcpy, memset, sync, launch, api, nvtx, op, event, sample, overhead, build, "
            "memory or counter; repeatable."
        ),
    ] = None,
    process: Annotated[
        list[int] | None, typer.Option(help="This process id of the trace only; repeatable.")
    ] = None,
    no_flows: Annotated[
        bool, typer.Option("--no-flows", help="No arrows from launches to their work.")
    ] = False,
    no_counters: Annotated[bool, typer.Option("--no-counters", help="No counters.")] = False,
    include_paths: Annotated[
        bool, typer.Option("--include-paths", help="Keep paths, user and host names as recorded.")
    ] = False,
    include_arguments: Annotated[
        bool, typer.Option("--include-arguments", help="Keep the arguments of recorded commands.")
    ] = False,
    include_environment: Annotated[
        bool, typer.Option("--include-environment", help="Keep the recorded environment variables.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a trace in another tool's format.

    Everything that has a time is written by default; the options select. A window keeps what reaches into it. An output
    whose name ends with .zst is compressed. Kineto's format holds one process: of several, each goes to a file of its own
    (rank0.pt.trace.json, …) in a folder, which HTA's `TraceAnalysis(trace_dir=…)` loads. As in a
    report, arguments, environment variables, private paths and names of people and hosts are left out unless an --include
    option asks for them; secrets always.
    """
    from warpsight.analysis.selection import begin_of
    from warpsight.formats.importing import open_any
    from warpsight.formats.packing import packed
    from warpsight.formats.registry import exporter
    from warpsight.formats.selection import Selection
    from warpsight.render import loss
    from warpsight.trace.sharing import INCLUDABLE, shared

    chosen = exporter(to)
    wanted = zip(INCLUDABLE, (include_paths, include_arguments, include_environment), strict=True)
    include = tuple(name for name, asked in wanted if asked)
    times = output.nanoseconds(begin, "--from"), output.nanoseconds(end, "--until")
    with open_any(trace) as opened:
        origin = begin_of(opened) if any(t is not None for t in times) else 0
        first, last = (None if t is None else origin + t for t in times)
        selection = Selection(
            first, last, device or (), stream or (), process or (), kind or (), not no_flows, not no_counters
        )
        path = out or Path(_stem(trace) + chosen.suffix)
        if path.exists() and Path(trace).exists() and path.samefile(trace):
            raise UsageError(f"{path} is what is read; -o names another file")
        parts = chosen.parts(opened, selection)
        with shared(opened, include) as told:
            if parts:
                path = _folder(path, chosen.suffix)
                written = _write_parts(told, chosen, parts, path, force)
            else:
                with output.binary(path, force) as raw, packed(path.name, raw) as file:
                    written = chosen.write(told, file, selection)
        _tell(path, to, written, as_json)
        loss.warn(opened)


def _folder(path: Path, suffix: str) -> Path:
    """The folder for several files: what was asked for, without the ending of a file."""
    if str(path) == "-":
        raise UsageError("several processes are several files: -o names a folder, or --process chooses one")
    return (
        path.with_name(path.name.removesuffix(suffix) + suffix.removesuffix(".json"))
        if path.name.endswith(suffix)
        else path
    )


def _write_parts(
    trace: Trace, chosen: Exporter, parts: Mapping[str, Selection], path: Path, force: bool
) -> dict[str, int]:
    """Write one file per part into a new folder; returns the sums of their counts."""
    total = {"files": len(parts)}
    with output.folder(path, chosen.suffix, force) as made:
        for name, selection in parts.items():
            with output.binary(made / (name + chosen.suffix)) as file:
                for key, count in chosen.write(trace, file, selection).items():
                    total[key] = total.get(key, 0) + count
    return total


def _stem(trace: str) -> str:
    """The name of a trace without the endings of packed, compressed and foreign files."""
    name = Path(trace.rstrip("/")).name
    for end in (".gz", ".zst", ".zstd", ".zip"):
        name = name.removesuffix(end)
    return Path(name).stem or "trace"


def _tell(path: Path, form: str, written: dict[str, int], as_json: bool) -> None:
    import sys

    from warpsight.render import numbers, terminal

    files = list(path.iterdir()) if "files" in written else [path]
    size = None if str(path) == "-" else sum(file.stat().st_size for file in files)
    if as_json:
        text = output.json_text({"format": form, "path": str(path), "bytes": size, **written})
        (sys.stderr if size is None else sys.stdout).write(text)
    else:
        told = ", ".join(f"{count:,} {name}" for name, count in written.items() if name != "unplaced")
        if "tracks" in written:
            told = f"{written['slices']:,} slices and {written['samples']:,} samples on {written['tracks']} tracks"
        if "files" in written:
            told = f"{written['files']} files, {told}"
        terminal.note(f"{path}: {told}{'' if size is None else ', ' + numbers.size(size)}")
        if form == "perfetto" and size is not None:
            terminal.note("open it at https://ui.perfetto.dev (the file stays on your machine)")
    if written.get("unplaced"):
        terminal.warning(
            f"{written['unplaced']:,} kernels that never finished have no time and are not in the file"
        )
