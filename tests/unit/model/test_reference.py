"""The reference page says what the schema says."""

from __future__ import annotations

import runpy
from pathlib import Path

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def test_the_page_of_tables_is_current() -> None:
    page = runpy.run_path(str(REFERENCE / "generate_tables.py"))["page"]()
    assert (REFERENCE / "tables.md").read_text(encoding="utf-8") == page, (
        "run python docs/reference/generate_tables.py"
    )
