"""What became of the warps of a traced kernel."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sass.traces import event, metadata, small
from tests.unit.sass.traces import write as write_trace
from warpsight.sass.records.warps import Warps, ranges, summary
from warpsight.ui.cli import app
from warpsight.ui.render.sass.warps import LINES, write


def test_a_warp_is_completed_by_its_last_instruction_padding_aside(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.ndjson", small())
    assert summary(path).to_json() == {
        "total_observed": 3,
        "warp_id_range": [0, 2],
        "completed": {"count": 2, "percentage": 66.7, "ranges": [[0, 1]]},
        "in_progress": {"count": 1, "percentage": 33.3, "ranges": [[2, 2]]},
        "missing": {"count": 1, "percentage": 25.0, "ranges": [[3, 3]]},  # the grid has four warps
    }


def test_an_exit_of_some_lanes_does_not_complete_a_warp(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.ndjson", [metadata(), event(0, 0, 3), event(1, 0, 1)])
    found = summary(path)
    assert (found.completed, found.in_progress) == ([], [0])


def test_without_a_kernel_the_largest_id_is_the_end(tmp_path: Path) -> None:
    path = write_trace(
        tmp_path / "t.ndjson", [event(0, 5, 0, sass="EXIT ;"), event(1, 2, 0, sass="BRA 0x10 ;")]
    )
    found = summary(path)
    assert found.completed == [5]
    assert found.in_progress == [2]
    assert found.missing == [(0, 1), (3, 4)]


def test_ranges() -> None:
    assert ranges([5, 1, 2, 3, 9]) == [(1, 3), (5, 5), (9, 9)]
    assert ranges([]) == []


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(tmp_path / "t.ndjson", small())
    assert app.main(["sass", "warps", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Warp Summary",
        "  Total warps observed: 3",
        "  Warp ID range: 0-2",
        "",
        "                         WARPS   SHARE  RANGES OF IDS",
        "  Completed (EXIT):          2   66.7%  1",
        "      0-1",
        "  In-progress:               1   33.3%  1",
        "      2",
        "  Missing (never seen):      1   25.0%  1",
        "      3",
    ]
    assert app.main(["sass", "warps", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_observed"] == 3


def many(runs: int) -> dict[str, Any]:
    """A summary with so many runs of completed warps, a gap after each."""
    ended = [warp for run in range(runs) for warp in range(run * 10, run * 10 + 3)]
    return Warps(ended, [], [(3, 9)], ()).to_json()


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("runs", [1, 12, 27, 28, 29, 500])
def test_ranges_beyond_a_few_lines_are_counted(
    runs: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    brief, full = io.StringIO(), io.StringIO()
    write(many(runs), brief)
    shown = brief.getvalue().splitlines()
    assert max(map(len, shown)) <= width
    begin = next(place for place, line in enumerate(shown) if "Completed" in line) + 1
    end = next(place for place, line in enumerate(shown) if "In-progress" in line)
    listed = " ".join(shown[begin:end])
    assert 1 <= end - begin <= LINES
    told = [int(found[1]) for found in re.finditer(r"(\d+)-\d+", listed)]
    left = (
        int(found[1].replace(",", "")) if (found := re.search(r"and ([\d,]+) more \(--all\)", listed)) else 0
    )
    assert told == [run * 10 for run in range(len(told))]
    assert len(told) + left == runs
    write(many(runs), full, everything=True)
    whole = full.getvalue()
    assert re.findall(r"(\d+)-\d+", whole.split("RANGES OF IDS")[1])[:-1] == [
        str(run * 10) for run in range(runs)
    ]


def test_all_ranges_are_there_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(tmp_path / "t.ndjson", [event(i, 2 * i, 0, sass="EXIT ;") for i in range(200)])
    assert app.main(["sass", "warps", str(path)]) == 0
    assert "more (--all)" in capsys.readouterr().out
    assert app.main(["sass", "warps", str(path), "--all"]) == 0
    assert " 398\n" in capsys.readouterr().out


def test_a_file_without_warps_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = {"type": "kernel_launch", "kernel_launch_id": 1, "kernel_name": "k", "kernel_checksum": "", "grid": [1, 1, 1],
              "block": [1, 1, 1], "nregs": 1, "shmem": 0, "stream_id": 7}  # fmt: skip
    path = write_trace(tmp_path / "events.ndjson", [launch])
    assert app.main(["sass", "warps", str(path)]) == 0
    assert "none of its records belongs to a warp" in capsys.readouterr().err
