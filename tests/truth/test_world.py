"""The simulated world and its truth: small programs worked out by hand, and what holds for every generated one.

Times in the comments are microseconds; latency is 4, turnaround 1, waking up takes 6, nothing jitters.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import warpsight as ws
from tests.truth import account, synthetic
from tests.truth import program as p
from tests.truth.execution import Execution
from tests.truth.judging import judge, says
from tests.truth.programs import KINDS, generate
from tests.truth.truth import Truth, truth_of
from tests.truth.world import run

EXACT = p.Machine(latency_ns=4_000, jitter=0, turnaround_ns=1_000, wake_ns=6_000)
STREAM, OTHER = p.Stream(0, 7), p.Stream(1, 7)
#: One seed of each family.
ONE_EACH = range(16, 16 + len(KINDS))


def launch(ns: int, stream: p.Stream = STREAM, name: str = "k", **more: object) -> p.Launch:
    """A launch that takes 5 µs."""
    return p.Launch(stream, (p.Kernel(name, ns),), 5_000, **more)  # type: ignore[arg-type]


def executed(*threads: tuple[p.Step, ...], machine: p.Machine = EXACT, apart: bool = False) -> Execution:
    """Threads run from 0 on, each in a process of its own if `apart`."""
    made = [p.Thread(f"t{n}", steps, 4001 + n, n if apart else 0) for n, steps in enumerate(threads)]
    return run(p.Program(0, "by hand", tuple(made), machine, begin_ns=0))


def classes(execution: Execution) -> dict[str, int]:
    """Time of each class that has any."""
    truth = truth_of(execution)
    assert sum(row.ns for row in truth.rows) == truth.span_ns
    return {cls: cause.ns for cls, cause in truth.classes.items() if cause.ns}


def test_a_gap_is_the_hosts_until_the_launch_begins() -> None:
    # Launch 0-5, kernel 9-19. Code 5-25. Launch 25-30, kernel 34-44.
    # Gap 19-34: host 19-25, inside the launch 25-30, latency 30-34.
    found = executed((launch(10_000), p.Code(20_000), launch(10_000)))
    assert classes(found) == {"compute": 20_000, "host": 6_000, "launch": 9_000}


def test_a_wait_that_ends_with_the_device_is_no_cause_of_the_gap_after_it() -> None:
    # Launch 0-5, kernel 9-59. Wait 5-65 (59, and 6 to wake up). Code 65-95. Launch 95-100, kernel 104-114.
    # Gap 59-104: wait 59-65, host 65-95, launch 95-104.
    wait = p.Synchronise(STREAM, "cudaStreamSynchronize")
    found = executed((launch(50_000), wait, p.Code(30_000), launch(10_000)))
    assert classes(found) == {"compute": 60_000, "blocked_call": 6_000, "host": 30_000, "launch": 9_000}


def test_a_blocking_copy_is_a_launch_before_it_and_a_blocked_call_after_it() -> None:
    # Launch 0-5, kernel 9-59. Copy call from 5; submitted 8; copy 60-62 after a turnaround; the call ends 62+6+10 = 78.
    # Code 78-86. Launch 86-91, kernel 95-105.
    # Gap 59-60: inside the call that enqueued the copy. Gap 62-95: call 62-78, host 78-86, launch 86-95.
    copy = p.Copy("DtoH", 64, 2_000, "device", "pageable")
    call = p.Transfer(STREAM, copy, 3_000, "cudaMemcpy", blocking=True, after_ns=10_000)
    found = executed((launch(50_000), call, p.Code(8_000), launch(10_000)))
    assert classes(found) == {
        "compute": 60_000,
        "copy": 2_000,
        "launch": 10_000,
        "blocked_call": 16_000,
        "host": 8_000,
    }
    names = {row.name: row.ns for row in truth_of(found).rows if row.cls == "launch"}
    assert names == {"cudaMemcpy": 1_000, "cudaLaunchKernel": 9_000}


def test_a_launch_that_blocks_on_a_full_queue_is_a_launch() -> None:
    # One work fits. Launch 0-5, kernel 9-109. Launch from 5, room at 109, returns 114; kernel 118-128.
    # Gap 109-118: 5 inside the call, 4 of latency.
    machine = dataclasses.replace(EXACT, queue_depth=1)
    found = executed((launch(100_000), launch(10_000)), machine=machine)
    assert classes(found) == {"compute": 110_000, "launch": 9_000}


def test_a_first_launch_that_loads_a_module_is_a_launch() -> None:
    # Launch 0-5, kernel 9-19. Launch 5-2010, kernel 2014-2024. Gap 19-2014 is inside the call but for 4 of latency.
    found = executed((launch(10_000), launch(10_000, load_ns=2_000_000)))
    assert classes(found) == {"compute": 20_000, "launch": 1_995_000}


def test_a_stream_that_waits_for_another_device() -> None:
    # Device 1: launch 0-5, kernel 9-19. Device 0: launch 5-10, kernel 14-514. Record 10-11.5, wait 11.5-13.
    # Launch to device 1 13-18, kernel 515-525 after the event at 514 and a turnaround.
    # Device 1, gap 19-515: the call is over, so 496 of other_stream, of which 6 may be latency (1.5 times the usual).
    steps = (
        launch(10_000, OTHER),
        launch(500_000),
        p.Record("e", STREAM),
        p.WaitFor("e", OTHER),
        launch(10_000, OTHER),
    )
    found = executed(steps)
    assert classes(found) == {"compute": 520_000, "other_stream": 496_000}
    cause = truth_of(found).classes["other_stream"]
    assert (cause.low_ns, cause.high_ns) == (490_000, 496_000)


def test_what_nobody_recorded_is_unknown() -> None:
    # Launch 0-5, kernel 9-19. Unseen call 5-6, unseen kernel 20-320. Launch 6-11, kernel 321-331.
    # Gap 19-321: 302 unknown. Launch 11-16 is lost: its kernel starts after the gap 331-332, which is unknown too.
    hidden = p.Launch(STREAM, (p.Kernel("h", 300_000, visible=False),), 1_000, seen=False)
    found = executed((launch(10_000), hidden, launch(10_000), launch(10_000, seen=False)))
    assert classes(found) == {"compute": 30_000, "unknown": 303_000}


def test_a_collective_lasts_until_the_last_rank_has_come() -> None:
    # Rank 0: collective's launch 0-5, starts 9; kernel's launch 5-10, kernel 14-34 beside it.
    # Rank 1: code 0-100, launch 100-105, collective starts 109. It takes 7 from then: both end at 116 (7 ns apart).
    # Rank 0 communicates 107, of which 20 are hidden by the kernel; rank 1 communicates 7.
    def joins(stream: p.Stream) -> p.Launch:
        kernel = p.Kernel("ncclDevKernel_SendRecv", 7_000, "m", 2, collective=True)
        return p.Launch(stream, (kernel,), 5_000)

    side, rank1 = p.Stream(0, 20), p.Stream(3, 20, 1)
    found = executed((joins(side), launch(20_000)), (p.Code(100_000), joins(rank1)), apart=True)
    assert classes(found) == {"compute": 20_000, "communication": 87_000 + 7_007}
    assert truth_of(found).spans == {0: 107_000, 3: 7_007}


def test_the_recorders_time_is_its_own() -> None:
    # Launch 0-5, kernel 9-19. Recorder 5-45. Launch 45-50 of which 2 are the recorder's, kernel 54-64.
    # (Call 45-52 with them, kernel 56-66.) Gap 19-56: recorder 19-45 and 2 inside the call, launch 5 and latency 4.
    found = executed((launch(10_000), p.RecorderWork(40_000), launch(10_000, recorder_ns=2_000)))
    assert classes(found) == {"compute": 20_000, "recorder": 28_000, "launch": 9_000}


def test_other_threads_do_not_matter_to_a_gap() -> None:
    # As in the first program; another thread registers memory all the while, and asks for an event that never comes.
    idle = (p.Call("cudaHostRegister", 90_000), p.Hang("cudaEventSynchronize"))
    found = executed((launch(10_000), p.Code(20_000), launch(10_000)), idle)
    assert classes(found) == {"compute": 20_000, "host": 6_000, "launch": 9_000}


def named(*parts: tuple[str, str, int]) -> Truth:
    """Truth of a loop whose host time is in annotations (outer, inner, ns); inner ones may be empty."""
    body: list[p.Step] = [launch(10_000)]
    for outer, inner, ns in parts:
        code: tuple[p.Step, ...] = (p.Code(ns),)
        if inner:
            code = (p.Within(p.Scope(inner, "annotation"), code),)
        body.append(p.Within(p.Scope(outer, "annotation"), code))
    body.append(launch(10_000))
    root = p.Within(p.Scope("main", "root"), (p.Within(p.Scope("step 3", "step"), tuple(body)),))
    return truth_of(executed((root,)))


def test_the_host_is_named_by_what_holds_nearly_all_of_its_time() -> None:
    # The kernel runs until 19, so 14 of the first part are beside it.
    whole = named(("load", "decode", 500_000), ("log", "", 10_000))
    assert (whole.firsts[0].names or set()) == {"load", "decode"}
    assert whole.firsts[0].never == {"log"}
    halves = named(("load", "read", 300_000), ("load", "unpack", 250_000), ("log", "", 10_000))
    assert (halves.firsts[0].names or set()) == {"load"}
    # Where it splits below the step, the step is right, and so are its larger parts.
    split = named(("load", "", 300_000), ("log", "", 250_000))
    assert (split.firsts[0].names or set()) == {"step", "load", "log"}


def test_iterations_are_those_that_the_thread_began() -> None:
    # Each iteration takes 5 for the launch and 95 of code; the second one takes 295 more.
    def iteration(ns: int) -> tuple[p.Step, ...]:
        return (p.IterationBegins(), launch(10_000), p.Code(ns))

    found = truth_of(
        executed((*iteration(95_000), *iteration(390_000), *iteration(95_000), *iteration(95_000)))
    )
    assert found.iterations is not None
    assert (found.iterations.count, found.iterations.median_ns, found.iterations.even) == (4, 100_000, False)
    assert found.iterations.other_ns == (100_000, 10_000)


@pytest.mark.parametrize("seed", ONE_EACH)
def test_a_seed_is_one_program_with_one_truth(seed: int) -> None:
    program = generate(seed)
    assert program == generate(seed)
    assert truth_of(run(program)) == truth_of(run(program))


@pytest.mark.parametrize("seed", ONE_EACH)
def test_an_account_has_every_nanosecond_once(seed: int) -> None:
    execution = run(generate(seed))
    truth, pieces = truth_of(execution), account.pieces(execution)
    for device, span in truth.spans.items():
        own = [piece for piece in pieces if piece.device == device]
        assert all(before.end == after.begin for before, after in pairwise(own))
        assert own[-1].end - own[0].begin == span
    assert sum(row.ns for row in truth.rows) == truth.span_ns
    assert all(cause.low_ns <= cause.ns <= cause.high_ns for cause in truth.causes)
    # What the definitions leave open is no more than the tolerance.
    assert sum(piece.ns for piece in pieces if piece.also) <= 0.02 * truth.span_ns


@pytest.mark.parametrize("seed", ONE_EACH)
def test_the_usual_latency_can_be_seen(seed: int) -> None:
    """Most calls that enqueue work for an idle device see it start in time, so that other starts are late."""
    execution = run(generate(seed))
    usual, ends, late = execution.program.machine.latency_ns, Counter[int](), []
    for item in execution.works:
        call, device, (start, end) = item.call, item.stream.device, item.times
        if call.seen and call.end is not None and call.begin >= ends[device] and start >= call.end:
            late.append(start - call.end > 1.3 * usual)
        ends[device] = max(ends[device], end)
    assert sum(late) <= 0.25 * len(late)


@pytest.mark.parametrize("seed", ONE_EACH)
def test_a_written_trace_has_the_rows_of_the_program(tmp_path: Path, seed: int) -> None:
    execution = run(generate(seed))
    path = synthetic.write(execution, tmp_path)
    if path.suffix == ".json":
        path = Path(ws.import_files([path], tmp_path / "imported.warp").path)
    works = Counter(type(item.work).__name__ for item in execution.works)
    launches = sum(call.seen and call.kind == "launch" for call in execution.calls)
    begun = "SELECT min(start), max(start + duration), count(*) FROM {} WHERE start IS NOT NULL"
    with ws.open(path) as trace:
        tables = {"Kernel": "kernel", "Copy": "memcpy", "Fill": "memset"}
        rows = {kind: trace.sql(begun.format(table)).fetchall()[0] for kind, table in tables.items()}
        assert {kind: row[2] for kind, row in rows.items() if row[2]} == dict(works)
        assert trace.count("launch") == launches
        first, last = (choose(r[i] for r in rows.values() if r[2]) for i, choose in ((0, min), (1, max)))
    times = [item.times for item in execution.works]
    assert last - first == max(end for _, end in times) - min(start for start, _ in times)


@pytest.mark.parametrize("seed", ONE_EACH)
def test_the_truth_itself_is_judged_right(seed: int) -> None:
    truth = truth_of(run(generate(seed)))
    first = truth.firsts[0]
    name = "" if first.names is None else min(first.names)
    said = {
        "account": [{"class": row.cls, "name": row.name, "ns": row.ns} for row in truth.rows],
        "findings": [{"class": first.cls, "name": name, "text": name, "share_ns": first.ns}],
        "iterations": truth.iterations and dataclasses.asdict(truth.iterations),
    }
    found = judge(truth, said)
    assert (found.account, found.false, found.first, found.count, found.median) == ((), (), None, None, None)
    wrong = judge(truth, {"account": said["account"], "findings": [{"class": "overheating", "share_ns": 1}]})
    assert wrong.first is not None
    assert wrong.count is None or truth.iterations is not None
    assert judge(truth, {}).account


def test_names_may_be_shortened_but_not_mistaken() -> None:
    kernel = "void tk::amber_rotate_rows<16, double>(double*, double const*, int)"
    assert says(kernel, "tk::amber_rotate_rows")
    assert says(kernel, kernel)
    assert not says(kernel, "amber_rotate_lanes")
    assert says("load", "load (data.py:31)")
    assert not says("load", "preload_rows")
    assert says("step", "step 17")
    assert says("cuMemAlloc_v2", "cuMemAlloc")
