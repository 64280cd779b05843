import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.analysis.memory.use import NEVER, Allocations, fragmentation, load, memory
from warpsight.analysis.stats.overview_series import memory as series
from warpsight.analysis.stats.sums import stats
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def row(time, operation, address, size=None, **more):
    return {"time": time, "operation": operation, "address": address, "bytes": size, "kind": "device", "device": 0,
            "allocator": "CUDA runtime", "process": 0, **more}  # fmt: skip


def opened(path, rows, markers=()):
    with TraceWriter(path) as writer:
        writer.add("memory", [r if "stack_of" not in r else {**{k: v for k, v in r.items() if k != "stack_of"},
                                                             "stack": writer.stack(r["stack_of"])} for r in rows])  # fmt: skip
        for name, start, duration in markers:
            writer.add("marker", [{"start": start, "duration": duration, "kind": "push/pop", "open": False, "thread": 9,
                                   "name_id": writer.name(name), "source": "nvtx", "process": 0}])  # fmt: skip
    return open_trace(path)


def brute(rows):
    """Use, peak, leaks and wrong frees by walking over the rows."""
    held, used, peak, peak_time, double, unknown = {}, 0, 0, None, 0, 0
    seen = set()
    for r in rows:
        if r["operation"] == "allocate":
            used -= held.pop(r["address"], 0)
            held[r["address"]] = r["bytes"]
            seen.add(r["address"])
            used += r["bytes"]
        elif r["address"] in held:
            used -= held.pop(r["address"])
        elif r["address"] in seen:
            double += 1
        else:  # allocated before the recording; a second free of it is one too many
            unknown += 1
            seen.add(r["address"])
        if used > peak:
            peak, peak_time = used, r["time"]
    return {"at_end": used, "peak": peak, "peak_time": peak_time}, double, unknown, len(held)


@pytest.mark.parametrize("seed", range(8))
def test_use_peak_and_wrong_frees_equal_a_walk_over_the_rows(tmp_path, seed):
    rng = random.Random(seed)
    rows = []
    for time in range(300):
        address = rng.randrange(1, 12) << 20
        rows.append(row(time, "allocate", address, rng.randrange(1, 9) << 10) if rng.random() < 0.5
                    else row(time, "free", address))  # fmt: skip
    expected, double, unknown, leaked = brute(rows)
    with opened(tmp_path / "t.warp", rows) as trace:
        result = memory(trace)
        found = load(trace)
    (summary,) = result.tables["summary"].to_pylist()
    assert {k: summary[k] for k in expected} == expected
    assert (len(found.double), found.unknown, int((found.freed == NEVER).sum())) == (double, unknown, leaked)
    assert sum(r["bytes"] for r in result.tables["leaks"].to_pylist()) == expected["at_end"]
    assert sum(r["bytes"] for r in result.tables["holders"].to_pylist()) == expected["peak"]


@pytest.mark.parametrize("seed", range(6))
def test_allocations_of_processes_and_allocators_with_the_same_addresses_stay_apart(tmp_path, seed):
    """Two processes, two families of allocators and two devices; events of a process at one moment keep their order."""
    rng = random.Random(seed)
    rows = []
    for step in range(200):
        where = {"process": rng.randrange(2), "allocator": rng.choice(("cudaMalloc", "CUDA driver", "pool")[: 2 + seed % 2]),
                 "device": rng.randrange(2)}  # fmt: skip
        address = rng.randrange(1, 2 + seed % 3) << 20
        kind = rng.choice(("allocate", "allocate", "free"))
        time = step // 4 * 2 + where["process"]
        rows.append(row(time, kind, address, rng.randrange(1, 9) if kind == "allocate" else None, **where))
    rows.sort(key=lambda r: r["time"])
    held, freed, double, unknown, reused, again, used = {}, {}, [], 0, 0, 0, set()
    for number, r in enumerate(rows):
        key = r["process"], "pool" if r["allocator"] == "pool" else "CUDA", r["address"]
        if key in held:
            freed[held.pop(key)] = r["time"]
            reused += r["operation"] == "allocate"
        elif r["operation"] == "free" and key in used:
            double.append((key[0], r["time"], key[2]))
        elif r["operation"] == "free":
            unknown += 1
        if r["operation"] == "allocate":
            again += key in used
            held[key] = number
        used.add(key)
    with opened(tmp_path / "t.warp", rows) as trace:
        found = load(trace)
        tables = memory(trace).tables
    made = [n for n, r in enumerate(rows) if r["operation"] == "allocate"]
    assert found.freed.tolist() == [freed.get(n, NEVER) for n in made]
    assert (found.unknown, found.reused, found.again, sorted(found.double)) == (
        unknown,
        reused,
        again,
        sorted(double),
    )
    places = [
        (rows[n]["process"], rows[n]["device"], "pool" if rows[n]["allocator"] == "pool" else "CUDA")
        for n in made
    ]
    assert [found.places[place] for place in found.place.tolist()] == places
    for one in tables["summary"].to_pylist():
        own = [n for n, place in zip(made, places, strict=True)
               if place == (one["process"], one["device"], one["allocator"])]  # fmt: skip
        times = sorted({rows[n]["time"] for n in own} | {freed[n] for n in own if n in freed})
        level = [
            sum(rows[n]["bytes"] for n in own if rows[n]["time"] <= t < freed.get(n, NEVER)) for t in times
        ]
        assert (one["allocations"], one["at_end"], one["peak"]) == (len(own), level[-1], max(level))
        assert one["peak_time"] == times[level.index(max(level))]
    for time in (0, 7, 40):
        alive = [n for n, row in enumerate(made) if rows[row]["time"] <= time < freed.get(row, NEVER)]
        assert found.alive(time).tolist() == alive


