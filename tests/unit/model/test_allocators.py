"""Allocations and frees are paired by address within a family, in SQL as one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.allocators import changes, family


@pytest.mark.parametrize(
    ("allocator", "name"),
    [(None, "CUDA"), ("cudaMalloc", "CUDA"), ("cuMemAlloc_v2", "CUDA"), ("CUDA runtime", "CUDA"), ("CUDA driver", "CUDA"),
     ("clCreateBuffer", "OpenCL"), ("hipMalloc", "HIP"), ("curious", "curious"), ("my cudaMalloc", "my cudaMalloc"),
     ("torch", "torch"), ("CUDA", "CUDA"), ("hipster", "hipster"), ("client", "client"),
     ("", ""), ("cudaMalloc of mine", "cudaMalloc of mine")],
)  # fmt: skip
def test_functions_belong_to_the_family_of_their_api(
    allocator: str | None, name: str, tmp_path: Path
) -> None:
    assert family(allocator) == name
    with TraceWriter(tmp_path / "t.warp") as writer:
        row = {"time": 1, "operation": "allocate", "address": 5, "bytes": 1, "kind": "device", "process": 0}
        writer.add("memory", [row | {"allocator": allocator}])
    with open_trace(tmp_path / "t.warp") as trace:
        assert trace.sql(f"SELECT allocator FROM ({changes()})").fetchall() == [(name,)]


@pytest.mark.parametrize("seed", range(6))
def test_a_free_or_an_allocation_in_its_place_takes_away_what_an_allocation_added(
    tmp_path: Path, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = [
        {"time": time, "operation": str(rng.choice(("allocate", "free", "map"))), "address": int(rng.integers(1, 4)),
         "bytes": rng.choice((None, 4, 8)), "device": rng.choice((None, 0, 1)), "process": int(rng.integers(2)), "kind": "device",
         "allocator": str(rng.choice(("cudaMalloc", "cudaFree", "torch")))}
        for time in range(40)
    ]  # fmt: skip
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add("memory", rows)
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    expected = []
    for row in rows:
        if row["operation"] == "map" or row["time"] < 5:
            continue
        key = row["process"], family(row["allocator"]), row["address"]
        before = last.get(key)
        was = before["operation"] if before else None
        device, change = row["device"], row["bytes"] or 0
        if row["operation"] == "allocate" and before and was == "allocate":  # a free is missing
            change -= before["bytes"] or 0
        if row["operation"] == "free":
            change = 0
            if before and was == "allocate":
                device = before["device"]
                change = -(before["bytes"] if before["bytes"] is not None else row["bytes"] or 0)
        expected.append((row["time"], device, was, change))
        last[key] = row
    with open_trace(tmp_path / "t.warp") as trace:
        found = trace.sql(
            f"SELECT time, device, before, change FROM ({changes('time >= 5')}) ORDER BY time"
        ).fetchall()
    assert found == expected
