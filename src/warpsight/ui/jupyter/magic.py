"""`%%warpsight`: record one cell and show its report."""

from __future__ import annotations

import argparse
import html
import importlib
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from urllib.parse import quote

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.jupyter import cells

if TYPE_CHECKING:
    from warpsight.api.trace import Trace

_DEFAULT = "cell.warp"


class _Shell(Protocol):
    """What the magic needs of IPython's shell."""

    user_ns: dict[str, Any]
    compile: cells.Compiler

    def register_magic_function(
        self, function: Callable[[str, str], None], kind: str, name: str, /
    ) -> None: ...

    def run_cell(self, code: str, /) -> object: ...


def register(shell: Any) -> None:
    """Add the magic to a running IPython."""

    def warpsight(line: str, cell: str) -> None:
        _record_cell(shell, line, cell)

    warpsight.__doc__ = _parser().format_help()
    shell.register_magic_function(warpsight, "cell", "warpsight")


def _record_cell(shell: _Shell, line: str, cell: str) -> None:
    """Run a cell under `ws.record` and display the trace; an error of the cell is shown as always, and recorded as far.

    Args:
        shell: The IPython shell.
        line: Options behind `%%warpsight`.
        cell: The code.

    Raises:
        UsageError: for unknown options.
        WarpsightError: when nothing can be recorded here, or this process is being recorded already.
    """
    import warpsight

    try:
        chosen = _parser().parse_args(shlex.split(line))
    except argparse.ArgumentError as error:
        raise UsageError(f"%%warpsight: {error}") from None
    # A line in the place of the magic's own keeps the numbers of the cell's lines, unless another magic has to be first.
    code = cell if cell.lstrip().startswith("%%") else f"# %%warpsight\n{cell}"
    with warpsight.record(chosen.output, force=not chosen.keep):
        shell.run_cell(code)
    if hasattr(shell.compile, "format_code_name"):  # since IPython 8.0
        cells.name_cells(Path(chosen.output), shell.compile, cells.running_cell(shell.compile))
    trace = warpsight.open(chosen.output)
    shell.user_ns[chosen.trace] = trace
    displays = importlib.import_module("IPython.display")
    shell_display = displays.display
    shell_display(trace)
    shell_display(displays.HTML(_link(trace, chosen.output)))
    if chosen.flame:
        try:
            shell_display(trace.flame(chosen.flame))
        except WarpsightError as error:  # nothing of this weight: an empty graph would not say why
            shell_display(displays.HTML(html.escape(str(error))))


def _link(trace: Trace, output: str) -> str:
    """A link to the full report, written next to the trace."""
    page = f"{output.rstrip('/').removesuffix('.warp')}.report.html"
    trace.report(page, force=True)
    address, text = html.escape(quote(page)), html.escape(page)
    return f'<a href="{address}" target="_blank" rel="noopener">{text}</a>: timeline, flame graph, source'


class _Parser(argparse.ArgumentParser):
    """Raises errors instead of printing them and exiting, because the process is a notebook."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%warpsight: {message}; %%warpsight? explains the options")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="%%warpsight",
        add_help=False,
        allow_abbrev=False,
        description="Record this cell and show what the GPU did meanwhile.",
    )
    parser.add_argument(
        "-o", "--output", default=_DEFAULT, help="folder of the trace (cell.warp, replaced each time)"
    )
    parser.add_argument("--keep", action="store_true", help="refuse to replace an earlier trace")
    parser.add_argument("-t", "--trace", default="trace", help="variable that gets the trace (trace)")
    parser.add_argument(
        "--flame", nargs="?", const="time", choices=("time", "launches", "bytes", "idle", "allocated", "samples", "pc-samples"),
        help="show a flame graph too, by time unless another weight is named",
    )  # fmt: skip
    return parser
