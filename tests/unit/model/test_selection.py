"""Which rows count: conditions in SQL and on columns say the same as looking at each row."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows, begin_of

MOMENT = st.one_of(st.none(), st.integers(0, 6))
CHOSEN = st.lists(st.integers(0, 2), max_size=2)
TABLE = [
    {"start": s, "process": p, "device": d, "stream": q}
    for s in range(6)
    for p in (0, 1)
    for d in (0, 1)
    for q in (1, 2)
]


@settings(derandomize=True, max_examples=60)
@given(MOMENT, MOMENT, CHOSEN, CHOSEN, CHOSEN)
def test_conditions_choose_the_same_rows_in_sql_and_on_columns(
    begin: int | None, end: int | None, devices: list[int], streams: list[int], processes: list[int]
) -> None:
    rows = Rows(begin, end, devices, streams, processes)
    expected = [
        (begin is None or row["start"] >= begin) and (end is None or row["start"] < end)
        and (not devices or row["device"] in devices) and (not streams or row["stream"] in streams)
        and (not processes or row["process"] in processes)
        for row in TABLE
    ]  # fmt: skip
    columns = {name: np.array([row[name] for row in TABLE]) for name in TABLE[0]}
    assert rows.mask(columns).tolist() == expected
    listed = ", ".join(
        f"({row['start']}, {row['process']}, {row['device']}, {row['stream']}, {i})"
        for i, row in enumerate(TABLE)
    )
    source = f"(VALUES {listed}) t(start, process, device, stream, place)"
    chosen = duckdb.sql(f"SELECT place FROM {source} WHERE {rows.where()} ORDER BY place").fetchall()
    assert [place for (place,) in chosen] == np.flatnonzero(expected).tolist()
    assert rows.where(device=False) == Rows(begin, end, (), streams, processes).where()
    assert rows.where(stream=False) == Rows(begin, end, devices, (), processes).where()
    assert rows.where(time="time") == rows.where().replace("start", "time")
    assert hash(rows.key()) == hash(Rows(begin, end, tuple(devices), tuple(streams), tuple(processes)).key())


def test_the_begin_is_the_first_moment_of_anything_but_samples(tmp_path: Path) -> None:
    sample = {"time": [3], "thread": [1], "state": ["R"], "gil": [True], "process": [0]}
    counter = {
        "time": [9],
        "name": ["power"],
        "value": [1.0],
        "unit": ["W"],
        "source": ["nvml"],
        "process": [0],
    }
    call = [{"start": 7, "duration": 1, "function": "f", "thread": 1, "process": 0, "captured": False}]
    for number, (tables, begin) in enumerate((
        ({}, 0), ({"sample": sample}, 3), ({"sample": sample, "counter": counter}, 9),
        ({"sample": sample, "counter": counter, "launch": call}, 7),
    )):  # fmt: skip
        with TraceWriter(tmp_path / f"{number}.warp") as writer:
            for table, rows in tables.items():
                writer.add(table, rows)
        with open_trace(tmp_path / f"{number}.warp") as trace:
            assert begin_of(trace) == begin
