"""Findings for a terminal: the verdict, then each finding with its cost, evidence and advice."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

from warpsight.ui.render import account_text, numbers, terminal

if TYPE_CHECKING:
    from warpsight.analysis.base.result import Finding
    from warpsight.analysis.rules.verdict import Verdict
    from warpsight.cluster.verdict import JobVerdict

#: Default maximum number of lines in an answer.
LINES = 30
_WIDEST = 120
_COLORS = {"error": "\033[31m", "loss": "\033[31m", "warning": "\033[33m", "note": "\033[2m"}


def show_verdict(found: Verdict, stream: IO[str], *, everything: bool) -> None:
    """Print a verdict in at most :data:`LINES` lines, or in full."""
    bold, plain = ("\033[1m", "\033[0m") if terminal.colored(stream) else ("", "")
    headline = numbers.capitalized(found.headline, found.leading[0].name if found.leading else None)
    lines = [f"{bold}{line}{plain}" for line in _wrapped(headline, "")]
    lines += _wrapped(numbers.capitalized(found.summary) + ".", "")
    lines += account_text.lines(found.account, _width() if stream.isatty() else sys.maxsize)
    if everything:
        lines += ["", *(line for block in _blocks(found, stream) for line in block)]
    else:
        blocks, hidden = _fitting(found, stream, LINES - len(lines) - 3)
        lines += [
            "",
            *(line for block in blocks for line in block),
            *([""] if blocks else []),
            hidden or _MORE,
        ]
    stream.write("\n".join(lines) + "\n")


_MORE = "warpsight analyze TRACE NAME runs one analysis, --list lists them, --all runs them all"


def _blocks(found: Verdict, stream: IO[str], *, brief: bool = False) -> list[list[str]]:
    return [
        describe(finding, number, stream, span=found.account.span, length=found.length, brief=brief)
        for number, finding in enumerate(found.findings, 1)
    ]


def _fitting(found: Verdict, stream: IO[str], room: int) -> tuple[list[list[str]], str]:
    """What fits into some lines: the headline's findings in full, the others' first lines, then more of those."""
    leading = [i for i, one in enumerate(found.findings) if one in found.leading]
    others = [i for i in range(len(found.findings)) if i not in leading]
    brief, full = _blocks(found, stream, brief=True), _blocks(found, stream)
    shown: dict[int, list[str]] = {}
    for i in leading:
        shown[i] = full[i] if len(full[i]) <= room else brief[i]
        room -= len(shown[i])
    for i in others:
        if len(brief[i]) > room:
            break
        shown[i] = brief[i]
        room -= len(brief[i])
    for i in others:
        more = len(full[i]) - len(brief[i])
        if i in shown and more <= room:
            shown[i] = full[i]
            room -= more
    left = [i + 1 for i in range(len(found.findings)) if i not in shown]
    between = (
        left and left[0] < max(shown, default=0) + 1
    )  # numbers are those of --all: a reader sees which are not here
    which = f" ({_numbers(left)})" if between else ""
    return [
        shown[i] for i in sorted(shown)
    ], f"… and {len(left)} more{which}; --all shows everything" if left else ""


def _numbers(some: Sequence[int]) -> str:
    """Sorted numbers, those that follow each other as one: `2–5, 7`."""
    runs: list[list[int]] = []
    for number in some:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def describe(
    finding: Finding, number: int, stream: IO[str], *, span: int, length: int, brief: bool = False
) -> list[str]:
    """The lines of one finding. Shares are of the devices' time (`span`, ns), savings of the judged time (`length`, ns)."""
    color, plain = (_COLORS.get(finding.severity, ""), "\033[0m") if terminal.colored(stream) else ("", "")
    cost = finding.severity
    if finding.share_ns is not None:
        cost = f"{finding.share_ns / max(span, 1):.0%}, {numbers.duration(finding.share_ns)}"
    elif finding.saves_ns is not None:
        cost = f"saves up to {finding.saves_ns / max(length, 1):.0%}, {numbers.duration(finding.saves_ns)}"
    head = _wrapped(f"{number}. [{cost}] {finding.text}", "   ")
    lines = [f"{color}{line}{plain}" for line in head]
    if brief:
        return lines
    shown = finding.evidence[: 3 if finding.severity != "note" else 2]
    lines += [_cut(f"   · {evidence_text(one)}", stream) for one in shown]
    if finding.advice:
        lines += _wrapped(f"→ {finding.advice}", "     ", first="   ")
    return lines


def evidence_text(evidence: str | Mapping[str, object]) -> str:
    """One piece of a finding's evidence on a line."""
    return evidence if isinstance(evidence, str) else ", ".join(f"{k} {v}" for k, v in evidence.items())


def _width() -> int:
    return min(max(shutil.get_terminal_size().columns, 40), _WIDEST)


def _wrapped(text: str, indent: str, first: str = "") -> list[str]:
    return textwrap.wrap(
        numbers.near(text),
        _width(),
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [""]


def _cut(text: str, stream: IO[str]) -> str:
    """A line of evidence; on a terminal it is cut, but keeps the file and line, which matter most."""
    return numbers.shorten_paths(numbers.near(text), _width() if stream.isatty() else sys.maxsize)


def show_job(found: JobVerdict, stream: IO[str], *, everything: bool) -> None:
    """Print the verdict on a job: the headline, the ranks' time, then the findings, the first few in full."""
    from warpsight.ui.render import tables

    bold, plain = ("\033[1m", "\033[0m") if terminal.colored(stream) else ("", "")
    lines = [f"{bold}{line}{plain}" for line in _wrapped(numbers.capitalized(found.headline), "")]
    lines += [*_wrapped(numbers.capitalized(found.summary) + ".", ""), ""]
    for number, finding in enumerate(found.findings, 1):
        brief = number > 3 and not everything
        lines += describe(finding, number, stream, span=found.length, length=found.length, brief=brief)
    stream.write("\n".join(lines) + "\n")
    for table, title in ((found.ranks, "ranks"), (found.collectives, "collectives")):
        if len(table):
            stream.write("\n")
            tables.show(table, title=title, top=None if everything else 16, stream=stream)


def show_list(names: Mapping[str, str], stream: IO[str]) -> None:
    """Print names and their meanings."""
    width = max(map(len, names)) + 2
    for name, meaning in names.items():
        stream.write(f"{name:{width}}{meaning}\n")


def rows_each(tables: Sequence[int], lines: int) -> int:
    """Rows to print per table so that all tables fit into some lines, including a title and a header each."""
    filled = [count for count in tables if count]
    return max((lines - 2 - 3 * len(filled)) // max(len(filled), 1), 3)