def test_an_event_without_a_thread_is_of_the_thread_of_its_call(tmp_path):
    """By correlation within a process, and by the functions that allocate and free."""
    rows = [row(10, "allocate", 1 << 20, 5, correlation=1), row(11, "allocate", 2 << 20, 5, correlation=1, process=1),
            row(12, "allocate", 3 << 20, 5, correlation=2), row(13, "free", 1 << 20, correlation=3),
            row(14, "allocate", 4 << 20, 5, correlation=1, thread=50), row(15, "allocate", 5 << 20, 5)]  # fmt: skip
    calls = [
        (1, 0, 71, "cudaMalloc"),
        (1, 1, 72, "cuMemAllocAsync"),
        (2, 0, 73, "cudaLaunchKernel"),
        (3, 0, 74, "cudaFree"),
    ]
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add("memory", rows)
        writer.add("api", [{"start": 9, "duration": 1, "function": function, "thread": thread, "process": process,
                            "correlation": number} for number, process, thread, function in calls])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        assert load(trace).thread.tolist() == [71, 72, -1, 50, -1]


@pytest.mark.parametrize("seed", range(4))
def test_numbers_of_the_summary_equal_a_walk_over_the_rows(tmp_path, seed):
    rng = random.Random(seed)
    rows, lifetimes, held, used = [], [], {}, set()
    reused = made = total = 0
    for time in range(0, 600, 2):
        address, size = rng.randrange(1, 12) << 20, rng.randrange(1, 9) << 10
        if rng.random() < 0.5:
            rows.append(row(time, "allocate", address, size))
            made, total, reused = made + 1, total + size, reused + (address in used)
            used.add(address)
        else:
            rows.append(row(time, "free", address))
        if address in held:
            lifetimes.append(time - held.pop(address))
        if rows[-1]["operation"] == "allocate":
            held[address] = time
    with opened(tmp_path / "t.warp", rows) as trace:
        (summary,) = memory(trace).tables["summary"].to_pylist()
    first = next(r["time"] for r in rows if r["operation"] == "allocate")
    last = max(r["time"] for r in rows if r["operation"] == "allocate" or r["time"] - first in lifetimes)
    assert (summary["allocations"], summary["frees"], summary["total"]) == (made, len(lifetimes), total)
    assert summary["lifetime"] == pytest.approx(sum(lifetimes) / len(lifetimes))
    assert summary["reuse"] == reused / made
    assert summary["rate"] == pytest.approx(made / (last - first) * 1e9, rel=0.02)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 4)), min_size=1, max_size=8), st.data())
def test_fragmentation_is_the_largest_hole_among_all_of_the_address_map(blocks, data):
    """In MiB: holes of up to two belong to a region, larger ones part two regions."""
    held, taken = [], set()
    for number in data.draw(st.permutations(range(len(blocks)))):
        own = set(range(blocks[number][0], sum(blocks[number])))
        if not own & taken and data.draw(st.booleans()):
            held.append(number)
            taken |= own
    used = sorted({t for start, size in blocks for t in range(start, start + size)})
    holes, run = [], 0
    for before, at in zip([used[0], *used], used, strict=False):
        between = at - before - 1
        if between > 2:
            holes.append(run)
            run = 0
        elif between > 0:
            run += between
        if at in taken:
            holes.append(run)
            run = 0
        else:
            run += 1
    holes = [one for one in (*holes, run) if one]
    expected = 1 - max(holes) / sum(holes) if holes else 0.0
    none = np.zeros(len(blocks), np.int64)
    address, size = (np.array(column, np.uint64) << np.uint64(20) for column in zip(*blocks, strict=True))
    found = Allocations(
        none, none, address, size.astype(np.int64), none, none, none, none, [(0, 0, "CUDA")], [], 0, 0, 0
    )
    assert fragmentation(found, np.arange(len(blocks)), np.array(held, int)) == pytest.approx(expected)


