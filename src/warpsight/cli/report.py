"""`warpsight report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.cli import output

SUFFIX = ".report.html"


def command(
    trace: Annotated[
        str,
        typer.Argument(
            help="A trace: folder, packed file, URL, or any file that `import` reads.", metavar="TRACE"
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="New file, `-` for standard output; NAME.report.html by default."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
    title: Annotated[str | None, typer.Option(help="Title of the page; the trace's name by default.")] = None,
    begin: Annotated[
        str | None, typer.Option("--from", help="Only from this time since the begin: 1.5s, 200ms.")
    ] = None,
    end: Annotated[str | None, typer.Option("--until", help="Only up to this time.")] = None,
    device: Annotated[list[int] | None, typer.Option(help="Only this device; repeatable.")] = None,
    process: Annotated[
        list[int] | None, typer.Option(help="Only this process id of the trace; repeatable.")
    ] = None,
    include_paths: Annotated[
        bool, typer.Option("--include-paths", help="Keep paths, user and host names as recorded.")
    ] = False,
    include_arguments: Annotated[
        bool, typer.Option("--include-arguments", help="Keep the arguments of recorded commands.")
    ] = False,
    include_environment: Annotated[
        bool, typer.Option("--include-environment", help="Keep the recorded environment variables.")
    ] = False,
    no_source: Annotated[bool, typer.Option("--no-source", help="Embed no lines of source.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write one HTML page that says what is wrong and shows it.

    Verdict, findings, timeline, flame graph, kernels, idle time, memory, counters and source. The page opens offline and
    asks no network for anything. Arguments, environment variables, private paths and names of people and hosts are left
    out unless an --include option asks for them; secrets are left out always.
    """
    from warpsight.analysis.selection import Rows, begin_of
    from warpsight.formats.importing import open_any
    from warpsight.render import loss
    from warpsight.render.report import Options, render

    times = output.nanoseconds(begin, "--from"), output.nanoseconds(end, "--until")
    wanted = {"paths": include_paths, "arguments": include_arguments, "environment": include_environment}
    path = out or Path(Path(trace.rstrip("/")).name.split(".")[0] + SUFFIX)
    with open_any(trace) as opened:
        origin = begin_of(opened) if any(t is not None for t in times) else 0
        first, last = (None if t is None else origin + t for t in times)
        rows = Rows(first, last, device or (), (), process or ())
        options = Options(tuple(name for name, on in wanted.items() if on), not no_source, title)
        with output.text(path, force) as stream:  # an existing file is refused before anything is computed
            stream.write(render(opened, rows, options))
        _tell(path, as_json)
        loss.warn(opened)


def _tell(path: Path, as_json: bool) -> None:
    import sys

    from warpsight.render import numbers, terminal

    size = None if str(path) == "-" else path.stat().st_size
    if as_json:
        (sys.stderr if size is None else sys.stdout).write(
            output.json_text({"path": str(path), "bytes": size})
        )
    elif size is not None:
        terminal.note(f"{path}: {numbers.size(size)}; open it in any browser")
