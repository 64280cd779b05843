"""Fixtures of the conversion tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.capture.recordings import Recording


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """An empty recording folder."""
    return Recording(tmp_path / "run.warp")
