"""What is said of streams that take turns and of kernels that do not fill the device, each recounted from the rows."""

from __future__ import annotations

import random
import re
from collections import defaultdict

import numpy as np
import pytest

from tests.unit.analysis.conftest import Build, device, kernel, launch
from tests.unit.analysis.rules.program import MS, US, Program
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import kernels, streams
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.selection import Rows


@pytest.mark.parametrize("seed", range(8))
def test_small_grids_are_named_by_the_time_they_take(program: Program, seed: int) -> None:
    rng = random.Random(seed)
    limit = rng.choice((60, 100, 132))
    small: dict[str, list[tuple[int, int]]] = defaultdict(list)
    begin = finish = None
    for _ in range(60):
        name, blocks = rng.choice("abcde"), rng.choice((1, 17, limit - 1, limit, 500))
        duration = rng.choice((5, 20, 30, 90, 400)) * US + rng.randrange(-1, 2)
        shape = program.writer.shape(grid_x=blocks, grid_y=1, grid_z=1, block_x=64, block_y=1, block_z=1)
        program.launch(name, duration, stream=rng.choice((7, 8)), shape_id=shape)
        row = program.rows["kernel"][-1]
        begin = row["start"] if begin is None else begin
        finish = row["start"] + duration
        if blocks < limit and duration > 20 * US:
            small[name].append((duration, blocks))
    assert begin is not None and finish is not None
    total = sum(length for runs in small.values() for length, _ in runs)
    with program.open(multiprocessors=limit) as trace:
        found = list(kernels.check(Facts(trace, Rows())))
    if total < 0.3 * (finish - begin):
        assert found == []
        return
    (one,) = found
    assert one.values == {"time": total} and one.saves_ns is None
    assert one.text.startswith(f"{total / (finish - begin):.0%} of the time is in kernels with fewer blocks")
    assert f"multiprocessors ({limit})" in one.text
    ranked = sorted(small.items(), key=lambda item: -sum(length for length, _ in item[1]))[:3]
    assert [
        re.match(r"(\w): (.*?)( times)?, fewest blocks (\d+)$", str(line)).groups()[::3]
        for line in one.evidence
    ] == [  # type: ignore[union-attr]
        (name, str(min(blocks for _, blocks in runs))) for name, runs in ranked
    ]
    for line, (_, runs) in zip(one.evidence, ranked, strict=True):
        assert ("once" if len(runs) == 1 else "twice" if len(runs) == 2 else f"{len(runs)} times") in str(
            line
        )
    longest = max(length for runs in small.values() for length, _ in runs)
    assert one.at is not None and one.at[1] - one.at[0] == longest


def test_each_kernel_is_compared_with_its_own_device(build: Build) -> None:
    shapes = ({"grid_x": 50, "grid_y": 1, "grid_z": 1}, {"grid_x": 9, "grid_y": 1, "grid_z": 1})
    rows = [kernel(n * 100_000, 90_000, 1, device=n % 3, shape_id=1, correlation=n) for n in range(9)]
    rows += [
        kernel(900_000, 30_000, 2, device=1, shape_id=2),
        kernel(950_000, 30_000, 2, device=None, shape_id=2),
    ]
    trace = build(
        device=[device(0, multiprocessors=40), device(1, multiprocessors=60), device(2, multiprocessors=None)],
        kernel=rows, shapes=shapes, names=("gemm", "relu"),
    )  # fmt: skip
    (one,) = kernels.check(Facts(trace, Rows()))
    assert one.values == {"time": 3 * 90_000 + 30_000} and "multiprocessors (60)" in one.text
    assert list(kernels.check(Facts(build(kernel=rows, shapes=shapes), Rows()))) == []


def turns(
    program: Program, order: list[int], length: int = 100 * US, late: bool = False, **more: int
) -> None:
    """Kernels of streams one after the other, each with few blocks; the host waits for each where it is late."""
    shape = program.writer.shape(grid_x=4, grid_y=1, grid_z=1, block_x=64, block_y=1, block_z=1)
    for stream in order:
        program.launch("pool", length, stream=stream, shape_id=shape, **more)
        if late:
            program.host = program.device + 10 * US


def serialised(program: Program) -> list[Finding]:
    with program.open() as trace:
        return list(streams.check(Facts(trace, Rows())))


@pytest.mark.parametrize(("count", "found"), [(20, True), (19, False)])
def test_streams_are_judged_from_twenty_kernels(program: Program, count: int, found: bool) -> None:
    turns(program, [7 + n % 2 for n in range(count)], late=True)
    assert bool(serialised(program)) == found


