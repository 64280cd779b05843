"""The account as text keeps its figures and whole names in narrow terminals."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.ui.cli import app

SLOW = Path(__file__).parents[3] / "golden" / "planted_slow_step.warp.zip"


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (60, 5), (120, 5)])
def test_rows_are_no_wider_than_the_terminal(
    columns: int, rows: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert app.main(["analyze", str(SLOW)]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("  host "))
    table = lines[first : first + rows]
    assert max(map(len, table)) <= columns and not lines[first + rows]
    assert "train (slow_step.py:27)" in "\n".join(table) and "% of it" in table[-1]
    assert columns == 60 or "cuLibraryLoadData, 99% of it" in "\n".join(table)
