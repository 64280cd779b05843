"""Shares of the account as findings: the largest cause comes first, with its name and its time."""

from __future__ import annotations

import pytest

from tests.unit.analysis.rules.program import US
from warpsight.analysis.rules.base.facts import Facts
from warpsight.analysis.rules.verdict import verdict


def first(program):
    with program.open() as trace:
        found = verdict(trace)
        return found, found.findings[0]


def test_host_code_between_launches_is_named_by_its_samples(program):
    for _ in range(30):
        program.launch("gemm", 200 * US)
        program.busy(900 * US, "tokenise")
    found, finding = first(program)
    assert (finding.rule, finding.kind, finding.name) == ("account/host", "host", "tokenise")
    assert "tokenise (train.py:9)" in finding.text
    # 29 gaps, each of 900 µs of code that begins while the kernel still runs for 202 µs
    assert finding.share_ns == 29 * 698 * US
    assert finding.share_ns < found.length


def test_host_code_in_a_range_of_the_users_is_named_by_the_range(program):
    for _ in range(30):
        program.launch("gemm", 200 * US)
        begin = program.host
        program.busy(900 * US)
        program.annotated("tokenise", begin)
    _, finding = first(program)
    assert (finding.kind, finding.name) == ("host", "tokenise")


def test_host_code_without_a_name_is_still_the_hosts(program):
    for _ in range(30):
        program.launch("gemm", 200 * US)
        program.busy(900 * US)
    _, finding = first(program)
    assert finding.text == "the GPU is idle for 77% of the time while the host runs code between two launches"


def test_a_call_that_holds_the_host_is_named(program):
    for _ in range(30):
        program.launch("gemm", 200 * US)
        program.call("api", "cudaMalloc", 700 * US)
    _, finding = first(program)
    assert (finding.rule, finding.name) == ("account/blocked_call", "cudaMalloc")
    assert "cudaMalloc (29 times)" in finding.text
    assert finding.share_ns == pytest.approx(29 * 500 * US, rel=0.01)
    assert "Allocate once" in (finding.advice or "")


@pytest.mark.parametrize(
    ("recorded", "function"), [(False, "hipMemcpy"), (True, "hipMemcpy"), (False, "hipMemset")]
)
def test_a_call_that_copies_may_keep_a_device_busy_where_no_copies_were_recorded(program, recorded, function):
    for _ in range(30):
        program.launch("gemm", 200 * US)
        program.call("api", function, 700 * US)
    if recorded:
        program.add("memcpy", start=program.device, duration=US, bytes=4, kind="DtoH", source_kind="device",
                    destination_kind="pageable", asynchronous=False, context=1, stream=7, device=0)  # fmt: skip
    _, finding = first(program)
    assert (finding.kind, finding.name) == ("blocked_call", function)
    unseen = not recorded and function == "hipMemcpy"
    assert (
        "no kernel runs for" in finding.text and "whose copies were not recorded" in finding.text
    ) == unseen
    assert ("the GPU is idle" in finding.text) != unseen
    assert (finding.saves_ns is None) == unseen
    assert ("Record copies" in (finding.advice or "")) == unseen


def test_exposed_communication_is_what_no_kernel_hides(program):
    for _ in range(30):
        start = program.device
        program.launch("gemm", 300 * US)
        program.device = start + 200 * US
        program.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 500 * US, stream=8)
    found, finding = first(program)
    assert finding.kind == "communication"
    # Each collective runs beside its kernel for the last part of it.
    assert found.account.time(1) == finding.share_ns
    assert finding.share_ns == pytest.approx(30 * 400 * US, rel=0.02)


def test_copies_that_no_kernel_hides_are_named_by_direction(program):
    for _ in range(30):
        program.launch("gemm", 100 * US)
        number = program.call("launch", "cudaMemcpyAsync", 4 * US, captured=False)
        program.device = max(program.device, program.host)
        program.add("memcpy", start=program.device, duration=300 * US, bytes=1 << 20, kind="DtoH", source_kind="device",
                    destination_kind="pinned", asynchronous=True, context=1, stream=7, device=0, correlation=number)  # fmt: skip
        program.device += 300 * US
    _, finding = first(program)
    assert (finding.kind, finding.name) == ("copy", "memcpy DtoH")
    assert finding.share_ns == 30 * 300 * US


