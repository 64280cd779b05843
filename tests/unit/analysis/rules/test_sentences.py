"""Sentences are true as they are written: no counts that are equal, no advice to do what is done, no saving that nobody knows."""

from __future__ import annotations

import pytest

from tests.unit.analysis.rules.program import MS, THREAD, US, Program
from warpsight.analysis.account.classes import COPY, LAUNCH
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.advice import Transfers
from warpsight.analysis.rules.advice import of as advice_of
from warpsight.analysis.rules.base.facts import Facts
from warpsight.analysis.rules.verdict import Verdict, verdict
from warpsight.model.selection import Rows


def judged(program: Program) -> Verdict:
    with program.open() as trace:
        return verdict(trace)


def of(found: Verdict, rule: str) -> Finding:
    (one,) = [one for one in found.findings if one.rule == rule]
    return one


@pytest.mark.parametrize(("launches", "bound"), [(2, False), (30, True)])
def test_a_few_launches_bind_no_program(program: Program, launches: int, bound: bool) -> None:
    for _ in range(launches):
        program.launch("gemm", 5 * US)
        program.busy(20 * US)
    rules = {one.rule for one in judged(program).findings}
    assert ("launches/launch-bound" in rules) == bound


def test_devices_of_different_spans_are_not_said_to_have_worked_for_as_long_each(program: Program) -> None:
    for _ in range(10):
        program.launch("gemm", 100 * US)
    program.add("kernel", start=program.device, duration=US, name_id=program.writer.name("tiny"), context=2, stream=7,
                device=1, correlation=999, graph_level=False)  # fmt: skip
    summary = judged(program).summary
    assert "2 GPUs were busy 100% of their time, 1.00 µs to " in summary and "each" not in summary


def copied(program: Program, source: str, count: int = 20) -> Finding:
    for _ in range(count):
        number = program.call("api", "cudaMemcpyAsync", 4 * US)
        program.device = max(program.device, program.host)
        program.add("memcpy", start=program.device, duration=100 * US, bytes=1 << 20, kind="HtoD", source_kind=source,
                    destination_kind="device", asynchronous=True, context=1, stream=7, device=0, correlation=number)  # fmt: skip
        program.device += 100 * US
    return of(judged(program), "account/copy")


@pytest.mark.parametrize("source", ["pinned", "pageable"])
def test_only_who_copies_from_pageable_memory_is_told_to_copy_from_pinned(
    program: Program, source: str
) -> None:
    assert ("pinned memory" in (copied(program, source).advice or "")) == (source == "pageable")


@pytest.mark.parametrize(("times", "advice"), [(1, "before it matters"), (3, "once, before the loop")])
def test_a_call_that_came_once_is_not_to_be_called_once(program: Program, times: int, advice: str) -> None:
    program.launch("gemm", 10 * US)
    for _ in range(times):
        program.call("api", "cuLibraryLoadData", 3 * MS)
        program.launch("gemm", 10 * US)
    assert f"Call it {advice}" in (of(judged(program), "account/blocked_call").advice or "")


@pytest.mark.parametrize(("busy", "said"), [(100 * US, False), (900 * US, True)])
def test_a_stretch_is_said_to_be_of_a_class_that_has_most_of_it(
    program: Program, busy: int, said: bool
) -> None:
    """The rest of the stretch is an allocation's, which takes 500 µs."""
    program.launch("gemm", 10 * US)
    program.busy(busy)
    program.call("api", "cudaMalloc", 500 * US)
    program.launch("gemm", 10 * US)
    assert ("in one stretch of" in of(judged(program), "account/host").text) == said


def test_what_migrations_would_save_nobody_knows(program: Program) -> None:
    program.launch("gemm", 50 * US)
    program.synchronize()
    for _ in range(30):
        program.device += 200 * US
        program.add("memcpy", start=program.device, duration=40 * US, bytes=1 << 20, kind="DtoH", source_kind="managed",
                    destination_kind="managed", asynchronous=False, context=0, stream=0, device=0, correlation=0)  # fmt: skip
        program.device += 40 * US
    found = judged(program)
    for rule in ("account/unknown", "account/copy"):
        one = of(found, rule)
        assert one.saves_ns is None and not any("shorter" in str(line) for line in one.evidence)


def test_a_slow_iteration_of_as_many_kernels_is_not_said_to_have_others(program: Program) -> None:
    for turn in range(12):
        begin = program.host
        program.launch("gemm", 100 * US)
        program.synchronize()
        program.busy(5 * MS if turn == 7 else 50 * US)
        program.annotated(f"step {turn}", begin)
    evidence = " ".join(map(str, of(judged(program), "loops/slow-iteration").evidence))
    assert "begins at" in evidence and "instead of" not in evidence


