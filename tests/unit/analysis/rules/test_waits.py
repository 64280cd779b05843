"""Waits that let a device run dry, recounted call by call from the rows."""

from __future__ import annotations

import random
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, Build, copy, device, kernel
from tests.unit.analysis.rules.program import US, Program
from warpsight.analysis.account.classes import HOST
from warpsight.analysis.rules import waits
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.selection import Rows

WAITING = ("cudaDeviceSynchronize", "cudaStreamSynchronize")
WAIT, WORK = "cudaDeviceSynchronize lets the GPU run dry", "the host works on after it"


def found_in(trace: Any) -> list[Any]:
    return list(waits.check(Facts(trace, Rows())))


def one_wait(program: Program, host_ns: int, span_ns: int) -> list[Any]:
    """A kernel of 1 ms, a wait for it, the host's own work, and a kernel that lasts until the span is full."""
    program.launch("gemm", 1_000 * US)
    begin = program.device - 1_000 * US
    program.synchronize()
    program.busy(host_ns)
    program.launch("gemm", 0)
    program.rows["kernel"][-1]["duration"] = begin + span_ns - program.rows["kernel"][-1]["start"]
    with program.open() as trace:
        return found_in(trace)


@pytest.mark.parametrize(("span_ns", "said"), [(10_000_000, True), (10_000_001, False)])
def test_a_wait_counts_from_two_hundredths_of_the_time(program: Program, span_ns: int, said: bool) -> None:
    found = one_wait(program, 200 * US, span_ns)
    assert len(found) == said
    if said:
        (one,) = found
        assert (one.severity, one.rule, one.saves_ns) == ("warning", "waits/run-dry", 200 * US)
        assert one.values == {"count": 1, "time": 200 * US, "function": "cudaDeviceSynchronize"}
        assert WAIT + " once: " in one.text and one.evidence == ()
        # the idle time from the end of the first kernel: 5 µs of waking up, the host's, a launch and 2 µs of latency
        assert one.at[1] - one.at[0] == 211 * US


def rows_of(seed: int) -> dict[str, list[dict[str, Any]]]:
    """Two threads that launch to two devices, wait, copy and compute; some calls overlap the moments that matter exactly."""
    rng = random.Random(seed)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    rows["device"] = [device(0), device(1)]
    number = 0
    for thread in (100, 101):
        host, gpu = EPOCH + rng.randrange(50) * US, EPOCH + 60 * US
        for _ in range(40):
            number += 1
            base = {"process": 0, "thread": thread, "correlation": number}
            kind = rng.choice(("launch", "launch", "wait", "copy", "host", "host"))
            if kind == "launch":
                rows["launch"].append({**base, "start": host, "duration": 4 * US, "captured": False,
                                       "function": "cudaLaunchKernel"})  # fmt: skip
                gpu = max(gpu, host + 6 * US)
                length = rng.choice((10, 40, 80)) * US
                rows["kernel"].append(kernel(gpu, length, correlation=number, device=thread - 100))
                gpu += length
                host += 4 * US
            elif kind == "wait":
                late = rng.choice((-US, 0, 1, 5 * US))
                finish = max(gpu + late, host)
                rows["api"].append({**base, "start": host, "duration": finish - host,
                                    "function": rng.choice(WAITING)})  # fmt: skip
                host = finish
            elif kind == "copy":
                gpu = max(gpu, host + 3 * US)
                length = 20 * US
                late = rng.choice((-19 * US, -1, 0, 2 * US))
                rows["memcpy"].append(copy(gpu, length, correlation=number, device=thread - 100))
                gpu += length
                finish = max(gpu + late, host + US)
                rows["launch"].append({**base, "start": host, "duration": finish - host, "captured": False,
                                       "function": "cudaMemcpyAsync"})  # fmt: skip
                host = finish
            else:
                host += rng.choice((10, 30, 90)) * US
    return rows


@pytest.mark.parametrize("seed", range(10))
def test_every_wait_is_held_against_the_host_work_after_it(build: Build, seed: int) -> None:
    rows = rows_of(seed)
    trace = build(**rows)
    facts = Facts(trace, Rows())
    account = facts.account
    gaps, pieces = account.gaps, account.pieces
    held = [(call, call["start"] + call["duration"]) for call in rows["api"] if call["function"] in WAITING]
    ends = {one["correlation"]: one["start"] + one["duration"] for one in rows["memcpy"]}
    for call in rows["launch"]:
        finish = call["start"] + call["duration"]
        if call["function"] == "cudaMemcpyAsync" and finish >= ends[call["correlation"]]:
            held.append((call, finish))
    own: dict[int, int] = defaultdict(int)
    for place in pieces.of(HOST).tolist():
        own[int(pieces.gap[place])] += int(pieces.end[place] - pieces.begin[place])
    calls = {(one["thread"], one["start"], one["correlation"]) for one in (*rows["launch"], *rows["api"])}
    assert len(calls) == len(account.calls)
    saved: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for gap, length in own.items():
        begin, call = int(gaps.begin[gap]), int(gaps.call[gap])
        thread = int(account.calls.thread[call])
        before = [one for one in held if one[0]["thread"] == thread and one[0]["start"] <= begin]
        if not before:
            continue
        latest, finish = max(before, key=lambda one: one[0]["start"])
        if finish >= begin:
            saved[latest["function"]].append((min(length, finish - latest["start"]), gap))
    expected = {
        function: (len(some), sum(one for one, _ in some), max(one for one, _ in some))
        for function, some in saved.items()
        if sum(one for one, _ in some) >= 0.02 * account.span
    }
    found = {one.values["function"]: one for one in waits.check(facts)}
    assert {name: (one.values["count"], one.values["time"]) for name, one in found.items()} == {
        name: one[:2] for name, one in expected.items()
    }
    for function, one in found.items():
        assert one.saves_ns == expected[function][1] // 2  # of two devices
        worst = {(int(gaps.begin[gap]), int(gaps.end[gap])) for length, gap in saved[function]
                 if length == expected[function][2]}  # fmt: skip
        assert one.at in worst


