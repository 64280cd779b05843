"""The outputs that a run under test must have written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpsight.race.oracle import Oracle, _differences

BEGIN = 1_000 * 10**9


@pytest.mark.parametrize(("age_ms", "written"), [(-5, True), (50, True), (200, False), (60_000, False)])
def test_a_file_from_before_the_run_was_not_written_by_it(tmp_path: Path, age_ms: int, written: bool) -> None:
    """Clocks of files are coarse, so a tenth of a second is allowed."""
    out = tmp_path / "out.bin"
    out.write_bytes(b"1")
    os.utime(out, ns=(BEGIN, BEGIN - age_ms * 1_000_000))
    (tmp_path / "reference").mkdir()
    oracle = Oracle(command=("x",), same_files=(str(out),))
    found = _differences(oracle, tmp_path, tmp_path / "reference", True, BEGIN)
    assert found == ([] if written else [f"{out} was not written"])
    assert (tmp_path / "reference" / "0.bin").exists() == written