@pytest.mark.parametrize(("name", "said"), [("step {}", "step 7"), ("fetch the next batch", "iteration 7")])
def test_a_name_that_all_iterations_share_is_not_that_of_the_slow_one(
    program: Program, name: str, said: str
) -> None:
    for turn in range(12):
        begin = program.host
        program.launch("gemm", 100 * US)
        program.synchronize()
        program.busy(5 * MS if turn == 7 else 50 * US)
        program.annotated(name.format(turn), begin)
    found = judged(program)
    text = of(found, "loops/slow-iteration").text
    assert text.startswith(f"slow iteration: {said} took")
    assert found.iterations is not None and f"usual {found.iterations.median_ns / 1000:.0f} µs" in text


def test_waiting_in_the_system_goes_with_the_hosts_own_code(program: Program) -> None:
    """Nine tenths of the time is the host's, most of that in `poll`: without it little is left."""
    for _ in range(5):
        program.launch("gemm", 100 * US)
        program.synchronize()
        program.busy(100 * US)
        program.add(
            "api", start=program.host, duration=800 * US, function="poll", thread=THREAD, correlation=0
        )
        program.host += 800 * US
    program.launch("gemm", 100 * US)
    one = of(judged(program), "account/host")
    assert one.saves_ns is not None and one.share_ns is not None and one.saves_ns > 0.9 * one.share_ns
    assert "89% of it in poll" in one.text and one.text.count("poll") == 1


@pytest.mark.parametrize(
    ("back", "part"), [(0, "(memcpy HtoD, pinned, "), (300 * US, "(60% of it memcpy DtoH, pinned, ")]
)
def test_a_kind_of_copy_that_has_some_of_the_time_is_not_said_to_have_all(
    program: Program, back: int, part: str
) -> None:
    for kind, length in [("HtoD", 100 * US), ("DtoH", back)]:
        for _ in range(2 if kind == "HtoD" else 1):
            if length:
                number = program.call("api", "cudaMemcpyAsync", 4 * US)
                program.device = max(program.device, program.host)
                ends = ("pinned", "device") if kind == "HtoD" else ("device", "pinned")
                program.add("memcpy", start=program.device, duration=length, bytes=1 << 20, kind=kind, source_kind=ends[0],
                            destination_kind=ends[1], asynchronous=True, context=1, stream=7, device=0,
                            correlation=number)  # fmt: skip
                program.device += length
    assert part.replace(", pinned", "") in of(judged(program), "account/copy").text


def test_instances_of_one_template_are_not_said_to_be_one_kernel(program: Program) -> None:
    for functor in ("Add", "Gelu", "Add", "Mul"):
        program.launch(f"void elementwise_kernel<4, {functor}Functor>(int, {functor}Functor)", 300 * US)
    program.launch("gemm", 400 * US)
    kernels = [one for one in judged(program).findings if one.rule == "account/compute"]
    assert (
        kernels[0].text == "75% of the time is in 3 kernels of one template, elementwise_kernel<4> (4 times)"
    )
    assert "each of these kernels" in (kernels[0].advice or "")
    assert "this kernel" in (kernels[1].advice or "")


def test_where_nothing_of_the_host_was_recorded_nothing_is_said_of_its_launches(program: Program) -> None:
    for _ in range(20):
        program.launch("gemm", 100 * US)
        program.launch("softmax", 10 * US, stream=8)
    del program.rows["launch"]
    found = judged(program)
    said = " ".join(line for one in found.findings for line in one.evidence)
    assert "no host call that launches or waits was recorded" in said and "calls that launch" not in said


def test_what_is_held_back_after_its_launch_was_launched_in_the_trace(program: Program) -> None:
    """As where a driver submits launches in batches."""
    for _ in range(20):
        program.device = program.host + 2_000 * US
        program.launch("gemm", 10 * US)
        program.synchronize()
    found = of(judged(program), "account/unknown")
    assert "most of it after cudaLaunchKernel had returned" in found.text
    assert "Record from the program's start" not in (found.advice or "")
    assert "look at what else uses this GPU" in (found.advice or "")


def test_one_long_pause_in_a_loop_is_no_variation_of_its_iterations(program: Program) -> None:
    for number in range(60):
        program.launch("gemm", 10 * US)
        program.launch("norm", 10 * US)
        program.host = program.device + 5 * US + (20_000 * US if number == 40 else 0)
    found = judged(program)
    assert not [one for one in found.findings if one.rule == "loops/jitter"]


