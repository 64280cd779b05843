"""What became of the warps of a traced kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.sass.traces import event, metadata, small, write
from warpsight.cli import app
from warpsight.sass.warps import ranges, summary


def test_a_warp_is_completed_by_its_last_instruction_padding_aside(tmp_path: Path) -> None:
    path = write(tmp_path / "t.ndjson", small())
    assert summary(path).to_json() == {
        "total_observed": 3,
        "warp_id_range": [0, 2],
        "completed": {"count": 2, "percentage": 66.7, "ranges": [[0, 1]]},
        "in_progress": {"count": 1, "percentage": 33.3, "ranges": [[2, 2]]},
        "missing": {"count": 1, "percentage": 25.0, "ranges": [[3, 3]]},  # the grid has four warps
    }


def test_an_exit_of_some_lanes_does_not_complete_a_warp(tmp_path: Path) -> None:
    path = write(tmp_path / "t.ndjson", [metadata(), event(0, 0, 3), event(1, 0, 1)])
    found = summary(path)
    assert (found.completed, found.in_progress) == ([], [0])


def test_without_a_kernel_the_largest_id_is_the_end(tmp_path: Path) -> None:
    path = write(tmp_path / "t.ndjson", [event(0, 5, 0, sass="EXIT ;"), event(1, 2, 0, sass="BRA 0x10 ;")])
    found = summary(path)
    assert found.completed == [5]
    assert found.in_progress == [2]
    assert found.missing == [(0, 1), (3, 4)]


def test_ranges() -> None:
    assert ranges([5, 1, 2, 3, 9]) == [(1, 3), (5, 5), (9, 9)]
    assert ranges([]) == []


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "t.ndjson", small())
    assert app.main(["sass", "warps", str(path)]) == 0
    text = capsys.readouterr().out
    assert "Completed (EXIT): 2 (66.7%)\n    0-1\n" in text
    assert app.main(["sass", "warps", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_observed"] == 3
