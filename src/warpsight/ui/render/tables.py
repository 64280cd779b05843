"""Tables for a terminal and for a pipe: on a terminal they fit its width, in a pipe nothing is cut and numbers are plain."""

from __future__ import annotations

import csv
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING

from warpsight.ui.render import numbers, terminal

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.analysis.base.result import Result

#: First characters of a formula, in Excel, LibreOffice and others (OWASP, "CSV injection").
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")
#: Columns given up first when the terminal is narrow.
_LEAST_NEEDED = ("std", "call_mean", "latency_p99", "p95", "min", "latency_median", "registers", "shared", "p99",
                 "latency_mean", "median", "domain", "max", "last", "unknown_frees", "frees", "mean", "context")  # fmt: skip
#: Columns dropped next, before an interval is cut: redundant or least important.
_SECOND_LEAST_NEEDED = ("launches", "beside the rest", "clock_bound", "clock_offset", "clock", "host", "span", "copy", "compute",
                        "transfer", "flops_own", "host_self", "device_own", "group", "reuse", "rate")  # fmt: skip
#: Texts are not squeezed below this while columns can be given up instead.
_TEXT_WIDTH = 36
_LEAST_TEXT_WIDTH = 8
#: A change with its interval is useless when cut.
_INTERVAL_WIDTH = 24
#: A stack needs room for two or three frames.
_STACK_WIDTH = 48
_PLAIN_PADDING = 64
#: Rows of each table of a result that is printed in Python.
_TEXT_ROWS = 20
_GAP = 2
#: `function (file:line)` of a frame.
_FRAME = re.compile(r" \((?:[^()]*[/\\])?[^()/\\:]*(?::(\d+))?\)")


@dataclass(frozen=True)
class _Column:
    name: str
    cells: Sequence[str]
    right: bool

    @property
    def width(self) -> int:
        return max(map(len, (self.name, *self.cells)))


def show(table: pa.Table, *, title: str | None = None, top: int | None = None, stream: IO[str] | None = None,
         header: bool = True) -> None:  # fmt: skip
    """Print a table, its first `top` rows, with units from the columns' metadata."""
    target = stream or sys.stdout
    shown = table if top is None else table.slice(0, top)
    if target.isatty():
        _fitted(_on_terminal(shown), title, target)
    else:
        _plain(_columns(shown, grouped=False), title, target, header)
    left = len(table) - len(shown)
    if left:
        terminal.note(f"… {left:,} more rows; --top {len(table)} shows all")


def text(result: Result) -> str:
    """A result as text that fits the terminal: the first rows of each table, then the findings."""
    lines: list[str] = []
    for name, table in result.tables.items():
        shown = table.slice(0, _TEXT_ROWS)
        columns = _on_terminal(shown)
        chosen, widths = fit(columns, shutil.get_terminal_size((120, 24)).columns)
        cut = [_cut(c, width) for c, width in zip(chosen, widths, strict=True)]
        lines += [
            name,
            *(_line(row, chosen, widths) for row in ([c.name for c in chosen], *zip(*cut, strict=True))),
        ]
        if len(shown) < len(table):
            lines.append(f"… {len(table) - len(shown):,} more rows")
        if len(chosen) < len(columns):
            lines.append(f"columns that did not fit: {', '.join(c.name for c in columns if c not in chosen)}")
        lines.append("")
    lines += [f"{finding.severity}: {finding.text}" for finding in result.findings]
    return "\n".join(lines).rstrip("\n")


def _on_terminal(table: pa.Table) -> list[_Column]:
    """Columns in a form for people: stacks without files, names without the return type shared by every kernel."""
    return [
        _short_frames(c) if c.name == "stack" else _without_type(c) if c.name == "name" else c
        for c in _columns(table)
    ]


def _columns(table: pa.Table, *, grouped: bool = True) -> list[_Column]:
    out = []
    for field, column in zip(table.schema, table.columns, strict=True):
        unit = (field.metadata or {}).get(b"unit", b"").decode()
        values = column.to_pylist()
        right = all(isinstance(v, (int, float)) or v is None for v in values) and bool(values)
        identity = field.name in ("stream", "process", "thread", "pid", "context", "device", "correlation")
        cells = [
            str(v)
            if identity and v is not None
            else terminal.printable(numbers.cell(v, unit, grouped=grouped))
            for v in values
        ]
        out.append(_Column(field.name, cells, right))
    return out


def _short_frames(column: _Column) -> _Column:
    """Stacks as `function:line ← function:line`, since files would fill the width with the innermost frame."""
    return replace(column, cells=[_FRAME.sub(lambda m: f":{m[1]}" if m[1] else "", c) for c in column.cells])


def _without_type(column: _Column) -> _Column:
    """Names of kernels without the return type that every kernel has."""
    return replace(column, cells=[c.removeprefix("void ") for c in column.cells])


