"""Copies: sums, links, habits and redundancy, each against a recount."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import copy, device, kernel
from warpsight.analysis.stats import redundant_copies
from warpsight.analysis.stats.copies import copies

LINKS = [
    {"platform": "cuda", "source": "host", "destination": "GPU-0", "memory": "pinned", "bytes": 1, "bytes_per_second": 50e9},
    {"platform": "cuda", "source": "host", "destination": "GPU-0", "memory": "pageable", "bytes": 1, "bytes_per_second": 8e9},
    {"platform": "cuda", "source": "GPU-0", "destination": "GPU-1", "memory": "peer", "bytes": 1, "bytes_per_second": 350e9},
]  # fmt: skip


def test_copies_are_summed_by_path_and_compared_with_its_link(build):
    rows = [copy(0, 1_000, 40_000), copy(5_000, 3_000, 40_000, source_kind="pageable", asynchronous=False),
            copy(9_000, 100, 1_000, "DtoH"), copy(9_000, 10, 1_000, "DtoD"),
            copy(20_000, 100, 17_500, "PtoP", source_device=0, destination_device=1)]  # fmt: skip
    trace = build(
        device=[device(0, memory_bandwidth=4_000_000_000_000), device(1)],
        memcpy=rows,
        manifest={"links": LINKS},
    )
    found = {(r["kind"], r["source"]): r for r in copies(trace).tables["copies"].to_pylist()}
    pinned, pageable = found["HtoD", "pinned"], found["HtoD", "pageable"]
    assert (pinned["bandwidth"], pinned["link"], pinned["link_share"]) == (40e9, 50e9, 0.8)
    assert (pageable["time"], pageable["link"], pageable["link_known_by"]) == (3_000, 50e9, "measured")
    assert (found["DtoD", "pinned"]["link"], found["DtoD", "pinned"]["link_known_by"]) == (
        2e12,
        "half of the memory's peak",
    )
    assert found["PtoP", "pinned"]["link_share"] == 0.5
    assert found["DtoH", "pinned"]["link"] is None
    (note,) = [f for f in copies(trace).findings if "link" in f.text]
    assert note.values == {"copies": 1, "of": 5}
    assert copies(trace).tables["peers"].to_pylist() == [
        {
            "source_device": 0,
            "destination_device": 1,
            "count": 1,
            "bytes": 17_500,
            "time": 100,
            "bandwidth": 175e9,
        }
    ]


def test_sizes_are_counted_by_power_of_two_exactly(build):
    sizes = [0, 1, 2, 3, 4, 1023, 1024, (1 << 40) - 1, 1 << 40]
    table = copies(build(memcpy=[copy(i, 1, s) for i, s in enumerate(sizes)])).tables["sizes"].to_pylist()
    for row in table:
        inside = [s for s in sizes if row["from"] <= s < row["below"] or s == row["from"] == 0]
        assert (row["count"], row["bytes"]) == (len(inside), sum(inside))
    assert sum(r["count"] for r in table) == len(sizes)


def test_habits_tell_the_time_the_calls_took(build):
    rows = [
        copy(0, 10, correlation=1, source_kind="pageable"),
        copy(50, 10, correlation=2, asynchronous=False),
        copy(90, 5),
    ]
    sets = [{"start": 200, "duration": 3, "bytes": 64, "value": 0, "memory_kind": "device", "asynchronous": False, "device": 0,
             "context": 1, "stream": 7, "process": 0, "correlation": 3}]  # fmt: skip
    api = [
        {"start": 0, "duration": d, "function": "f", "thread": 1, "correlation": c, "process": 0}
        for c, d in ((1, 100), (2, 70))
    ]
    found = {
        r["habit"]: r for r in copies(build(memcpy=rows, memset=sets, api=api)).tables["habits"].to_pylist()
    }
    assert {h: (r["count"], r["time"], r["calls"], r["call_time"]) for h, r in found.items()} == {
        "pageable": (1, 10, 1, 100), "synchronous copy": (1, 10, 1, 70), "synchronous set": (1, 3, 0, 0),
    }  # fmt: skip


def brute(rows, sets):
    """Indices of redundant copies, by the definition."""
    out = []
    for i, row in enumerate(rows):
        same = [r for r in rows if r["start"] < row["start"] and all(
            r[k] == row[k] for k in ("process", "bytes", "source_address", "destination_address"))]  # fmt: skip
        if not same or not row["bytes"]:
            continue
        last = max(r["start"] for r in same)
        writes = [
            (r["start"], r["destination_address"], r["bytes"]) for r in rows if r["process"] == row["process"]
        ]
        writes += [(r["start"], r["address"], r["bytes"]) for r in sets if r["process"] == row["process"]]
        touched = [(row["source_address"], row["bytes"]), (row["destination_address"], row["bytes"])]
        if not any(last < t < row["start"] and a < b + m and b < a + n
                   for t, a, n in writes for b, m in touched):  # fmt: skip
            out.append(i)
    return out


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("origin", [4096, (1 << 64) - 100])
def test_redundant_copies_are_those_of_the_definition(build, seed, origin):
    rng = np.random.default_rng(seed)

    def address(first, last, step):
        return origin + first + int(rng.integers(last)) * step

    rows = [copy(int(t), 3, int(rng.choice([4, 8])), process=int(rng.integers(2)), source_address=address(0, 3, 8),
                 destination_address=address(32, 4, 6)) for t in rng.permutation(80)]  # fmt: skip
    fill = {"duration": 1, "bytes": 4, "value": 0, "memory_kind": "device", "asynchronous": True, "device": 0, "context": 1,
            "stream": 7, "process": 0}  # fmt: skip
    sets = [{**fill, "start": int(t), "address": address(0, 60, 1)} for t in rng.permutation(80)[:8]]
    table = copies(build(memcpy=rows, memset=sets)).tables["redundant"].to_pylist()
    expected = brute(rows, sets)
    assert sum(r["count"] for r in table) == len(expected) > 0
    assert sum(r["bytes"] for r in table) == sum(rows[i]["bytes"] for i in expected)
    for row in table:
        wanted = tuple(row[k] for k in ("process", "source", "destination", "size"))
        keys = ("process", "source_address", "destination_address", "bytes")
        assert row["count"] == sum(tuple(rows[i][k] for k in keys) == wanted for i in expected)


def test_without_addresses_redundancy_is_not_claimed(build):
    result = copies(build(memcpy=[copy(0, 5), copy(10, 5)], kernel=[kernel(0, 1)]))
    assert not len(result.tables["redundant"])
    assert [f.values for f in result.findings if "addresses" in f.text] == [{"copies": 2, "of": 2}]


@pytest.mark.parametrize("origin", [0, 1000, (1 << 64) - 40])
def test_a_write_goes_into_what_it_overlaps_between_two_moments(origin):
    rng = np.random.default_rng(5)
    time, size, low = rng.integers(0, 20, 12), rng.integers(1, 9, 12), rng.integers(0, 30, 12)
    address = (
        (low + origin % (1 << 64)).astype(np.uint64)
        if origin < 1 << 63
        else low.astype(np.uint64) + np.uint64(origin)
    )
    writes = redundant_copies._Writes(time, size, address)
    after, before = np.array([0, 5, 5, 19, 3]), np.array([20, 6, 15, 20, 3])
    for place in range(0, 40, 3):
        for length in (1, 4, 40 - place):
            expected = [
                any(
                    place < b + n and b < place + length and a < t < c
                    for t, n, b in zip(time, size, low, strict=True)
                )
                for a, c in zip(after, before, strict=True)
            ]
            assert writes.into(origin + place, length, after, before).tolist() == expected
