"""The summary of `warpsight record`: about ten lines on standard error, and a progress line before them."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

from warpsight.errors import WarpsightError
from warpsight.recorder.summary import RecordingSummary, amount, amount_of, seconds, size
from warpsight.ui.cli.record.record_highlights import Highlights, highlights
from warpsight.ui.render import numbers, terminal


class ProgressLine:
    """A line shown on a terminal while the trace is written and removed afterwards; not shown elsewhere."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty() and terminal.verbosity() >= 0

    def __enter__(self) -> ProgressLine:
        self._write("writing the trace…")
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def update(self, answer: dict[str, Any]) -> None:
        """Show how far the converter is."""
        if "kernels" in answer:
            self._write(f"writing the trace: {amount(answer['kernels'])} kernels so far…")

    def clear(self) -> None:
        """Remove the line."""
        self._write("")

    def _write(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()


def print_summary(summary: RecordingSummary) -> None:
    """Print the summary; losses are in red, and near the end so that they are noticed."""
    try:
        found: Highlights | None = highlights(summary.path)
    except WarpsightError as error:
        terminal.warning(f"the trace was written but cannot be read: {error}")
        found = None
    for line in lines(summary, found):
        print(line, file=sys.stderr)
    terminal.warning(*_unmatched(summary), *losses(summary))
    print(f"  look:       {_look(summary)}", file=sys.stderr)


def _look(summary: RecordingSummary) -> str:
    """What to type next."""
    if not summary.processes:
        return "warpsight doctor says what can be recorded here"
    path = shlex.quote(_from_here(summary.path))
    return f"warpsight open {path}; warpsight analyze {path}"


def lines(summary: RecordingSummary, found: Highlights | None) -> list[str]:
    """The lines of the summary without losses."""
    rows = summary.rows
    bytes_ = int(summary.finished.get("bytes", 0))
    kernels = rows.get("kernel", 0)
    copies = rows.get("memcpy", 0) + rows.get("memset", 0)
    out = [
        f"recorded {summary.path} ({size(bytes_)}; written {seconds(summary.conversion)} after the program's end)",
        f"  time:       {seconds(summary.duration)}, {amount_of(summary.processes, 'process', 'processes')}",
        f"  device:     {amount_of(kernels, 'kernel')}, {amount_of(copies, 'copy or set', 'copies and sets')}",
        f"  host:       {amount_of(rows.get('launch', 0), 'launch', 'launches')}, "
        f"{amount_of(rows.get('api', 0), 'other call')}, "
        f"{amount_of(found.stacks if found else rows.get('stack', 0), 'stack')}, {amount_of(rows.get('sample', 0), 'sample')}",
    ]
    said = (("marker", "ranges and marks"), ("op", "operators"), ("user_event", "events of its own"))
    if amounts := [f"{amount(rows[table])} {what}" for table, what in said if rows.get(table)]:
        out.append(f"  program:    {', '.join(amounts)}")
    if found and found.busy is not None:
        out.append(
            f"  GPU busy:   {found.busy:.1%} of the {seconds(found.span)} from its first work to its last"
        )
    for place, kernel in enumerate(found.kernels if found else ()):
        head = "top:" if place == 0 else ""
        out.append(
            f"  {head:<11} {kernel.share:6.1%} {seconds(kernel.duration):>9} {kernel.calls:>9,}× {kernel.name[:80]}"
        )
    if not summary.processes:
        out.append("  no process used a GPU through CUDA or OpenCL, and none announced anything itself")
    if found and found.first:
        width = min(shutil.get_terminal_size((100, 24)).columns, 100)
        first = numbers.near(found.first)
        out += textwrap.wrap(first, width, initial_indent="  first:      ", subsequent_indent=" " * 14)
    out.append(f"  own cost:   {_own_cost(summary, found)}")
    return out


def _from_here(path: Path) -> str:
    """The path as a reader would type it: relative when it is below the working directory."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):
        return str(path)


def _own_cost(summary: RecordingSummary, found: Highlights | None) -> str:
    used = f"{seconds(summary.overhead.get('launcher_cpu_ns', 0))} of processor time beside the program"
    if found is None or found.own_cost is None:
        return used
    cost = found.own_cost
    return f"GPU work took about {cost.longer:.1%} longer ({seconds(cost.waited)}); {used}"


def losses(summary: RecordingSummary, most: int = 4) -> list[str]:
    """The lines about missing data, most severe first."""
    missing = [one for one in summary.losses if one.get("severity") != "note"]
    missing.sort(key=lambda one: -int(one.get("count", 0)))
    out = [f"  lost:       {int(one['count']):,}× {one['cause']} ({one['source']})" for one in missing[:most]]
    if len(missing) > most:
        out.append(f"  lost:       {len(missing) - most} more causes: warpsight info")
    return out


#: How notes begin that answer an option.
_ANSWERS = ("kernel pattern ", "--capture-range ", "--delay ", "--for ", "--max-size ", "CUPTI is left to the program (--yield)",
            "no OpenMP runtime ", "no OpenACC runtime ", "only CUDA has ")  # fmt: skip


def _unmatched(summary: RecordingSummary) -> list[str]:
    """What options left out, and options without effect, such as patterns that matched no kernel."""
    counts: dict[str, int] = {}
    for one in summary.losses:
        if str(one.get("cause", "")).startswith(_ANSWERS):
            counts[one["cause"]] = counts.get(one["cause"], 0) + int(one.get("count", 1))
    several = summary.processes > 1
    return [
        f"  note:       {cause}" + (f" in {count} of {summary.processes} processes" if several else "")
        for cause, count in counts.items()
    ]