@pytest.mark.parametrize(("part", "found"), [(100, True), (99, False)])
def test_a_stream_takes_part_from_a_twentieth_of_the_time(program: Program, part: int, found: bool) -> None:
    """38 kernels of one stream have the rest; the other's two have some of one twentieth."""
    turns(program, [7] * 38, late=True)
    turns(program, [8] * 2, length=part * US, late=True)
    assert bool(serialised(program)) == found


def beside(program: Program, overlap: int) -> None:
    """Pairs of kernels of two streams, the second of which begins before the first ends."""
    shape = program.writer.shape(grid_x=4, grid_y=1, grid_z=1, block_x=64, block_y=1, block_z=1)
    for _ in range(20):
        for stream in (7, 8):
            program.launch("pool", 100 * US, stream=stream, shape_id=shape)
            program.device -= overlap if stream == 7 else 0
        program.host = program.device + 10 * US


@pytest.mark.parametrize(("overlap", "said"), [(0, "never"), (18 * US, "hardly ever"), (19 * US, "")])
def test_streams_that_overlap_for_less_than_a_tenth_of_the_busy_time_are_serialised(
    program: Program, overlap: int, said: str
) -> None:
    beside(program, overlap)
    found = serialised(program)
    assert bool(found) == bool(said)
    for one in found:
        assert f"kernels of 2 streams of GPU 0 {said} run side by side" in one.text
        busy = 20 * (200 * US - overlap)
        assert one.values["busy"] == busy and one.saves_ns == busy - 20 * 100 * US


def test_what_side_by_side_would_save_is_all_but_the_longest_stream(program: Program) -> None:
    turns(program, [7, 8, 7, 9] * 8, late=True)
    (one,) = serialised(program)
    assert (
        one.saves_ns == 16 * 100 * US and one.values["streams"] == 3 and one.values["busy"] == 32 * 100 * US
    )
    assert "because the host launches to one after the other is done" in one.text
    assert one.values["edges"] >= 16 and "kernels were released by the host" in " ".join(
        map(str, one.evidence)
    )
    assert "median grid 4 blocks" in one.evidence and "the host waits, or launches" in (one.advice or "")
    assert "100% of their time is in kernels too small" in one.text


def test_the_stretch_shown_is_the_shortest_with_several_turns(program: Program) -> None:
    order = [7] * 6 + [8] * 6 + [7, 8] * 6 + [7] * 6
    turns(program, order, late=True)
    rows = program.rows["kernel"]
    changes = [n for n in range(1, len(order)) if order[n] != order[n - 1]]
    stretches = [
        (rows[changes[n] - 1]["start"], rows[changes[n + 7]]["start"] + 100 * US)
        for n in range(len(changes) - 7)
    ]
    (one,) = serialised(program)
    assert one.at == min(stretches, key=lambda stretch: stretch[1] - stretch[0])


def test_work_on_the_default_stream_between_them_is_the_reason(program: Program) -> None:
    shape = program.writer.shape(grid_x=4, grid_y=1, grid_z=1, block_x=64, block_y=1, block_z=1)
    program.add("context", context=1, device=0, null_stream=0, api="cuda")
    for stream in (7, 8):
        program.add("stream", stream=stream, context=1, device=0, flags=1)
    for _ in range(20):
        for stream in (7, 0, 8, 0):
            program.launch("pool", 100 * US if stream else 2 * US, stream=stream, shape_id=shape)
    (one,) = serialised(program)
    assert "because work on the legacy default stream is between them" in one.text
    assert "cudaStreamNonBlocking" in (one.advice or "") and one.values["edges"] >= 8
    assert f"{one.values['edges']:,} kernels were released by the legacy default stream" in one.evidence


@pytest.mark.parametrize("ahead", [False, True])
def test_waiting_for_each_others_events_is_the_reason(program: Program, ahead: bool) -> None:
    """Whether the host launches beside the device or all of it before the first kernel begins."""
    program.device += 20 * MS * ahead
    shape = program.writer.shape(grid_x=4, grid_y=1, grid_z=1, block_x=64, block_y=1, block_z=1)
    program.launch("pool", 100 * US, stream=8, shape_id=shape)
    for number in range(24):
        stream = 7 + number % 2
        wait = program.call("api", "cudaStreamWaitEvent", US)
        program.add("sync", start=program.host - US, duration=US, kind="stream wait event", context=1, stream=stream,
                    event=3, correlation=wait)  # fmt: skip
        program.launch("pool", 100 * US, stream=stream, shape_id=shape)
        record = program.call("api", "cudaEventRecord", US)
        program.add("event", event=3, context=1, stream=stream, device=0, correlation=record)
    (one,) = serialised(program)
    assert "because they wait for each other's events" in one.text
    assert (one.advice or "").startswith("Wait for events only where data is passed on")
    assert (
        one.values["edges"] == 23 and "23 kernels were released by an event of another stream" in one.evidence
    )