def test_a_launch_counts_once_however_its_idle_time_is_cut(program: Program) -> None:
    """The device is idle during each launch, and on the way from it to the kernel."""
    for _ in range(20):
        program.launch("gemm", 10 * US)
        program.synchronize()
    with program.open() as trace:
        (row,) = [one for one in Facts(trace, Rows()).account.of(LAUNCH) if one.name == "cudaLaunchKernel"]
    assert row.count == 19


def test_iterations_that_shrink_do_not_vary_as_little_as_their_steady_state(program: Program) -> None:
    """The first turns take five times as long as those after them."""
    for number in range(220):
        program.launch("fan", (400 if number < 40 else 54 + 21 * (number % 3)) * US)
        program.launch("out", 5 * US)
        program.synchronize()
    text = of(judged(program), "loops/jitter").text
    assert text.startswith("the iterations of the steady state vary by")


def moved(program: Program, table: str, stream: int, length: int = 100 * US, size: int = 1 << 20) -> None:
    """A copy to the device after all work before it, which the work after it waits for."""
    number = program.call("api", "cudaMemcpyAsync", 4 * US)
    program.device = max(program.device, program.host)
    program.add(table, start=program.device, duration=length, bytes=size, kind="HtoD", source_kind="pinned", context=1,
                destination_kind="device", asynchronous=True, stream=stream, device=0, correlation=number)  # fmt: skip
    program.device += length


@pytest.mark.parametrize(
    ("stream", "size", "said", "unsaid"),
    [
        (7, 1 << 20, "on a stream of its own", "small"),
        (7, 512, "collect small copies", "begin"),
        (13, 1 << 20, "begin them earlier", "on a stream of its own"),
    ],
)
def test_only_copies_beside_kernels_on_their_stream_are_told_to_take_one_of_their_own(
    program: Program, stream: int, size: int, said: str, unsaid: str
) -> None:
    for _ in range(20):
        moved(program, "memcpy", stream, size=size)
        program.launch("gemm", 100 * US)
    told = of(judged(program), "account/copy").advice or ""
    assert said in told and unsaid not in told


def test_what_saves_a_copy_is_not_said_to_collect_small_ones() -> None:
    """One advice with a clause of its own and another after it: a comma keeps them apart."""
    told = advice_of(COPY, "memcpy DtoD", found=Transfers(small=True))
    assert told.endswith(
        "(in place, into views), which saves the copy, and collect small copies into large ones."
    )


def test_copies_on_a_stream_of_their_own_that_kernels_hide_say_nothing_of_those_that_none_does(
    program: Program,
) -> None:
    """Many copies run beside a kernel; those that nothing hides are on the kernels' stream."""
    for _ in range(10):
        program.launch("gemm", 500 * US)
        program.device -= 450 * US
        moved(program, "memcpy", 13, 300 * US)
        program.device += 150 * US
        moved(program, "memcpy", 7, 50 * US)
    assert "on a stream of its own" in (of(judged(program), "account/copy").advice or "")


def test_a_program_without_kernels_is_not_told_to_copy_beside_them(program: Program) -> None:
    for _ in range(10):
        moved(program, "memcpy", 7)
    assert "kernel" not in (of(judged(program), "account/copy").advice or "kernel")


@pytest.mark.parametrize("pages", [0, 4, 40])
def test_a_kernel_that_faults_on_pages_is_not_said_to_be_slow_by_itself(program: Program, pages: int) -> None:
    """A kernel of 1 ms; each page takes 5 µs to come."""
    program.launch("gemm", 1_000 * US)
    begin = program.device - 1_000 * US
    for page in range(pages):
        program.add("memcpy", start=begin + page * 20 * US, duration=5 * US, bytes=1 << 16, kind="HtoD", source_kind="managed",
                    destination_kind="managed", asynchronous=False, context=0, stream=0, device=0, correlation=0)  # fmt: skip
    advice = of(judged(program), "account/compute").advice or ""
    assert ("cudaMemPrefetchAsync" in advice) == (pages == 40)


@pytest.mark.parametrize("stream", [7, 13])
def test_collectives_that_have_a_stream_are_not_told_to_take_one(program: Program, stream: int) -> None:
    for _ in range(10):
        program.launch("gemm", 100 * US)
        program.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100 * US, stream)
    advice = of(judged(program), "account/communication").advice or ""
    assert ("on a stream of its own" in advice) == (stream == 7)
