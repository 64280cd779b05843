"""Memory events that lack a value, and many processes, devices and allocators at once, against walking over the rows."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.account.rows import call, marker
from tests.unit.analysis.conftest import Build
from warpsight.analysis.memory.use import NEVER, load, memory, usage
from warpsight.analysis.stats.overview_series import memory as series
from warpsight.analysis.stats.sums import stats
from warpsight.model import StoredTrace
from warpsight.model.selection import Rows

Row = dict[str, Any]
LAYERS = {"CUDA runtime": "CUDA", "CUDA driver": "CUDA", "caching allocator": "caching allocator"}


def event(time: int | None, operation: str, address: int | None, size: int | None = None, **more: Any) -> Row:
    return {"time": time, "operation": operation, "address": address, "bytes": size, "kind": "device", "device": 0,
            "allocator": "CUDA runtime", "process": 0, **more}  # fmt: skip


def random_events(seed: int) -> list[Row]:
    """Allocations and frees of two processes, two devices and three allocators, some of them wrong, in any order of rows."""
    rng = random.Random(seed)
    rows = []
    for time in range(0, 900, 3):
        process = rng.randrange(2)
        allocator = rng.choice(list(LAYERS))
        address = rng.randrange(1, 7) << 20
        where = {
            "process": process,
            "allocator": allocator,
            "device": address >> 20 & 1,
            "stack": rng.randrange(1, 4),
        }
        made = rng.random() < 0.55
        rows.append(
            event(
                time, "allocate" if made else "free", address, rng.randrange(1, 9) if made else None, **where
            )
        )
    rng.shuffle(rows)
    return rows


def walked(rows: list[Row]) -> tuple[list[Row], list[tuple[int, int, int]], int, int, int]:
    """Allocations with the time they were freed at, wrong frees, unknown frees, taken-over and repeated addresses."""
    last: dict[tuple[int, str, int], Row] = {}
    seen: set[tuple[int, str, int]] = set()
    made: list[Row] = []
    double, unknown, reused, again = [], 0, 0, 0
    for row in sorted(rows, key=lambda one: one["time"]):
        key = (row["process"], LAYERS[row["allocator"]], row["address"])
        open_one = last.pop(key, None)
        if open_one is not None:
            open_one["freed"] = row["time"]
        if row["operation"] == "allocate":
            reused += open_one is not None
            again += key in seen
            last[key] = {**row, "freed": None}
            made.append(last[key])
        elif open_one is None and key in seen:
            double.append((row["process"], row["time"], row["address"]))
        elif open_one is None:
            unknown += 1
        seen.add(key)
    return made, double, unknown, reused, again


@pytest.mark.parametrize("seed", range(6))
def test_every_allocation_is_paired_within_its_process_and_allocator(build: Build, seed: int) -> None:
    rows = random_events(seed)
    made, double, unknown, reused, again = walked(rows)
    trace = build(memory=rows, stacks=(("a",), ("b",), ("c",)))
    found = load(trace)
    places = [found.places[place] for place in found.place.tolist()]
    columns = (found.time, found.freed, found.address, found.bytes, found.stack)
    assert list(zip(*(column.tolist() for column in columns), places, strict=True)) == [
        (one["time"], NEVER if one["freed"] is None else one["freed"], one["address"], one["bytes"], one["stack"],
         (one["process"], one["device"], LAYERS[one["allocator"]]))
        for one in made
    ]  # fmt: skip
    assert sorted(found.double) == sorted(double)
    assert (found.unknown, found.reused, found.again) == (unknown, reused, again)
    for time in (0, 300, 301, 450, 899):
        alive = [
            n
            for n, one in enumerate(made)
            if one["time"] <= time and (one["freed"] is None or one["freed"] > time)
        ]
        assert found.alive(time).tolist() == alive
    for number in range(len(found.places)):
        mine = [one for one, place in zip(made, found.place.tolist(), strict=True) if place == number]
        changes = sorted([(one["time"], one["bytes"]) for one in mine]
                         + [(one["freed"], -one["bytes"]) for one in mine if one["freed"] is not None])  # fmt: skip
        time_, level = usage(found, number)
        assert time_.tolist() == [time for time, _ in changes]
        assert level.tolist() == np.cumsum([change for _, change in changes]).tolist()


@pytest.mark.parametrize("seed", range(6))
def test_holders_and_leaks_are_sums_by_stack(build: Build, seed: int) -> None:
    rows = random_events(seed)
    made, double, *_ = walked(rows)
    result = memory(build(memory=rows, stacks=(("a",), ("b",), ("c",))))
    leaks: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for one in made:
        if one["freed"] is None:
            place = (one["process"], one["device"], LAYERS[one["allocator"]])
            leaks[(*place, "abc"[one["stack"] - 1])].append(one)
    found = result.tables["leaks"].to_pylist()
    assert {(r["process"], r["device"], r["allocator"], r["stack"]): (r["bytes"], r["count"], r["first"], r["last"])
            for r in found} == {
        key: (sum(one["bytes"] for one in held), len(held), min(one["time"] for one in held), max(one["time"] for one in held))
        for key, held in leaks.items()
    }  # fmt: skip
    sizes: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for r in found:
        sizes[r["process"], r["device"], r["allocator"]].append(r["bytes"])
    assert all(one == sorted(one, reverse=True) for one in sizes.values())
    errors = [(r["process"], r["time"], r["address"]) for r in result.tables["errors"].to_pylist()]
    assert sorted(errors) == sorted(double)
    (finding,) = [one for one in result.findings if one.rule == "memory/double-free"]
    assert finding.values == {"frees": len(double)} and finding.text.startswith(
        f"{len(double)} frees of memory"
    )


def test_rows_choose_processes_and_devices_but_a_free_outside_of_the_time_still_counts(build: Build) -> None:
    rows = [event(10, "allocate", 4096, 5), event(20, "free", 4096), event(12, "allocate", 8192, 6, device=1),
            event(11, "allocate", 4096, 7, process=1)]  # fmt: skip
    trace = build(memory=rows)
    for chosen, sizes in ((Rows(), [5, 7, 6]), (Rows(begin=0, end=15), [5, 7, 6]), (Rows(processes=(1,)), [7]),
                          (Rows(devices=(1,)), [6]), (Rows(devices=(0,), processes=(0,)), [5])):  # fmt: skip
        found = load(trace, chosen)
        assert found.bytes.tolist() == sizes
        assert [int(freed) for size, freed in zip(found.bytes, found.freed, strict=True) if size == 5] == [
            20
        ] * (5 in sizes)


def summaries(trace: StoredTrace) -> list[tuple[Any, ...]]:
    keys = ("process", "device", "allocator", "allocations", "frees", "total", "peak", "at_end", "lifetime")
    return [tuple(row[key] for key in keys) for row in memory(trace).tables["summary"].to_pylist()]


def test_what_a_memory_event_lacks_is_not_made_up(build: Build) -> None:
    """No size holds nothing, no device is no device, and no allocator is that of a report of CUDA."""
    bare = {"device": None, "allocator": None}
    trace = build(
        memory=[
            event(10, "allocate", 4096, None),
            event(14, "free", 4096),
            event(20, "allocate", 8192, 64, **bare),
        ]
    )
    found = load(trace)
    assert sorted(summaries(trace), key=str) == [
        (0, 0, "CUDA", 1, 1, 0, 0, 0, 4.0),
        (0, None, "CUDA", 1, 0, 64, 64, 64, None),
    ]
    assert (found.stack.tolist(), found.thread.tolist()) == ([0, 0], [-1, -1])
    (leak,) = memory(trace).tables["leaks"].to_pylist()
    assert (leak["stack"], leak["range"], leak["bytes"]) == (None, None, 64)


def test_a_thread_that_is_not_recorded_is_that_of_the_call_that_allocated(build: Build) -> None:
    """By process and correlation; other functions may have the same correlation."""
    calls = [
        call(5, 4, "cudaMalloc", thread=3, correlation=1), call(5, 4, "cudaFree", thread=4, correlation=2),
        call(5, 4, "cudaMalloc", thread=5, correlation=1, process=1), call(5, 4, "cudaLaunchKernel", thread=6, correlation=3),
        call(5, 4, "cudaMalloc", thread=7, correlation=None), call(5, 4, "cudaMallocAsync", thread=0, correlation=0),
    ]  # fmt: skip
    events = [
        event(10, "allocate", 1 << 12, 1, correlation=1), event(11, "allocate", 2 << 12, 1, correlation=1, process=1),
        event(12, "allocate", 3 << 12, 1, correlation=3), event(13, "allocate", 4 << 12, 1, correlation=None),
        event(14, "allocate", 5 << 12, 1, correlation=1, thread=9), event(15, "allocate", 6 << 12, 1, correlation=0),
        event(16, "allocate", 7 << 12, 1, correlation=2), event(17, "allocate", 8 << 12, 1, correlation=77, thread=0),
    ]  # fmt: skip
    assert load(build(memory=events, api=calls)).thread.tolist() == [3, 5, -1, -1, 9, 0, 4, 0]
    assert load(build(memory=events)).thread.tolist() == [-1, -1, -1, -1, 9, -1, -1, 0]


def test_the_range_of_an_allocation_is_the_innermost_of_its_thread(build: Build) -> None:
    events = [event(10, "allocate", 1 << 12, 4, thread=100), event(30, "allocate", 2 << 12, 3, thread=100),
              event(11, "allocate", 3 << 12, 2, thread=8), event(60, "allocate", 4 << 12, 1, thread=100)]  # fmt: skip
    trace = build(names=("step", "load"), marker=[marker(5, 45, 1), marker(25, 10, 2)], memory=events)
    rows = memory(trace).tables["leaks"].to_pylist()
    assert {(r["range"], r["bytes"], r["count"], r["first"], r["last"]) for r in rows} == {
        ("step", 4, 1, 10, 10), ("load", 3, 1, 30, 30), (None, 3, 2, 11, 60)}  # fmt: skip
    assert [r["bytes"] for r in rows] == sorted((r["bytes"] for r in rows), reverse=True)


def test_frees_that_pair_with_nothing_are_findings(build: Build) -> None:
    rows = [event(10, "free", 4096), event(11, "allocate", 8192, 4), event(12, "allocate", 8192, 5)]
    found = {one.rule: (one.severity, one.values) for one in memory(build(memory=rows)).findings}
    assert found == {
        "memory/unknown-free": ("note", {"frees": 1}),
        "memory/missing-free": ("note", {"allocations": 1}),
    }
    assert memory(build(memory=rows[1:2])).findings == ()
    empty = memory(build())
    assert all(table.num_rows == 0 for table in empty.tables.values()) and not empty.findings


def test_pools_are_listed_in_order_of_process_pool_and_time(build: Build) -> None:
    rows = [event(time, "pool create", 0, pool=pool, pool_size=time, pool_used=0, process=process)
            for time, pool, process in ((30, 2, 0), (10, 2, 0), (20, 1, 0), (5, 3, 1), (6, 1, 1))]  # fmt: skip
    found = memory(build(memory=[*rows, event(7, "allocate", 4096, 1)])).tables["pools"].to_pylist()
    assert [(one["process"], one["pool"], one["time"]) for one in found] == [
        (0, 1, 20), (0, 2, 10), (0, 2, 30), (1, 1, 6), (1, 3, 5)]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_statistics_and_series_of_memory_are_by_the_same_definition(build: Build, seed: int) -> None:
    """Also where a free is missing: what was at the address is gone when it is allocated anew."""
    trace = build(memory=random_events(seed), stacks=(("a",), ("b",), ("c",)))
    found = memory(trace)
    key = ("process", "device", "allocator")
    expected = {tuple(r[k] for k in key): (r["allocations"], r["total"], r["peak"], r["at_end"])
                for r in found.tables["summary"].to_pylist()}  # fmt: skip
    listed = stats(trace, "memory").tables["memory"].to_pylist()
    assert {tuple(r[k] for k in key): (r["allocations"], r["total"], r["peak"], r["at_end"])
            for r in listed if r["allocations"]} == expected  # fmt: skip
    held: dict[str, int] = defaultdict(int)
    for leak in found.tables["leaks"].to_pylist():
        held[leak["stack"]] += leak["bytes"]
    by_stack = stats(trace, "memory", by="stack").tables["memory"].to_pylist()
    assert {r["stack"]: r["at_end"] for r in by_stack if r["at_end"]} == held
    for device in (0, 1):
        for allocator in ("CUDA", "caching allocator"):
            (line,) = [one for one in series(trace) if (one.device, one.name) == (device, allocator)]
            assert int(line.value[-1]) == sum(
                end for (_, d, a), (*_, end) in expected.items() if (d, a) == (device, allocator)
            )
