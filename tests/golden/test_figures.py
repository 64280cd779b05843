"""Thresholds, limits and tables of hardware are those that were reviewed: a figure that changes was meant to."""

from __future__ import annotations

import json

from tests.golden.figures import STORED, figures, text


def test_figures_are_those_that_were_reviewed() -> None:
    expected, found = json.loads(STORED.read_text(encoding="utf-8")), json.loads(text(figures()))
    different = {
        name: (expected.get(name), found.get(name))
        for name in sorted(expected | found)
        if expected.get(name) != found.get(name)
    }
    assert not different, "If this is meant: python -m tests.golden.figures, and look at the difference."
