"""A recording of `benchmarks/gpu/empty_kernels.cu 200 1` made on an H200 (driver 580, CUPTI 13.0) reads as it did there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpsight.model import StoredTrace
from warpsight.model import open as open_trace

RECORDING = Path(__file__).with_name("h200_empty_kernels.warp.zip")


@pytest.fixture(scope="module")
def h200() -> Iterator[StoredTrace]:
    with open_trace(str(RECORDING)) as trace:
        yield trace


def one(trace: StoredTrace, sql: str) -> tuple[Any, ...]:
    (row,) = trace.sql(sql).fetchall()
    return tuple(row)


def test_every_launch_has_its_kernel(h200: StoredTrace):
    joined = one(
        h200,
        "SELECT count(*), count(DISTINCT l.correlation) FROM launch l JOIN kernel k USING (process, correlation)",
    )
    assert joined == (201, 201)
    assert one(h200, "SELECT count(*) FROM kernel WHERE start IS NULL OR duration <= 0") == (0,)


def test_kernels_begin_after_their_launch_and_do_not_overlap_on_one_stream(h200: StoredTrace):
    assert one(
        h200,
        "SELECT count(*) FROM launch l JOIN kernel k USING (process, correlation) WHERE k.start < l.start",
    ) == (0,)
    overlaps = (
        "SELECT start < lag(start + duration) OVER (PARTITION BY stream ORDER BY start) AS o FROM kernel"
    )
    assert one(h200, f"SELECT count(*) FILTER (WHERE o) FROM ({overlaps})") == (0,)


def test_shapes_and_names_are_the_programs(h200: StoredTrace):
    rows = h200.sql("SELECT short, grid_x, block_x, count(*) FROM kernel GROUP BY ALL ORDER BY 4").fetchall()
    assert rows == [("empty", 1, 32, 1), ("empty", 4, 128, 200)]


def test_calls_tell_allocations_and_waits(h200: StoredTrace):
    memory = h200.sql("SELECT operation, bytes FROM memory ORDER BY time").fetchall()
    assert memory == [("allocate", 4096), ("free", None)]
    assert one(h200, "SELECT count(DISTINCT address) FROM memory") == (1,)
    assert one(h200, "SELECT count(*), min(kind) FROM sync") == (2, "context")


def test_the_device_is_described(h200: StoredTrace):
    device = one(h200, "SELECT name, multiprocessors, compute_capability, runtime FROM device")
    assert device == ("NVIDIA H200", 132, "9.0", "CUPTI 130001")
    power = one(h200, "SELECT min(value), max(value), min(unit) FROM counter WHERE name = 'power'")
    assert 0 < power[0] <= power[1] < 700
    assert power[2] == "W"


def test_nothing_is_missing(h200: StoredTrace):
    assert one(h200, "SELECT count(*) FROM loss WHERE severity <> 'note'") == (0,)


def test_two_devices_of_one_process_are_told_apart() -> None:
    with open_trace(str(RECORDING.with_name("h200_two_devices.warp.zip"))) as trace:
        kernels = trace.sql(
            "SELECT device, count(DISTINCT context), count(*) FROM kernel WHERE name LIKE '%MulFunctor%' "
            "GROUP BY device ORDER BY device"
        )
        assert kernels.fetchall() == [(0, 1, 50), (1, 1, 50)]
        assert trace.sql("SELECT count(DISTINCT uuid), count(DISTINCT pci) FROM device").fetchall() == [
            (2, 2)
        ]
        peers = trace.sql(
            "SELECT kind, source_device, destination_device, bytes, count(*) FROM memcpy GROUP BY ALL"
        )
        assert peers.fetchall() == [("PtoP", 0, 1, 4 << 20, 50)]
