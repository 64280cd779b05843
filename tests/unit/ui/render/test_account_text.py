"""The account as text keeps its figures and whole names in narrow terminals."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from warpsight.analysis.rules.verdict import verdict
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
