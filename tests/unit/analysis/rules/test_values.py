"""What rules about clocks, copies and launches say, recounted nanosecond by nanosecond on small random traces."""

from __future__ import annotations

import itertools
from statistics import median
from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.conftest import Build, copy, device, kernel, launch
from warpsight.analysis.account import account, classes
from warpsight.analysis.account.classes import HOST, LAUNCH
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import advice, clocks, copies, launches
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.selection import Rows

ORIGIN = 1_790_000_000_000_000_000
STACKS = (("main", "load"), ("main", "train"))
Row = dict[str, Any]


def moments(rows: list[Row]) -> set[int]:
    return {t for row in rows for t in range(row["start"], row["start"] + row["duration"])}


def longest(rows: list[Row]) -> tuple[int, int]:
    row = max(rows, key=lambda one: one["duration"])  # the first of equal ones
    return row["start"], row["start"] + row["duration"]


def only(findings: list[Finding], rule: str) -> Finding | None:
    found = [one for one in findings if one.rule == rule]
    assert len(found) < 2
    return found[0] if found else None


def counter(time: int, name: str, value: float, number: int = 0) -> Row:
    return {"time": ORIGIN + time, "name": name, "value": float(value), "unit": "", "device": number,
            "source": "nvml", "process": 0}  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_clocks_cost_what_each_busy_nanosecond_ran_below_the_maximum(build: Build, seed: int) -> None:
    """A sample stands for the time up to halfway to its neighbors; what is sampled stands for all busy time."""
    rng = np.random.default_rng(seed)
    kernels = [kernel(ORIGIN + int(s), int(rng.integers(1, 40)), device=int(rng.integers(2)))
               for s in np.sort(rng.integers(0, 600, 12))]  # fmt: skip
    times = np.sort(rng.choice(600, 6, replace=False)).tolist()
    clock = {number: rng.choice((900, 1_500, 1_980), 6).tolist() for number in (0, 1)}
    power, heat = rng.choice((0, 1), (2, 6)).tolist()
    watts = rng.integers(100, 700, 6).tolist()
    fastest = {0: (2_000_000, 1_000_000)[seed % 2], 1: (1_990_000, None)[seed // 2 % 2]}
    trace = build(
        device=[device(number, clock_khz=khz) for number, khz in fastest.items()], kernel=kernels,
        counter=[counter(t, "sm_clock", c, number) for number in clock for t, c in zip(times, clock[number], strict=True)]
        + [counter(t, "throttle_software_power_cap", v) for t, v in zip(times, power, strict=True)]
        + [counter(t, "throttle_hardware_thermal", v) for t, v in zip(times, heat, strict=True)]
        + [counter(times[0], "throttle_sync_boost", 1)]  # not sampled with the clock: says nothing
        + [counter(t, "power", w) for t, w in zip(times, watts, strict=True)],
    )  # fmt: skip
    found = {one.values["device"]: one for one in clocks.check(Facts(trace))}
    length = max(k["start"] + k["duration"] for k in kernels) - min(k["start"] for k in kernels)
    for number in (0, 1):
        busy = moments([k for k in kernels if k["device"] == number])
        edges = [times[0], *((a + b) // 2 for a, b in itertools.pairwise(times)), times[-1]]
        worked = [sum(ORIGIN + a <= t < ORIGIN + b for t in busy) for a, b in itertools.pairwise(edges)]
        best = max((fastest[number] or 0) / 1000, *clock[number])
        lost = sum(w * (1 - c / best) for w, c in zip(worked, clock[number], strict=True))
        shares = [
            (sum(w * v for w, v in zip(worked, values, strict=True)) / max(sum(worked), 1), text)
            for values, text in ((power, "the power limit"), (heat, "the temperature (hardware limit)"))
        ]
        share, reason = max(shares) if not number else (0.0, "")
        cost = lost / max(sum(worked), 1) * len(busy)
        if cost < 0.02 * length or (share < 0.05 and fastest[number] is None):
            assert number not in found
            continue
        one = found[number]
        used = [(c, place) for place, (c, w) in enumerate(zip(clock[number], worked, strict=True)) if w]
        lowest, place = min(used)
        assert one.severity == ("warning" if share >= 0.05 else "note")
        assert one.saves_ns == (int(cost) if share >= 0.05 else None)
        mean = sum(w * c for w, c in zip(worked, clock[number], strict=True)) / sum(worked)
        assert one.values == pytest.approx({"device": number, "mean": mean, "best": best, "lowest": lowest})
        assert one.at == (ORIGIN + edges[place], ORIGIN + edges[place + 1])
        assert f"GPU {number} ran at {mean:,.0f} MHz instead of {best:,.0f} MHz while busy" in one.text
        assert (f"because of {reason} ({share:.0%} of the busy time)" in one.text) == (share >= 0.05)
        assert one.evidence[0] == f"lowest clock while busy {lowest:,.0f} MHz"
        assert one.evidence[1:] == ((f"power up to {max(watts):,.0f} W",) if not number else ())


@pytest.mark.parametrize(("clock", "found"), [(1_960, True), (1_961, False)])
def test_clocks_are_worth_a_word_from_two_percent_of_the_time_on(
    build: Build, clock: int, found: bool
) -> None:
    trace = build(
        device=[device(0, clock_khz=2_000_000)],
        kernel=[kernel(ORIGIN, 1_000_000)],
        counter=[counter(t, "sm_clock", clock) for t in (0, 400_000, 900_000)],
    )
    assert bool(list(clocks.check(Facts(trace)))) == found
    # Samples of a time without work say nothing about work.
    late = [counter(t, "sm_clock", 300) for t in (1_000_000, 1_400_000, 1_900_000)]
    after = build(device=[device(0, clock_khz=2_000_000)], kernel=[kernel(ORIGIN, 1_000_000)], counter=late)
    assert not list(clocks.check(Facts(after)))


def random_copies(seed: int) -> tuple[dict[str, list[Row]], tuple[int, int]]:
    """Kernels, copies and fills of some stacks; and the window from the first to the last of them."""
    rng = np.random.default_rng(seed)

    def time() -> tuple[int, int]:
        return ORIGIN + int(rng.integers(900)), int(rng.integers(1, 40))

    moved = [
        copy(*time(), int(rng.choice((64, 65_535, 65_536, 3 << 20))), asynchronous=bool(rng.integers(2)),
             source_kind=str(rng.choice(("pinned", "pageable", "device"))), stack=rng.choice((None, 2, 3, 3)),
             destination_kind=str(rng.choice(("device", "pageable"))), correlation=1, device=int(rng.integers(2)))
        for _ in range(16)
    ]  # fmt: skip
    moved += [
        copy(*time(), source_kind="managed", destination_kind="managed", asynchronous=False)
    ]  # the driver's own
    filled = [{"start": s, "duration": d, "bytes": 8, "value": 0, "memory_kind": "device", "device": 0, "context": 1,
               "stream": 7, "process": 0, "asynchronous": bool(rng.integers(2)), "stack": int(rng.integers(2, 4))}
              for s, d in (time() for _ in range(5))]  # fmt: skip
    tables = {"kernel": [kernel(*time()) for _ in range(8)], "memcpy": moved, "memset": filled}
    return tables, (
        min(row["start"] for rows in tables.values() for row in rows),
        max(row["start"] + row["duration"] for rows in tables.values() for row in rows),
    )


def callers(facts: Facts, rows: list[Row], verb: str) -> tuple[str, ...]:
    """The stack that most of some rows have, as evidence."""
    known = [row["stack"] for row in rows if row["stack"]]
    most = min(set(known), key=lambda one: (-known.count(one), one), default=0)
    return (f"{verb} {('load', 'train')[most - 2]} ← main",) if most else ()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("part", [False, True])
def test_copies_cost_what_no_kernel_hides(build: Build, monkeypatch: Any, seed: int, part: bool) -> None:
    monkeypatch.setattr(copies, "_MANY", 3)
    tables, (begin, end) = random_copies(seed)
    trace = build(stacks=(STACKS[0], STACKS[1]), **tables)
    if part:
        begin, end = begin + 200, end - 200
    facts = Facts(trace, Rows(begin, end, devices=(0,)) if part else Rows())
    found = list(copies.check(facts))
    length = end - begin
    kernels = moments(tables["kernel"])
    inside = {
        name: sorted(
            (row for row in tables[name] if begin <= row["start"] < end and not (part and row["device"])),
            key=lambda row: row["start"],
        )
        for name in ("memcpy", "memset")
    }

    def exposed(chosen: list[Row]) -> int:
        return len({t for t in moments(chosen) - kernels if begin <= t < end})

    def beside(rows: list[Row]) -> int:
        """What is left of the time beside the copies of the device that has most; all are of one direction."""
        busiest = max((sum(r["duration"] for r in rows if r["device"] == one) for one in (0, 1)), default=0)
        return max(length - busiest, 0)

    pageable = [r for r in inside["memcpy"] if "pageable" in (r["source_kind"], r["destination_kind"])]
    pageable = [r for r in pageable if r["bytes"] > 65_536]
    spent = sum(row["duration"] for row in pageable)
    one = only(found, "copies/pageable")
    assert (one is not None) == (bool(pageable) and spent >= 0.01 * length)
    if one is not None:
        size = sum(row["bytes"] for row in pageable)
        assert one.values == {"copies": len(pageable), "bytes": size, "time": spent}
        assert (one.saves_ns, one.at, one.severity) == (exposed(pageable), longest(pageable), "warning")
        assert one.evidence == callers(facts, pageable, "called by")
        pinned = [r for r in inside["memcpy"] if "pinned" in (r["source_kind"], r["destination_kind"])]
        moved, took = (sum(row[name] for row in pinned) for name in ("bytes", "duration"))
        told = f"; pinned copies of this recording reach {moved / max(took, 1):.1f} GB/s"
        assert (
            f"at {size / spent:.1f} GB/s{told if moved > 1 << 20 else ''}, {spent / length:.0%} of the time"
            in one.text
        )
    for what, table in (("copies", "memcpy"), ("fills", "memset")):
        waited = [row for row in inside[table] if not row["asynchronous"] and row.get("source_kind") != "managed"
                  and "pageable" not in (row.get("source_kind"), row.get("destination_kind"))]  # fmt: skip
        one = only(found, f"{what}/synchronous")
        cost = min(exposed(waited), beside(inside[table]))
        least = 0.001 if len(waited) >= 3 else 0.005
        assert (one is not None) == (bool(waited) and cost >= least * length)
        if one is not None:
            assert (one.values, one.saves_ns, one.at) == (
                {what: len(waited)},
                cost,
                longest(waited),
            )
            some = f"{len(waited)} synchronous {what} hold the host until they are done"
            single = {"copies": "copy", "fills": "fill"}[what]
            alone = f"1 synchronous {single} holds the host until it is done"
            assert one.text == (some if len(waited) > 1 else alone)
    small = [row for row in inside["memcpy"] if row["bytes"] < 65_536]
    usual = [row for row in small if row["duration"] <= 10 * median(r["duration"] for r in small)]
    one = only(found, "copies/small")
    assert (one is not None) == (len(small) >= 3 and exposed(usual) >= 0.01 * length)
    if one is not None:
        assert (one.values, one.saves_ns, one.at) == ({"copies": len(small)}, exposed(usual), longest(small))
        assert one.evidence == callers(facts, small, "most from")


@pytest.mark.parametrize(
    ("count", "words"), [(1, "one copy from or to pageable memory moves 1.00 MiB"), (2, "2 copies")]
)
def test_one_pageable_copy_is_said_as_one(build: Build, count: int, words: str) -> None:
    moved = [copy(ORIGIN + place * 200, 10, source_kind="pageable") for place in range(count)]
    trace = build(memcpy=moved, kernel=[kernel(ORIGIN + 300, 700)])
    one = only(list(copies.check(Facts(trace))), "copies/pageable")
    assert one is not None and f"pageable copies: {words}" in one.text and one.evidence == ()
    # Ten of a thousand nanoseconds are enough to say so, nine are not.
    less = build(memcpy=[copy(ORIGIN, 9, source_kind="pageable")], kernel=[kernel(ORIGIN + 300, 700)])
    assert only(list(copies.check(Facts(less))), "copies/pageable") is None


@pytest.mark.parametrize("seed", range(6))
def test_a_program_is_bound_by_its_launches_when_its_short_idle_pieces_take_long(
    build: Build, monkeypatch: Any, seed: int
) -> None:
    monkeypatch.setattr(launches, "_SEVERAL", 2)
    monkeypatch.setattr(launches, "SHORT", 30)
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.integers(20, 120, 12))
    kernels = [kernel(ORIGIN + int(s), int(rng.integers(1, 60)), correlation=i + 1, device=i % 2)
               for i, s in enumerate(starts)]  # fmt: skip
    calls = [
        launch(int(k["start"]) - int(rng.integers(1, 60)), int(rng.integers(1, 20)), k["correlation"])
        for k in kernels
    ]
    trace = build(kernel=kernels, launch=calls)
    facts = Facts(trace)
    whole = account(trace)
    pieces = [
        int(e - b)
        for b, e, kind in zip(whole.pieces.begin, whole.pieces.end, whole.pieces.kind, strict=True)
        if kind in (LAUNCH, HOST) and e - b <= 30
    ]
    dry = []
    for number in (0, 1):
        own = sorted((k for k in kernels if k["device"] == number), key=lambda k: k["start"])
        reach = own[0]["start"] + own[0]["duration"]
        for one in own[1:]:
            if one["start"] > reach:
                call = calls[one["correlation"] - 1]
                if call["start"] + call["duration"] > reach:
                    dry.append((reach, one["start"]))
            reach = max(reach, one["start"] + one["duration"])
    found = only(list(launches.check(facts)), "launches/launch-bound")
    assert (found is not None) == (sum(pieces) >= 0.15 * whole.span and len(dry) >= max(0.3 * 12, 2))
    if found is not None:
        assert found.values == {"launches": len(dry), "time": sum(pieces)}
        assert found.saves_ns == sum(pieces) // 2
        gap = max(dry, key=lambda one: one[1] - one[0])
        assert found.at == gap
        waits, length = median(b - a for a, b in dry), median(k["duration"] for k in kernels)
        assert f"{len(dry)} of 12 kernels are launched when the GPU has run dry; {waits:.0f} ns pass before each, and a " \
               f"kernel takes {length:.0f} ns" in found.text  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "usual", "count", "words"),
    [
        ("LAUNCH", "cudaLaunchKernel", 99_999, 2, "Launch less often"),
        ("LAUNCH", "cudaLaunchKernel", 100_000, 2, "load the code of kernels"),
        ("HOST", "load", 100_000, 2, "while the GPU is busy"),
        ("HOST", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 2, "more of them"),
        ("HOST", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 2, "in other processes"),
        ("COPY", "memcpy HtoD, pageable", 0, 2, "from pinned memory"),
        ("COPY", "memcpy DtoH, pageable", 0, 2, "to pinned memory"),
        ("COPY", "memcpy HtoD", 0, 2, "Keep unchanged data on the device"),
        ("COPY", "memcpy DtoD", 0, 2, "in place"),
        ("COPY", "memcpy HtoD, managed", 0, 2, "cudaMemPrefetchAsync"),
        ("COPY", "memset", 0, 2, "write the zeros"),
        ("UNKNOWN", advice.MIGRATION, 0, 2, "cudaMemPrefetchAsync"),
        ("UNKNOWN", "after cudaLaunchKernel", 0, 2, "submits launches in batches"),
        ("UNKNOWN", "work whose launch is not in the trace", 0, 2, "is not in the trace"),
        ("BLOCKED_CALL", "cudaDeviceSynchronize", 0, 2, "Wait later and less often"),
        ("BLOCKED_CALL", "stream synchronization", 0, 2, "Wait later and less often"),
        ("BLOCKED_CALL", "cudaMalloc", 0, 2, "Allocate once and reuse"),
        ("BLOCKED_CALL", "cudaFree", 0, 1, "Allocate once and reuse"),
        ("BLOCKED_CALL", "cudaMemcpy", 0, 4, "Copy asynchronously"),
        ("BLOCKED_CALL", "cudaEventRecord", 0, 1, "Call it before it matters"),
        ("BLOCKED_CALL", "cudaEventRecord", 0, 2, "Call it once, before the loop"),
        ("BLOCKED_CALL", "allocate_something", 0, 2, "Call it once, before the loop"),
    ],
)
def test_advice_fits_what_took_the_time(kind: str, name: str, usual: int, count: int, words: str) -> None:
    assert words in advice.of(getattr(classes, kind), name, usual, count)
    if name == "memcpy HtoD":
        assert "from pinned memory" not in advice.of(classes.COPY, name)
