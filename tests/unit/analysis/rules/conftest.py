"""A program to write, for tests of rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.analysis.rules.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program that has not done anything yet."""
    return Program(tmp_path / "t.warp")