def test_findings_of_the_account_come_by_share_and_their_shares_are_its_rows(program):
    for _ in range(30):
        program.launch("gemm", 200 * US)
        program.call("api", "cudaMalloc", 700 * US)
        program.busy(300 * US, "tokenise")
        program.launch("relu", 90 * US)
    found, _ = first(program)
    shares = [f for f in found.findings if f.kind is not None]
    assert [f.kind for f in shares] == ["blocked_call", "host", "compute", "compute"]
    assert [f.share_ns for f in shares] == sorted((f.share_ns for f in shares), reverse=True)
    for one in shares:
        rows = [e.time for e in found.account.entries if e.class_name == one.kind]
        assert one.share_ns in (sum(rows), *rows)


def test_one_long_stretch_of_host_time_is_said_with_its_place_in_time(program):
    program.launch("gemm", 100 * US)
    program.busy(50_000 * US)
    for _ in range(30):
        program.launch("gemm", 100 * US)
        program.host = program.device + 200 * US
    _, finding = first(program)
    # 49.9 ms of 55.7 ms; the stretch begins with the end of the first kernel, and time 0 is the first call.
    assert finding.text.endswith("two launches, 90% of it in one stretch of 49.9 ms at 0.000106s")


def test_host_time_in_many_stretches_names_none_of_them(program):
    for _ in range(30):
        program.launch("gemm", 100 * US)
        program.host = program.device + 200 * US
    _, finding = first(program)
    assert "one stretch" not in finding.text


def test_a_range_around_everything_gives_way_to_the_function_and_its_line(program):
    begin = program.host
    for _ in range(30):
        program.launch("gemm", 200 * US)
        program.busy(900 * US, "tokenise")
    program.annotated("train", begin)
    found, finding = first(program)
    assert finding.name == "tokenise"
    assert "all of it in tokenise (train.py:9)" in finding.text
    assert found.account.place == "tokenise (train.py:9)"


def test_a_name_that_holds_only_most_of_the_host_time_is_not_said_to_hold_all(program):
    """Two threads' worth of functions with no common caller: the larger names the time, with its part."""
    stacks = [
        program.writer.stack([(name, "train.py", 9, None, "python", None)]) for name in ("read", "tokenise")
    ]
    for turn in range(30):
        program.launch("gemm", 200 * US)
        for at in range(program.host, program.host + 900 * US, 100 * US):
            program.add("sample", time=at, thread=1, stack=stacks[turn % 3 > 0], state="R", gil=True)
        program.busy(900 * US)
    _, finding = first(program)
    assert finding.name == "tokenise"
    part = int(finding.text.split("% of it in tokenise (train.py:9)")[0].split()[-1])
    assert 60 <= part <= 70
    assert "all of it" not in finding.text


def test_a_launch_that_loads_code_is_told_from_many_launches(program):
    program.launch("gemm", 100 * US)
    program.host = program.device + 10 * US
    program.call("launch", "cudaLaunchKernel", 20_000 * US, captured=False)
    for _ in range(2):
        program.launch("first_of_its_kind", 30 * US)
    program.rows["kernel"][1]["correlation"] = program.correlation - 2  # by the call of 20 ms
    _, finding = first(program)
    assert finding.kind == "launch"
    assert "all of it in one stretch of 20.0 ms" in finding.text
    assert "load the code" in (finding.advice or "")


def test_advice_for_many_launches_names_no_vendors_graphs(program):
    for _ in range(200):
        program.launch("tiny", 1 * US)
    _, finding = first(program)
    assert finding.kind == "launch"
    assert "replay the sequence as a graph" in finding.advice


def test_devices_are_busy_on_average(program):
    """Two devices; the second works a quarter of the time."""
    for _ in range(20):
        program.launch("gemm", 100 * US)
        program.rows.setdefault("kernel", []).append(
            {**program.rows["kernel"][-1], "device": 1, "duration": 25 * US}
        )
    with program.open() as trace:
        facts = Facts(trace)
        begin = program.rows["kernel"][0]["start"]
        assert facts.share_busy(begin, begin + 2_000 * US) == pytest.approx((1 + 0.25) / 2)
        assert facts.share_busy(begin, begin) == 0
