"""Instructions per cycle join a warp's regions in order, never crosswise."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sass.traces import metadata, write
from warpsight.sass.records import ipc
from warpsight.ui.cli import app

HISTOGRAM = 'warp_id,region_id,instruction,count\n9,0,"FFMA",300\n9,0,LDG.E,100\n9,1,FFMA,50\n3,0,FFMA,7\n'


def trace(path: Path) -> Path:
    events = [
        {"ph": "X", "pid": "Core12 CTA4", "tid": "warp 1", "name": name, "cat": "math", "ts": ts, "dur": dur}
        for name, ts, dur in (("second", 2.5, 0.1), ("first", 1.0, 0.8))
    ]
    path.write_text(json.dumps({"traceEvents": [*events, {"ph": "M", "pid": 0, "name": "process_name"}]}))
    return path


def test_regions_are_joined_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    histogram = tmp_path / "h.csv"
    histogram.write_text(HISTOGRAM)
    kernel = write(
        tmp_path / "k.ndjson", [metadata()]
    )  # 64 threads: 2 warps a block, so warp 1 of CTA 4 is warp 9
    arguments = [
        "--histogram",
        str(histogram),
        "--chrome-trace",
        str(trace(tmp_path / "c.json")),
        "--trace",
        str(kernel),
    ]
    assert app.main(["sass", "ipc", *arguments]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    told = [
        (r["global_warp_id"], r["region_id"], r["name"], r["cycles"], r["total_instruction_count"], r["ipc"])
        for r in rows
    ]
    assert told == [
        ("3", "0", "", "", "7", ""),
        ("9", "0", "first", "800", "400", "0.5"),
        ("9", "1", "second", "100", "50", "0.5"),
    ]


def test_the_number_of_warps_must_be_known(tmp_path: Path) -> None:
    assert app.main(["sass", "ipc", "--chrome-trace", str(trace(tmp_path / "c.json"))]) == 2
    assert app.main(["sass", "ipc"]) == 2


def test_what_is_no_histogram_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "h.csv"
    wrong.write_text("a,b\n1,2\n")
    assert app.main(["sass", "ipc", "--histogram", str(wrong)]) == 1
    assert "expected the columns" in capsys.readouterr().err


class Key(tuple[int, int]):
    """A warp and a region that count how often they are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        Key.looks += 1
        return super().__iter__()


@pytest.mark.parametrize("warps", [10, 1000])
def test_each_histogram_is_looked_at_a_few_times_however_many_warps_there_are(warps: int) -> None:
    Key.looks = 0
    rows = ipc.merge({Key((warp, 2)): {"FFMA": 1} for warp in range(warps)}, [])
    assert [(row.global_warp_id, row.region_id) for row in rows] == [(warp, 2) for warp in range(warps)]
    assert Key.looks <= 4 * warps