def _plain(columns: list[_Column], title: str | None, stream: IO[str], header: bool) -> None:
    if title:
        stream.write(f"{title}\n")
    # A kernel name of 600 characters stays whole, at the end of its line: what stood behind it would be out of line.
    columns = sorted(columns, key=lambda c: not c.right and c.width > _PLAIN_PADDING)
    widths = [c.width for c in columns]
    widths[-1:] = [0] if not columns[-1].right else widths[-1:]
    rows = [[c.name for c in columns]] if header else []
    rows += [list(row) for row in zip(*(c.cells for c in columns), strict=True)]
    for row in rows:
        cells = [
            cell.rjust(w) if c.right else cell.ljust(w)
            for cell, c, w in zip(row, columns, widths, strict=True)
        ]
        stream.write((" " * _GAP).join(cells).rstrip() + "\n")


def _fitted(columns: list[_Column], title: str | None, stream: IO[str]) -> None:
    chosen, widths = fit(columns, shutil.get_terminal_size().columns)
    bold, dim, plain = ("\033[1m", "\033[2m", "\033[0m") if terminal.colored(stream) else ("", "", "")
    if title:
        stream.write(f"{bold}{title}{plain}\n")
    stream.write(f"{bold}{_line([c.name for c in chosen], chosen, widths)}{plain}\n")
    stream.write(f"{dim}{'─' * (sum(widths) + _GAP * (len(widths) - 1))}{plain}\n")
    cut = [_cut(c, width) for c, width in zip(chosen, widths, strict=True)]
    for row in zip(*cut, strict=True):
        stream.write(_line(row, chosen, widths) + "\n")
    hidden = [c.name for c in columns if c not in chosen]
    if hidden:
        stream.flush()
        terminal.note(f"columns that did not fit: {', '.join(hidden)} (--csv and --json have all)")


def _cut(column: _Column, width: int) -> Sequence[str]:
    """The cells of a column in a width."""
    if column.right:
        return column.cells
    if column.name == "stack":  # it begins with its innermost frame: the outer ones go, not the middle
        return [c if width < 2 else numbers.shorten_paths(c, width) for c in column.cells]
    return numbers.shorten_apart(column.cells, width)


def _line(row: Sequence[str], columns: Sequence[_Column], widths: Sequence[int]) -> str:
    cells = []
    for cell, column, width in zip(row, columns, widths, strict=True):
        short = numbers.shorten(cell, width)
        cells.append(short.rjust(width) if column.right else short.ljust(width))
    return (" " * _GAP).join(cells).rstrip()


def _least(column: _Column, minimum: int) -> int:
    return _STACK_WIDTH if column.name == "stack" and minimum == _TEXT_WIDTH else minimum


def fit(columns: list[_Column], width: int) -> tuple[list[_Column], list[int]]:
    """Columns to show and their widths: shrink strings to 36, drop columns, shrink to 24, drop more, shrink to 8."""
    chosen = list(columns)

    def room(minimum: int) -> int:
        fixed = sum(c.width if c.right else min(c.width, _least(c, minimum)) for c in chosen)
        return width - fixed - _GAP * (len(chosen) - 1)

    for name in _LEAST_NEEDED:
        if room(_TEXT_WIDTH) >= 0:
            break
        if len(chosen) > 2:
            chosen = [c for c in chosen if c.name != name] or chosen
    for name in _SECOND_LEAST_NEEDED:
        if room(_INTERVAL_WIDTH) >= 0:
            break
        if len(chosen) > 2:
            chosen = [c for c in chosen if c.name != name] or chosen
    while len(chosen) > 1 and room(_LEAST_TEXT_WIDTH) < 0:
        chosen.pop()
    least = _TEXT_WIDTH if room(_TEXT_WIDTH) >= 0 else _LEAST_TEXT_WIDTH
    spare = max(room(least), 0)
    widths = [c.width if c.right else min(c.width, _least(c, least)) for c in chosen]
    # Keep narrow texts whole first, such as a verdict or an interval: long names and stacks stay readable when cut.
    for place in sorted(range(len(chosen)), key=lambda place: chosen[place].width):
        grown = min(chosen[place].width - widths[place], spare)
        widths[place] += grown
        spare -= grown
    return chosen, [max(1, min(w, width)) for w in widths]


def write_csv(table: pa.Table, stream: IO[str], *, header: bool = True) -> None:
    """Write CSV (RFC 4180) in full precision and raw units; :func:`csv_cell` handles strings that spreadsheets would execute."""
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow(map(csv_cell, table.column_names))
    columns = [[csv_cell(value) for value in column.to_pylist()] for column in table.columns]
    writer.writerows(zip(*columns, strict=True))


def csv_cell(value: object) -> object:
    """A cell of CSV; text that looks like a formula begins with an apostrophe, and no carriage return ends a row."""
    if not isinstance(value, str):
        return value
    return (f"'{value}" if value.startswith(_FORMULA_BEGINS) else value).replace("\r", "\n")