def test_there_are_findings_to_recount(build: Build) -> None:
    """The programs above have waits of each kind that let a device run dry."""
    found = [one for seed in range(10) for one in found_in(build(**rows_of(seed)))]
    assert {one.values["function"] for one in found} == {*WAITING, "cudaMemcpyAsync"}
    assert {one.values["count"] for one in found} > {2, 3}


@pytest.mark.parametrize(
    ("count", "turns", "said"),
    [
        (1, 6, ""),
        (1, 5, "0.2 times per iteration"),
        (7, 10, "0.7 times per iteration"),
        (8, 10, "once per iteration"),
        (10, 10, "once per iteration"),
        (12, 10, "once per iteration"),
        (13, 10, "1.3 times per iteration"),
        (30, 10, "3.0 times per iteration"),
        (3, 0, "3.0 times per iteration"),
    ],
)
def test_waits_are_told_by_iteration_unless_they_are_seldom(count: int, turns: int, said: str) -> None:
    processes = [range(turns // 2), range(turns - turns // 2)]
    facts = SimpleNamespace(iterations=processes)
    assert waits._rate(facts, count) == said  # type: ignore[arg-type]


def test_the_stack_that_all_waits_share_is_the_evidence(program: Program) -> None:
    stack = program.stack("train", "loss")
    for _ in range(5):
        program.launch("gemm", 100 * US)
        program.synchronize()
        program.rows["api"][-1]["stack"] = stack
        program.busy(90 * US)
    program.launch("gemm", 100 * US)
    with program.open() as trace:
        (one,) = found_in(trace)
    assert one.values == {"count": 5, "time": 450 * US, "function": "cudaDeviceSynchronize"}
    (said,) = one.evidence
    assert said.startswith("called by ") and "loss" in said
    assert (
        "5 times, once per iteration: the host works on after it while the GPU has nothing to do" in one.text
    )
    assert "wait afterwards" in str(one.advice)


def test_a_program_that_never_waits_or_never_idles_has_none(program: Program) -> None:
    for _ in range(20):
        program.launch("gemm", 100 * US)
    program.synchronize()
    with program.open() as trace:
        assert found_in(trace) == []
        assert waits._held(Facts(trace, Rows()).account).tolist() == [20]


@pytest.mark.parametrize(
    ("table", "late", "held"),
    [
        ("memcpy", 0, True),
        ("memcpy", -1, False),
        ("memset", 0, True),
        ("memset", -1, False),
        ("kernel", 0, False),
    ],
)
def test_a_copy_whose_call_returned_after_it_ended_held_the_host(
    program: Program, table: str, late: int, held: bool
) -> None:
    number = program.call("launch", "cuLaunch or copy", 50 * US + late, captured=False)
    more = {
        "memcpy": {"bytes": 1, "kind": "HtoD", "source_kind": "pageable", "destination_kind": "device", "asynchronous": True},
        "memset": {"bytes": 1, "value": 0, "memory_kind": "device", "asynchronous": True},
        "kernel": {"name_id": program.writer.name("gemm"), "graph_level": False},
    }[table]  # fmt: skip
    program.add(table, start=program.host - late - 20 * US, duration=20 * US, context=1, stream=7, device=0,
                correlation=number, **more)  # fmt: skip
    program.device = program.host
    program.launch("gemm", US)
    with program.open() as trace:
        assert waits._held(Facts(trace, Rows()).account).tolist() == ([0] if held else [])


def test_a_wait_of_another_thread_lets_nothing_run_dry(program: Program) -> None:
    for _ in range(5):
        program.launch("gemm", 100 * US)
        program.synchronize()
        program.rows["api"][-1]["thread"] = 2
        program.busy(90 * US)
    program.launch("gemm", 100 * US)
    with program.open() as trace:
        facts = Facts(trace, Rows())
        assert np.any(facts.account.pieces.of(HOST))
        assert list(waits.check(facts)) == []