def test_the_code_that_launched_most_of_them_is_named(program: Program) -> None:
    stacks = [program.stack("pool_a"), program.stack("pool_b")]
    turns(program, [7, 8] * 15, late=True)
    for number, row in enumerate(program.rows["kernel"]):
        row["stack"] = stacks[number % 3 == 0]
    (one,) = serialised(program)
    assert "launched by pool_a (train.py:9) ← main (train.py:1)" in one.evidence


@pytest.mark.parametrize(("small", "found"), [(20, True), (19, False)])
def test_half_of_the_time_must_be_in_kernels_that_could_run_side_by_side(
    program: Program, small: int, found: bool
) -> None:
    shapes = [
        program.writer.shape(grid_x=n, grid_y=1, grid_z=1, block_x=64, block_y=1, block_z=1)
        for n in (99, 100)
    ]
    for number in range(40):
        program.launch("pool", 100 * US, stream=7 + number % 2, shape_id=shapes[number >= small])
        program.host = program.device + 10 * US
    assert bool(serialised(program)) == found


def test_each_device_is_judged_by_itself(build: Build) -> None:
    """Streams in turns on one device; on the other they run side by side."""
    rows, calls = [], []
    for number in range(40):
        own = {"correlation": number, "stream": 7 + number % 2, "shape_id": 1}
        rows += [kernel(number * 120_000, 100_000, device=0, **own),
                 kernel(number // 2 * 240_000, 100_000, device=1, **{**own, "correlation": 100 + number})]  # fmt: skip
        calls += [
            launch(number * 120_000 - 6_000, 4_000, number),
            launch(number // 2 * 240_000 - 9_000, 1, 100 + number),
        ]
    trace = build(device=[device(n, multiprocessors=100) for n in (0, 1)], kernel=rows, launch=calls,
                  shapes=({"grid_x": 5, "grid_y": 1, "grid_z": 1},))  # fmt: skip
    assert [re.findall(r"GPU \d", one.text) for one in streams.check(Facts(trace, Rows()))] == [["GPU 0"]]
    assert list(streams.check(Facts(trace, Rows(devices=(1,))))) == []


def test_turns_of_streams_are_counted_by_start(build: Build) -> None:
    from warpsight.model import work as device_work

    rng = np.random.default_rng(0)
    starts, order = rng.permutation(40) * 10, rng.integers(7, 10, 40)
    trace = build(
        kernel=[
            kernel(int(s), int(rng.integers(1, 9)), stream=int(q)) for s, q in zip(starts, order, strict=True)
        ]
    )
    work = device_work.load(trace, Rows())
    rows = sorted(range(len(work)), key=lambda row: work.start[row])
    where = [n for n in range(39) if work.queue[rows[n]] != work.queue[rows[n + 1]]]
    stretches = [
        (int(work.start[rows[a]]), int(work.end[rows[b + 1]])) for a, b in zip(where, where[7:], strict=False)
    ]
    assert streams._turns(work, np.array(rng.permutation(40))) == min(
        stretches, key=lambda one: one[1] - one[0]
    )


def test_small_kernels_that_fill_the_device_together_are_no_finding(build: Build) -> None:
    """Ten streams with 14 blocks each keep 132 multiprocessors busy; two keep 28: for as long as they run, not their sum."""
    shapes = ({"grid_x": 14, "grid_y": 1, "grid_z": 1},)

    def found(streams: int) -> list[Finding]:
        rows = [
            kernel(n * 100_000, 90_000, 1, stream=s, device=0, shape_id=1, correlation=1 + 50 * s + n)
            for s in range(streams)
            for n in range(9)
        ]
        trace = build(device=[device(0, multiprocessors=132)], kernel=rows, shapes=shapes)
        return list(kernels.check(Facts(trace, Rows())))

    assert found(10) == []
    (one,) = found(2)
    assert one.values == {"time": 9 * 90_000} and one.text.startswith("91% of the time")


@pytest.mark.parametrize(("length", "found"), [(50 * MS, True), (50 * MS + 1, False)])
def test_streams_that_would_save_less_than_a_fiftieth_of_the_time_are_no_finding(
    program: Program, length: int, found: bool
) -> None:
    """Side by side, one stream's 1 ms could hide behind the other's."""
    turns(program, [7, 8] * 10, late=True)
    program.device = program.rows["kernel"][0]["start"] + length - 100 * US
    program.host = program.device - 6 * US
    turns(program, [7])
    assert bool(serialised(program)) == found
