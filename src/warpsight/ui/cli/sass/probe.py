"""`warpsight sass probe`."""

from __future__ import annotations

import sys
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
_USE = "for example: warpsight sass probe coalescing -- ./program (--list shows the ready probes)"


def command(
    words: Annotated[list[str] | None, typer.Argument(metavar="FILE.py|NAME TRACE | FILE.py|NAME -- PROGRAM [ARGS]…",
                     help="A file of probes or a ready one (--list), and an event trace or a program.")] = None,
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
                   help="New file for a program's results; PROGRAM.probes by default.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:  # fmt: skip
    """Run functions of yours at memory accesses, barriers, … of a program's kernels, on the GPU.

    A probe is a Python function with @ws.probe(at="memory.load") that counts into maps. The tables are also in the file:
    warpsight query FILE "SELECT * FROM probe_value". Given an event trace, probes are asked of the recorded events instead.
    """
    from warpsight.sass.events.tracing import TraceSelection
    from warpsight.sass.probes.files import ProbeFile, find
    from warpsight.sass.probes.ready import listed
    from warpsight.ui.cli.sass.trace import range_of, warps_of

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
            "a recorded trace is probed as a whole and gives no file: select when it is recorded (sass trace)"
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
    from warpsight.sass.probes.running import ProbeLimits

    target = out or Path(f"{Path(program[0]).stem}.probes")
    files.check_free(target, force)
    return opened.of_program(program, target, selection, ProbeLimits(memory))


def _show(found: Results, top: int, as_json: bool) -> None:
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
