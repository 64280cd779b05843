"""The account as text keeps its figures and whole names in narrow terminals."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from warpsight.analysis.rules.verdict import verdict
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.ui.render import findings

#: A kernel of it has a name of 69 characters.
SLOW = Path(__file__).parents[3] / "golden" / "planted_slow_step.warp.zip"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO) -> str:
    with open_trace(SLOW) as trace:
        findings.show_verdict(verdict(trace), stream, everything=False)
    return stream.getvalue()


@pytest.mark.parametrize("name", sorted(path.name for path in SLOW.parent.glob("planted_*.zip")))
def test_numbers_of_findings_are_those_of_all_and_gaps_are_said(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with open_trace(SLOW.with_name(name)) as trace:
        found, some, every = verdict(trace), io.StringIO(), io.StringIO()
    findings.show_verdict(found, some, everything=False)
    findings.show_verdict(found, every, everything=True)
    heads, whole = (re.findall(r"(?m)^(\d+)\. (.*)$", text.getvalue()) for text in (some, every))
    assert heads and set(heads) <= set(whole)
    listed = {int(number) for number, _ in heads}
    left = set(range(1, len(found.findings) + 1)) - listed
    more = re.search(r"… and (\d+) more(?: \((.*)\))?; --all", some.getvalue())
    assert (more is None) == (not left)
    if more is not None and more[2]:
        runs = [re.findall(r"\d+", run) for run in more[2].split(", ")]
        assert {n for run in runs for n in range(int(run[0]), int(run[-1]) + 1)} == left
    assert not left or bool(more and more[2]) == (min(left) < max(listed))


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (60, 5), (120, 5)])
def test_rows_are_no_wider_than_the_terminal(
    columns: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    lines = shown(Terminal()).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("  host "))
    table = lines[first : first + rows]
    assert max(map(len, table)) <= columns and not lines[first + rows]
    assert "train (slow_step.py:27)" in "\n".join(table) and "% of it" in table[-1]
    assert columns == 60 or "cuLibraryLoadData, 99% of it" in "\n".join(table)


def test_nothing_is_cut_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    cut, whole = ([line for line in shown(stream).splitlines() if line.startswith(("  compute", "   ·"))]
                  for stream in (Terminal(), io.StringIO()))  # fmt: skip
    assert "…" not in "".join(whole)
    assert len(max(cut, key=len)) <= 40 < len(max(whole, key=len))


def test_a_trace_without_device_work_has_no_empty_paragraphs(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.describe()
    stream = io.StringIO()
    with open_trace(tmp_path / "t.warp") as trace:
        findings.show_verdict(verdict(trace), stream, everything=False)
    assert "o device work" in stream.getvalue() and "\n\n\n" not in stream.getvalue()


def test_every_line_of_a_finding_has_its_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    head = re.search(r"(?ms)^\033\[33m1\. (.*?)^   ·", shown(Terminal()))
    assert head is not None
    lines = head[1].splitlines()
    assert len(lines) > 1 and all(line.startswith("\033[33m") for line in lines[1:])
