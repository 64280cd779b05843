"""What is missing is counted once: by cause, and once for each report however often a drainer wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from warpsight.capture import losses
from warpsight.capture.losses import LossLog
from warpsight.model.schema import TABLES


def test_a_report_that_is_written_again_replaces_the_first_and_another_is_added() -> None:
    rows: list[dict[str, Any]] = []
    log = LossLog(rows, 3)
    counter = ("1f", 2, 7, 100)
    log.add("ring", "full", 5, start=10, end=20, report=counter)
    log.add("ring", "full", 9, start=10, end=30, report=counter)
    log.add("ring", "full", 4, start=10, end=25, report=counter)
    log.add("ring", "full", 1, start=40, end=50, report=(*counter[:3], 200))
    log.add("ring", "full", 1, start=40, end=50)
    log.add("ring", "full", 1, start=40, end=50)
    assert [(row["count"], row["start"], row["end"], row["process"]) for row in rows] == [
        (9, 10, 25, 3), (1, 40, 50, 3), (1, 40, 50, 3), (1, 40, 50, 3),
    ]  # fmt: skip


def test_a_log_goes_on_after_its_rows_went_through_a_file() -> None:
    rows: list[dict[str, Any]] = []
    LossLog(rows, 0).add("ring", "full", 5, report=("1f", 2, 7, 100))
    LossLog(rows, 0).count("converter", "late", 2, "kernel", "note", start=5, end=9, worst=40)
    LossLog(rows, 1).count("converter", "late", 20, "kernel", "note")
    again = json.loads(json.dumps(rows))
    log = LossLog(again, 0)
    log.add("ring", "full", 6, report=("1f", 2, 7, 100))
    log.count("converter", "late", 3, "kernel", "note", start=2, end=7, worst=30)
    log.count("converter", "late", 1, "kernel", "lost")
    found = [
        (row["count"], row["process"], row.get("start"), row.get("end"), row.get("worst")) for row in again
    ]
    assert found == [
        (6, 0, None, None, None),
        (5, 0, 2, 9, 40),
        (20, 1, None, None, 0),
        (1, 0, None, None, 0),
    ]


def test_nothing_lost_is_no_row() -> None:
    rows: list[dict[str, Any]] = []
    LossLog(rows).count("converter", "late", 0, "kernel", "note")
    assert rows == []


@pytest.mark.parametrize(
    ("worst", "cause"), [(0, "late"), (1, "late (by up to 1 ns)"), (12_345, "late (by up to 12,345 ns)")]
)
def test_the_table_names_the_worst_of_a_cause(worst: int, cause: str) -> None:
    rows: list[dict[str, Any]] = []
    LossLog(rows, 1).count("clock", "late", 4, "kernel", "note", start=8, worst=worst)
    (row,) = losses.table(rows).to_pylist()
    assert row == {
        "time": None, "source": "clock", "cause": cause, "count": 4, "kind": "kernel", "severity": "note",
        "start": 8, "end": None, "process": 1,
    }  # fmt: skip


def test_a_report_of_the_launcher_is_completed_and_freed_of_what_no_table_has() -> None:
    row = losses.given({"cause": "killed", "time": 7, "color": "red"})
    assert set(row) == {column.name for column in TABLES["loss"].columns}
    assert (row["source"], row["cause"], row["count"], row["severity"], row["time"]) == (
        "launcher",
        "killed",
        1,
        "lost",
        7,
    )
    assert losses.given({})["cause"] == "unknown"


def test_the_summary_has_one_entry_a_cause() -> None:
    rows: list[dict[str, Any]] = []
    for process, count in ((0, 3), (1, 4)):
        LossLog(rows, process).add("ring", "full", count)
    LossLog(rows, 0).add("ring", "full", 5, severity="note")
    found = sorted(losses.summary(losses.table(rows)), key=lambda entry: int(entry["count"]))
    assert found == [
        {"severity": "note", "source": "ring", "cause": "full", "count": 5},
        {"severity": "lost", "source": "ring", "cause": "full", "count": 7},
    ]
    assert losses.summary(losses.table([])) == []
