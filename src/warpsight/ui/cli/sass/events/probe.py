"""`warpsight sass probe`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.api import files
from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.sass.events.tracing import TraceSelection
    from warpsight.sass.probes.files import ProbeFile
    from warpsight.sass.probes.results import Results

TAKES_PROGRAM = True
_USE = "for example: warpsight sass probe coalescing -- ./program (--list shows the built-in probes)"


def command(
    words: Annotated[list[str] | None, typer.Argument(metavar="FILE.py|NAME TRACE | FILE.py|NAME -- PROGRAM [ARGS]…",
                     help="A file of probes or a built-in one (--list), and an event trace or a program.")] = None,
    ready: Annotated[bool, typer.Option("--list", help="List the built-in probes.")] = False,
    constants: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE",
                         help="Set a constant of the file; repeatable.")] = None,
    kernels: options.Kernels = None,
    launches: options.Launches = None,
    blocks: options.Blocks = None,
    warps: options.Warps = None,
    addresses: options.Addresses = None,
    memory: Annotated[int, typer.Option("--map-mib", min=1, help="Device memory for maps of pending launches.")] = 1024,
    top: options.Top = 20,
    as_json: options.Json = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="New file for results; PROGRAM.probes by default.")] = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Run functions of yours at memory accesses, barriers, … of a program's kernels, on the GPU.

    A probe is a Python function with @ws.probe(at="memory.load") that writes to maps; warpsight query FILE "SELECT * FROM
    probe_value" reads them. Given an event trace, probes run on its events instead.
    """
    from warpsight.sass.events.tracing import TraceSelection
    from warpsight.sass.probes.files import ProbeFile, find
    from warpsight.sass.probes.ready import listed
    from warpsight.ui.cli.sass.events.trace import range_of, warps_of

    if ready:
        for name, what in listed().items():
            typer.echo(f"{name:<18} {what}")
        return
    selection = TraceSelection(
        events=(), kernels=tuple(kernels or ()), launches=range_of(launches, "--launches"),
        blocks=range_of(blocks, "--blocks"), warps=warps_of(warps), addresses=range_of(addresses, "--addresses"),
    )  # fmt: skip
    probe, *rest = words or [""]
    if not probe or not rest or rest == [options.SIDES]:
        raise UsageError(_USE)
    opened = ProbeFile.open(find(probe), _constants(constants or []))
    if rest[0] == options.SIDES:
        found = _of_program(opened, rest[1:], selection, memory, out, force)
    elif len(rest) > 1:
        raise UsageError(f"a program follows `--`; {_USE}")
    elif selection != TraceSelection(events=()) or out is not None:
        raise UsageError(
            "a recorded trace is probed as a whole, and no file is written: select when recording it (sass trace)"
        )
    else:
        found = opened.of_trace(Path(rest[0]))
    _show(found, top, as_json)
    raise typer.Exit(found.code)


def _of_program(
    opened: ProbeFile,
    program: list[str],
    selection: TraceSelection,
    memory: int,
    out: Path | None,
    force: bool,
) -> Results:

    target = out or Path(f"{Path(program[0]).stem}.probes")
    files.check_free(target, force)
    return opened.of_program(program, target, selection, memory)


def _show(found: Results, top: int, as_json: bool) -> None:
    from warpsight.ui.render import tables, terminal

    if as_json:
        shown = {name: table.to_pylist() for name, table in found.tables.items()}
        content = {"launches": found.launches, "tables": shown, "notes": list(found.notes)}
    with output.text(None) as stream:
        if as_json:
            stream.write(output.json_text(content))
        else:
            for name, table in found.tables.items():
                tables.show(_short_kernels(table, top), title=name, top=top or None, stream=stream)
    if not found.launches:
        terminal.warning("no launch was probed: no kernel matched, or the program did not use an NVIDIA GPU")
    terminal.warning(*found.notes)


def _short_kernels(table: pa.Table, top: int) -> pa.Table:
    """A table with the arguments removed from the kernel names in the shown rows."""
    import pyarrow as pa

    from warpsight.device_code.demangle import short

    if "kernel" not in table.column_names:
        return table
    shown = len(table) if not top else min(top, len(table))
    names = [short(name) for name in table["kernel"].slice(0, shown).to_pylist()] + [""] * (
        len(table) - shown
    )
    at = table.column_names.index("kernel")
    return table.set_column(at, "kernel", pa.array(names, pa.string()))


def _constants(texts: list[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise UsageError(f"--set {text}: write NAME=VALUE")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}
