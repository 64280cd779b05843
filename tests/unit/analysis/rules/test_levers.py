"""Rules that say what a change would save."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.analysis.rules.program import MS, US
from warpsight.analysis.rules.verdict import verdict
from warpsight.model.selection import Rows


def judged(program, rule):
    with program.open() as trace:
        found = verdict(trace)
    (finding,) = [one for one in found.findings if one.rule == rule]
    assert finding.at is not None and finding.at[0] < finding.at[1]  # it can be shown on the timeline
    return found, finding


def test_a_wait_in_the_loop_saves_the_host_work_that_could_run_beside_the_device(program):
    for _ in range(30):
        for _ in range(4):
            program.launch("gemm", 100 * US)
        program.synchronize()
        program.busy(300 * US)
    found, finding = judged(program, "waits/run-dry")
    assert "cudaDeviceSynchronize lets the GPU run dry" in finding.text
    assert "once per iteration" in finding.text
    # 300 µs of host work follow 400 µs of kernels, and all of it would fit beside them; the wait's last 5 µs are its own.
    assert finding.saves_ns == 29 * 300 * US
    assert finding.text in found.headline


def test_a_wait_that_is_shorter_than_the_work_after_it_saves_no_more_than_the_wait(program):
    for _ in range(30):
        program.launch("gemm", 100 * US)
        program.synchronize()
        program.busy(900 * US)
    _, finding = judged(program, "waits/run-dry")
    assert finding.saves_ns == pytest.approx(29 * 107 * US, rel=0.01)


@pytest.mark.parametrize(("every", "said"), [(1, ", once per iteration:"), (20, " 3 times:")])
def test_waits_that_come_now_and_then_are_not_counted_per_iteration(program, every, said):
    for turn in range(60):
        begin = program.host
        program.launch("gemm", 50 * US)
        program.launch("norm", 50 * US)
        if turn % every == every - 1:
            program.synchronize()
            program.busy(300 * US)
        program.annotated(f"step {turn}", begin)
    program.launch("gemm", 50 * US)
    _, finding = judged(program, "waits/run-dry")
    assert said in finding.text


def test_fills_that_hold_the_host_save_what_no_kernel_hides(program):
    for _ in range(30):
        program.launch("gemm", 50 * US)
        number = program.call("api", "cudaMemset", 10 * US)
        program.device = max(program.device, program.host)
        program.add("memset", start=program.device, duration=40 * US, bytes=1 << 20, value=0, memory_kind="device",
                    asynchronous=False, context=1, stream=7, device=0, correlation=number)  # fmt: skip
        program.device += 40 * US
        program.rows["api"][-1]["duration"] = program.device + 2 * US - program.rows["api"][-1]["start"]
        program.host = program.device + 2 * US
    _, finding = judged(program, "fills/synchronous")
    assert finding.saves_ns == 30 * 40 * US


@pytest.mark.parametrize(("table", "function"), [("memset", "cudaMemset"), ("memcpy", "cudaMemcpy")])
def test_calls_that_return_before_their_work_ends_hold_no_host(program, table, function):
    """`cudaMemset` of device memory and `cudaMemcpy` within the device do, whatever their names say."""
    kinds = {"memset": {"value": 0, "memory_kind": "device"},
             "memcpy": {"kind": "DtoD", "source_kind": "device", "destination_kind": "device"}}  # fmt: skip
    for _ in range(60):
        program.launch("gemm", 50 * US)
        number = program.call("api", function, 2 * US)
        program.device = max(program.device, program.host)
        program.add(table, start=program.device, duration=40 * US, bytes=1 << 20, asynchronous=False, context=1, stream=7,
                    device=0, correlation=number, **kinds[table])  # fmt: skip
        program.device += 40 * US
    with program.open() as trace:
        assert not {f.rule for f in verdict(trace).findings} & {"fills/synchronous", "copies/synchronous"}


@pytest.mark.parametrize(("length", "saved"), [(20, 20), (48, 48), (190, 108)])
def test_synchronous_copies_that_hold_nobody_still_take_their_time(program, length, saved):
    """What they can save is what else there is: 50 µs of a kernel, and 58 µs of calls and pauses, beside each copy."""
    for _ in range(40):
        program.launch("gemm", 50 * US)
        program.host = program.device
        number = program.call("api", "cudaMemcpy", (length + 52) * US)
        program.add("memcpy", start=program.host - (length + 2) * US, duration=length * US, bytes=1 << 20, kind="DtoH",
                    source_kind="device", destination_kind="pinned", asynchronous=False, context=1, stream=7, device=0,
                    correlation=number)  # fmt: skip
        program.device = program.host
    _, finding = judged(program, "copies/synchronous")
    assert finding.saves_ns == pytest.approx(40 * saved * US, rel=0.03)


@pytest.mark.parametrize(("size", "said"), [(0, True), (64 << 10, False), ((64 << 10) + 1, True)])
def test_pinned_memory_is_no_help_for_pageable_copies_of_a_few_bytes(program, size, said):
    for _ in range(30):
        number = program.call("api", "cudaMemcpy", 60 * US)
        program.add("memcpy", start=program.host - 50 * US, duration=40 * US, bytes=size, kind="HtoD", source_kind="pageable",
                    destination_kind="device", asynchronous=False, context=1, stream=7, device=0, correlation=number)  # fmt: skip
        program.device = program.host
        program.launch("gemm", 20 * US)
        program.host = program.device
    with program.open() as trace:
        assert ("copies/pageable" in {one.rule for one in verdict(trace).findings}) == said


def test_pageable_copies_save_what_no_kernel_hides(program):
    for _ in range(30):
        number = program.call("launch", "cudaMemcpyAsync", 300 * US, captured=False)
        program.add("memcpy", start=program.host - 290 * US, duration=280 * US, bytes=1 << 20, kind="HtoD",
                    source_kind="pageable", destination_kind="device", asynchronous=True, context=1, stream=7, device=0,
                    correlation=number)  # fmt: skip
        program.device = program.host
        program.launch("gemm", 100 * US)
        program.host = program.device
    _, finding = judged(program, "copies/pageable")
    assert finding.saves_ns == 30 * 280 * US
    assert "pin_memory" in (finding.advice or "")


def test_a_clock_below_the_maximum_costs_in_proportion(program):
    for _ in range(100):
        program.launch("gemm", 1_000 * US)
    for time in np.linspace(MS, program.device, 50).astype(int).tolist():
        for name, value in (("sm_clock", 1500.0), ("throttle_software_power_cap", 1.0)):
            program.add("counter", time=time, name=name, value=value, unit="1", device=0, source="nvml")
    found, finding = judged(program, "clocks/throttled")
    assert finding.saves_ns == pytest.approx(0.25 * found.length, rel=0.02)
    assert "the power limit (100% of the busy time)" in finding.text
    assert finding.text in found.headline
    assert "check cooling" in (finding.advice or "")
    assert finding.evidence[0] == "lowest clock while busy 1,500 MHz"


def test_short_kernels_launched_one_by_one_are_launch_bound(program):
    for _ in range(300):
        program.launch("relu", 2 * US)
        program.host = program.device + US
    found, finding = judged(program, "launches/launch-bound")
    assert "299 of 300 kernels are launched when the GPU has run dry" in finding.text
    assert finding.saves_ns == found.account.time(3, 5)  # all of the idle time: launch and host


def test_a_full_launch_queue_is_a_note(program):
    for step in range(120):
        program.launch("gemm", 100 * US)
        if step % 4 == 0 and step > 10:  # this call waits for the device to take an earlier launch
            begin = program.rows["launch"][-1]["start"]
            program.host = max(program.host, program.device - 100 * US)
            program.rows["launch"][-1]["duration"] = max(program.host - begin, 4 * US)
    found, finding = judged(program, "launches/queue-full")
    assert finding.severity == "note"
    share = finding.values["time"] / found.length
    assert 0.1 < share < 1 and f" launch calls for {share:.0%} of the time" in finding.text
    assert finding.saves_ns is None


def test_only_the_time_asked_for_is_judged(program):
    for _ in range(30):
        program.launch("gemm", 200 * US)
    program.host = program.device + 50 * MS
    for _ in range(30):
        program.launch("gemm", 200 * US)
    begin = program.rows["kernel"][30]["start"]
    with program.open() as trace:
        whole, late = verdict(trace), verdict(trace, Rows(begin))
    assert "the GPU is idle for" in whole.headline
    assert late.headline.startswith("100% of the time is in one kernel, gemm")


@pytest.mark.parametrize("grid", [None, 4, 400])
def test_streams_that_never_overlap_are_found_where_their_kernels_are_known_to_be_small(program, grid):
    shape = {} if grid is None else {"shape_id": program.writer.shape(
        grid_x=grid, grid_y=1, grid_z=1, block_x=128, block_y=1, block_z=1)}  # fmt: skip
    for turn in range(60):
        program.launch("pool", 200 * US, stream=7 + turn % 3, **shape)
        program.host = program.device
    with program.open() as trace:
        found = [one for one in verdict(trace).findings if one.rule == "streams/serialised"]
    assert len(found) == (grid == 4)  # the device has 100 multiprocessors


def test_small_copies_save_no_more_than_small_copies_take(program):
    """One of sixty copies of four bytes was held up for 30 ms by something else."""
    for turn in range(60):
        number = program.call("api", "hipMemcpyAsync", 2 * US)
        length = 30 * MS if turn == 20 else 20 * US
        program.device = max(program.device, program.host)
        program.add("memcpy", start=program.device, duration=length, bytes=4, kind="DtoH", source_kind="device",
                    destination_kind="pinned", asynchronous=True, context=1, stream=7, device=0,
                    correlation=number)  # fmt: skip
        program.device += length
    _, finding = judged(program, "copies/small")
    assert finding.saves_ns == 59 * 20 * US


def two_streams(program, name, blocks):
    """Kernels of two streams in turns; those of the second have a name and few blocks."""
    few, many = (program.writer.shape(grid_x=count, grid_y=1, grid_z=1, block_x=256) for count in blocks)
    for _ in range(30):
        program.launch("gemm", 200 * US, 7, shape_id=many)
        program.launch(name, 300 * US, 20, shape_id=few)
    with program.open() as trace:
        return {finding.rule: finding for finding in verdict(trace).findings}


def test_collectives_beside_nothing_are_no_serialised_streams_and_no_small_kernels(program):
    rules = two_streams(
        program, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", (24, 400)
    )
    assert "streams/serialised" not in rules and "kernels/small-grids" not in rules


def test_small_kernels_of_streams_in_turns_are_serialised_streams(program):
    rules = two_streams(program, "relu", (24, 24))
    assert "never run side by side" in rules["streams/serialised"].text
    assert "kernels/small-grids" in rules


def kept(program, turns, layers):
    """Each turn launches some layers, each of which keeps what it allocated."""
    for turn in range(turns):
        for layer in range(layers):
            program.add("memory", time=program.host, operation="allocate", address=(turn * layers + layer + 1) << 20,
                        bytes=1 << 20, kind="device", allocator="caching allocator", device=0)  # fmt: skip
            program.launch(f"gemm {layer}", 100 * US)
        if turns > 1:
            program.add("user_event", start=program.host, duration=0, name="step", kind="step", thread=1)
    with program.open() as trace:
        return [finding for finding in verdict(trace).findings if finding.rule == "memory/leak"]


def test_activations_of_a_single_pass_are_no_leak(program):
    assert not kept(program, 1, 40)


def test_what_every_turn_keeps_is_a_leak(program):
    (found,) = kept(program, 20, 4)
    assert "allocations of caching allocator are kept" in found.text


def test_migrations_of_managed_memory_hold_no_host_and_are_said_to_end_the_gaps(program):
    for _ in range(30):
        program.launch("gemm", 50 * US)
        program.synchronize()
        program.busy(200 * US)
        program.device = program.host
        program.add("memcpy", start=program.device, duration=40 * US, bytes=1 << 20, kind="DtoH", source_kind="managed",
                    destination_kind="managed", asynchronous=False, context=0, stream=0, device=0, correlation=0)  # fmt: skip
        program.host = program.device = program.device + 40 * US
    with program.open() as trace:
        found = {finding.rule: finding for finding in verdict(trace).findings}
    assert "copies/synchronous" not in found
    assert "before migrations of managed memory" in found["account/unknown"].text
    assert "cudaMemPrefetchAsync" in (found["account/unknown"].advice or "")


def test_streams_with_little_work_need_not_overlap(program):
    """Most kernels are on the second stream, most of the time on the first."""
    shape = program.writer.shape(grid_x=4, grid_y=1, grid_z=1, block_x=128, block_y=1, block_z=1)
    for _ in range(30):
        program.launch("pool", 400 * US, stream=7, shape_id=shape)
        program.host = program.device
        for _ in range(3):
            program.launch("flag", US, stream=8, shape_id=shape)
            program.host = program.device
    with program.open() as trace:
        assert "streams/serialised" not in {one.rule for one in verdict(trace).findings}
