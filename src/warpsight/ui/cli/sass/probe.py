"""`warpsight sass probe`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.cli import output

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.sass.probes.results import Results

SYSTEMS = ("linux",)


def command(
    probe: Annotated[str | None, typer.Argument(metavar="FILE.py|NAME",
                     help="A file of probes, or a ready one (--list).")] = None,
    program: Annotated[list[str] | None, typer.Argument(metavar="TRACE | -- PROGRAM [ARGS]…",
                       help="The program to probe, or an event trace of sass trace.")] = None,
    ready: Annotated[bool, typer.Option("--list", help="List the ready probes.")] = False,
    constants: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE",
                         help="Another value for a constant of the file; repeatable.")] = None,
    kernels: Annotated[list[str] | None, typer.Option("-k", "--kernel", metavar="PATTERN",
                       help="Only kernels whose mangled or demangled name matches; repeatable.")] = None,
    launches: Annotated[str | None, typer.Option(metavar="N or LOW..HIGH", help="Launches of those kernels, from 0.")] = None,
    blocks: Annotated[str | None, typer.Option(metavar="N or LOW..HIGH", help="Blocks of the grid, x fastest.")] = None,
    warps: Annotated[str | None, typer.Option(metavar="N or LOW..HIGH", help="Warps of each block.")] = None,
    addresses: Annotated[str | None, typer.Option(metavar="LOW..HIGH", help="Accesses to these addresses.")] = None,
    memory: Annotated[int, typer.Option("--map-mib", min=1, help="Device memory for maps of launches that the program has not "
                      "waited for yet.")] = 1024,
    top: Annotated[int, typer.Option(min=0, help="Rows of each table to show, 0 for all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output",
                  help="New file for the results; PROGRAM.probes by default.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:  # fmt: skip
    """Run functions of yours at memory accesses, barriers, … of a program's kernels, on the GPU.

    A probe is a Python function with @ws.probe(at="memory.load") that counts into maps. The tables are also in the file:
    warpsight query FILE "SELECT * FROM probe_value". Given an event trace, probes are asked of the recorded events instead.
    """
    from warpsight.sass.probes.ready import listed

    if ready:
        for name, what in listed().items():
            typer.echo(f"{name:<18} {what}")
        return
    if probe is None or not program:
        raise UsageError(
            "for example: warpsight sass probe block-schedule -- ./program (--list shows the ready probes)"
        )
    from warpsight.sass.probes.files import ProbeFile, find
    from warpsight.sass.probes.running import Limits
    from warpsight.sass.tracing import Selection
    from warpsight.ui.cli.sass.trace import range_option, warps_option

    opened = ProbeFile.open(find(probe), _constants(constants or []))
    selection = Selection(
        events=(), kernels=tuple(kernels or ()), launches=range_option(launches, "--launches"),
        blocks=range_option(blocks, "--blocks"), warps=warps_option(warps), addresses=range_option(addresses, "--addresses"),
    )  # fmt: skip
    if _is_trace(program):
        if selection != Selection(events=()):
            raise UsageError("a recorded trace is probed as a whole: select when it is recorded (sass trace)")
        _show(opened.of_trace(Path(program[0])), top, as_json)
        return
    target = out or Path(f"{Path(program[0]).stem}.probes")
    if target.exists() and not force:
        raise WarpsightError(f"{target} exists already; -f replaces it")
    found = opened.of_program(program, target, selection, Limits(memory))
    _show(found, top, as_json)
    raise typer.Exit(found.code)


def _show(found: Results, top: int, as_json: bool) -> None:
    import sys

    from warpsight.ui.render import tables, terminal

    if as_json:
        shown = {name: table.to_pylist() for name, table in found.tables.items()}
        sys.stdout.write(
            output.json_text({"launches": found.launches, "tables": shown, "notes": list(found.notes)})
        )
    else:
        for name, table in found.tables.items():
            tables.show(_short_kernels(table, top), title=name, top=top or None)
    if not found.launches:
        terminal.warning("no launch was probed: no kernel matched, or the program did not use an NVIDIA GPU")
    for note in found.notes:
        terminal.warning(note)


def _short_kernels(table: pa.Table, top: int) -> pa.Table:
    """A table whose kernels, in the rows that are shown, have no arguments."""
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


def _is_trace(program: list[str]) -> bool:
    """Whether the program is none but an event trace, compressed or not."""
    from warpsight.formats.events import reader
    from warpsight.formats.source import Source

    found = Path(program[0]).is_file() and reader.sniff(Source(Path(program[0])))
    if found and len(program) > 1:
        raise UsageError(f"{program[0]} is an event trace, and nothing comes after it")
    return found
