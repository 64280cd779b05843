"""Probes of `tests/gpu/probes.py` in `add` of `tests/gpu/event_truth.cu`, run on an H100: their tables are what the source says.

In the recording a path was replaced; nothing else was.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from warpsight.sass.events.trace import EventTrace
from warpsight.sass.probes.files import ProbeFile
from warpsight.sass.probes.interpreter import interpret
from warpsight.sass.probes.results import Results, results

FOLDER = Path(__file__).parent / "events"
PROBES = Path(__file__).parents[1] / "gpu" / "probes.py"
#: add<<<4, 128>>>(a, b, c, 500) with a[i] = b[i] = i / 4: a thread loads two floats and stores one.
BLOCKS, THREADS, COUNT, FLOAT = 4, 128, 500, 4
LOADED = np.arange(COUNT, dtype=np.float32) / 4
STORED = 2 * LOADED
ACTIVE = np.arange(COUNT)


@pytest.fixture(scope="module")
def found() -> Results:
    return results([EventTrace(FOLDER / "add.probes.zst")])


def rows(table: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True))


def test_every_table_is_the_interpreters_of_the_recorded_events(found: Results) -> None:
    of_events = interpret(FOLDER / "truth.events.zst", ProbeFile.open(PROBES).probes)
    assert set(found.tables) == set(of_events.tables)
    for name, table in of_events.tables.items():
        of_add = table.filter(pc.starts_with(table["kernel"], "add("))
        columns = of_add.column_names
        assert rows(found[name], *columns) == rows(of_add, *columns), name


def test_each_thread_accesses_memory_three_times(found: Results) -> None:
    assert found["accesses"]["value"].to_pylist() == [3 * COUNT]
    in_block = [int((block == ACTIVE // THREADS).sum()) for block in range(BLOCKS)]
    assert rows(found["of_block"], "block", "value") == [
        (block, 3 * FLOAT * threads) for block, threads in enumerate(in_block)
    ]
    assert rows(found["sizes"], "low", "high", "count") == [(FLOAT, 2 * FLOAT, 3 * COUNT)]
    assert found["by_pc"]["weight"].to_pylist() == [FLOAT * COUNT] * 3


def test_extremes_and_bits_are_those_of_the_values(found: Results) -> None:
    least = [
        (block, key, float(values[block == ACTIVE // THREADS].min()))
        for block in range(BLOCKS) for key, values in ((0, LOADED), (1, STORED))
    ]  # fmt: skip
    assert rows(found["least"], "block", "key", "value") == least
    assert rows(found["greatest"], "key", "value") == [(0, float(LOADED.max())), (1, float(STORED.max()))]
    bits = np.bitwise_or.reduce(np.concatenate((LOADED, STORED)).view(np.uint32))
    assert found["bits"]["value"].to_pylist() == [int(bits)]


def test_lanes_are_counted_in_the_intervals_of_the_histogram(found: Results) -> None:
    lanes = np.repeat(ACTIVE % 32, 3)
    table = found["lanes"].to_pylist()
    assert [row["count"] for row in table] == [
        int(((lanes >= row["low"]) & (lanes < row["high"])).sum()) for row in table
    ]
    assert sum(row["count"] for row in table) == 3 * COUNT


def test_the_last_two_loads_of_each_thread_are_kept_in_their_order(found: Results) -> None:
    table = found["latest"]
    thread = np.array(table["block"]) * THREADS + np.array(table["thread"])
    assert np.array_equal(thread, np.repeat(ACTIVE, 2))
    assert np.array_equal(table["number"], np.tile([1, 2], COUNT))
    assert np.array_equal(table["value"], np.repeat(LOADED, 2))


def test_additions_that_find_no_place_are_counted(found: Results) -> None:
    lanes = ACTIVE % 32  # the store of lanes above 20 returns before the key that there is not
    [note] = found.notes
    assert note.startswith(f"whole: {2 * COUNT + int((lanes <= 20).sum()):,} additions of launch 0")