def test_layers_of_allocators_do_not_count_twice(tmp_path):
    pool = {"allocator": "caching allocator"}
    rows = [row(1, "allocate", 4096, 100), row(2, "allocate", 4096, 60, **pool), row(3, "free", 4096, **pool),
            row(4, "free", 4096, allocator="CUDA driver")]  # fmt: skip
    with opened(tmp_path / "t.warp", rows) as trace:
        result = memory(trace)
    assert {r["allocator"]: (r["peak"], r["at_end"]) for r in result.tables["summary"].to_pylist()} == {
        "CUDA": (100, 0), "caching allocator": (60, 0)}  # fmt: skip
    assert result.findings == ()


@pytest.mark.parametrize(
    ("family", "makes", "frees"),
    [("CUDA", "CUDA runtime", "CUDA driver"), ("CUDA", None, "CUDA"), ("CUDA", "cudaMalloc", "cuMemFree_v2"),
     ("OpenCL", "clCreateBuffer", "clReleaseMemObject"), ("HIP", "hipMalloc", "hipFree"), ("pool", "pool", "pool")],
)  # fmt: skip
def test_a_free_belongs_to_the_allocation_of_its_family(tmp_path, family, makes, frees):
    other = {"allocator": "another", "device": None}
    rows = [row(1, "allocate", 4096, 100, allocator=makes), row(2, "allocate", 4096, 7, **other),
            row(3, "free", 4096, allocator=frees, device=None), row(4, "free", 4096, **other)]  # fmt: skip
    with opened(tmp_path / "t.warp", rows) as trace:
        result = memory(trace)
        numbers = stats(trace, "memory").tables["memory"].to_pylist()
        lines = {line.name: (line.device, line.value.tolist()) for line in series(trace)}
    assert result.tables["leaks"].num_rows == result.tables["errors"].num_rows == 0 and not result.findings
    assert {(r["allocator"], r["device"], r["peak"], r["at_end"], r["unknown_frees"]) for r in numbers} == {
        (family, 0, 100, 0, 0), ("another", None, 7, 0, 0)}  # fmt: skip
    assert lines == {family: (0, [100, 0]), "another": (None, [7, 0])}


def test_holders_of_the_peak_have_stack_and_range(tmp_path):
    rows = [row(10, "allocate", 1 << 20, 500, stack_of=["main", "weights"], thread=9),
            row(20, "allocate", 2 << 20, 300, stack_of=["main", "batch"], thread=9),
            row(30, "free", 2 << 20)]  # fmt: skip
    with opened(tmp_path / "t.warp", rows, [("load", 5, 10), ("step", 16, 10)]) as trace:
        holders = memory(trace).tables["holders"].to_pylist()
    assert [(r["bytes"], r["range"], r["stack"]) for r in holders] == [
        (500, "load", "weights ← main"), (300, "step", "batch ← main")]  # fmt: skip


def test_fragmentation_is_from_the_address_map(tmp_path):
    """Four blocks of 1 MiB side by side; two holes of 1 MiB apart, then one hole of 2 MiB."""
    blocks = [row(i, "allocate", (16 + i) << 20, 1 << 20) for i in range(4)]
    for freed, expected in (((0, 2), 0.5), ((1, 2), 0.0), ((), 0.0)):
        rows = [*blocks, *(row(10 + i, "free", (16 + i) << 20) for i in freed),
                row(20, "allocate", 1 << 40, 1 << 30)]  # fmt: skip
        path = tmp_path / f"{len(freed)}{expected}.warp"
        with opened(path, rows) as trace:
            (summary,) = memory(trace).tables["summary"].to_pylist()
        assert summary["fragmentation"] == pytest.approx(expected)


def test_pool_rows_are_told(tmp_path):
    rows = [row(1, "pool create", 0, pool=77, pool_size=1 << 20, pool_used=0),
            row(2, "pool trim", 0, pool=77, pool_size=1 << 19, pool_used=0)]  # fmt: skip
    with opened(tmp_path / "t.warp", rows) as trace:
        pools = memory(trace).tables["pools"].to_pylist()
    assert [(p["operation"], p["pool_size"]) for p in pools] == [
        ("pool create", 1 << 20),
        ("pool trim", 1 << 19),
    ]


def test_rows_without_an_address_belong_to_nothing(tmp_path):
    """Old profiles of torch tell sizes alone, and freeing null is no mistake."""
    rows = [row(i, "allocate" if i % 3 else "free", 0, 64) for i in range(30)]
    rows += [row(40, "allocate", 4096, 64), row(41, "free", 4096)]
    with opened(tmp_path / "t.warp", rows) as trace:
        found = load(trace)
    assert len(found) == 1
    assert not found.double
    assert (found.unknown, found.again, found.reused) == (0, 0, 0)
