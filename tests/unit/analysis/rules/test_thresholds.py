"""When a finding begins: at the number that the rule states, and not one before it."""

from __future__ import annotations

import pytest

from tests.unit.analysis.rules.program import US, Program
from warpsight.analysis.rules import grids
from warpsight.analysis.rules.verdict import verdict
from warpsight.model.selection import Rows


def rules(program: Program) -> set[str | None]:
    with program.open() as trace:
        return {finding.rule for finding in verdict(trace).findings}


def copy(program: Program, size: int, source: str = "pinned") -> None:
    """A copy that the host and the device wait for."""
    number = program.call("api", "cudaMemcpy", 30 * US)
    start = max(program.device, program.host - 20 * US)
    program.add("memcpy", start=start, duration=20 * US, bytes=size, kind="HtoD", source_kind=source,
                destination_kind="device", asynchronous=False, device=0, context=1, stream=7, correlation=number)  # fmt: skip
    program.device = start + 20 * US
    program.host = max(program.host, program.device)


@pytest.mark.parametrize(
    ("count", "size", "found"),
    [(50, 65_535, True), (49, 65_535, False), (50, 65_536, False), (200, 65_536, False)],
)
def test_small_copies_are_fifty_or_more_below_64_kib(
    program: Program, count: int, size: int, found: bool
) -> None:
    for _ in range(10):
        program.launch("gemm", 50 * US)
    for _ in range(count):
        copy(program, size)
    assert ("copies/small" in rules(program)) == found


def test_migrations_of_managed_memory_are_no_small_copies(program: Program) -> None:
    for _ in range(10):
        program.launch("gemm", 50 * US)
    for _ in range(200):
        program.device += 5 * US
        program.add("memcpy", start=program.device, duration=5 * US, bytes=4_096, kind="HtoD", source_kind="managed",
                    destination_kind="managed", asynchronous=False, context=0, stream=0, device=0, correlation=0)  # fmt: skip
        program.device += 5 * US
    assert "copies/small" not in rules(program)


@pytest.mark.parametrize(
    ("duration", "blocks", "found"),
    [(20_001, 99, True), (20_000, 99, False), (20_001, 100, False), (20_001, 1, True), (20_001, 0, False)],
)
def test_small_grids_leave_multiprocessors_idle_for_longer_than_20_us(
    program: Program, duration: int, blocks: int, found: bool
) -> None:
    shape = program.writer.shape(grid_x=blocks, grid_y=1, grid_z=1, block_x=128, block_y=1, block_z=1)
    for _ in range(30):
        program.launch("gemm", duration, shape_id=shape)
    assert ("kernels/small-grids" in rules(program)) == found


def test_each_device_has_its_own_number_of_multiprocessors(program: Program) -> None:
    program.writer.add("device", [{"device": 1, "index": 1, "uuid": "v", "name": "S", "vendor": "V", "platform": "cuda",
                                   "multiprocessors": 4}])  # fmt: skip
    shape = program.writer.shape(grid_x=50, grid_y=1, grid_z=1, block_x=128)
    for _ in range(30):
        program.launch("gemm", 100 * US, shape_id=shape)
    assert "kernels/small-grids" in rules(program)


@pytest.mark.parametrize(
    ("part", "beside", "found"),
    [(0.0, 0, True), (0.6, 0, True), (0.75, 0, False), (0.75, 82, False), (0.75, 24, True)],
)
@pytest.mark.parametrize("name", ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "relu"])
def test_small_grids_leave_nothing_idle_while_other_kernels_run(
    program: Program, name: str, part: float, beside: int, found: bool
) -> None:
    """Something in another stream takes the rest of the multiprocessors for part of the time, or too few of them."""
    other = program.writer.shape(grid_x=beside, grid_y=1, grid_z=1, block_x=128) if beside else -1
    shape = program.writer.shape(grid_x=50, grid_y=1, grid_z=1, block_x=128)
    number = program.writer.name(name)
    for _ in range(30):
        program.launch("gemm", 100 * US, shape_id=shape)
        program.add("kernel", shape_id=other, start=program.device - 100 * US, duration=round(part * 100 * US),
                    name_id=number, context=1,
                    stream=8, device=0, correlation=9_000, graph_level=False)  # fmt: skip
    assert ("kernels/small-grids" in rules(program)) == found


def test_kernels_whose_grid_is_not_known_are_not_small(program: Program) -> None:
    for _ in range(30):
        program.launch("gemm", 100 * US)
    program.launch("relu", 21 * US, shape_id=program.writer.shape(grid_x=4, grid_y=1, grid_z=1, block_x=128))
    assert "kernels/small-grids" not in rules(program)


@pytest.mark.parametrize(("small", "found"), [(31, True), (29, False)])
def test_small_grids_count_from_three_tenths_of_the_time(program: Program, small: int, found: bool) -> None:
    shapes = [
        program.writer.shape(grid_x=n, grid_y=1, grid_z=1, block_x=128, block_y=1, block_z=1)
        for n in (10, 1000)
    ]
    for number in range(100):
        program.launch("gemm", 100 * US, shape_id=shapes[number >= small])
    assert ("kernels/small-grids" in rules(program)) == found


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_that_meet_are_two_at_least(program: Program, ranks: int) -> None:
    for _ in range(10):
        program.launch("gemm", 50 * US)
    name = program.writer.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    for rank in range(ranks):
        program.add("kernel", start=program.device + 10 * US, duration=100 * US, context=1, stream=8, device=0,
                    correlation=0, graph_level=False, process=rank, name_id=name)  # fmt: skip
    assert ("communication/ranks" in rules(program)) == (ranks > 1)


@pytest.mark.parametrize(
    ("pinned", "compared"), [(0, False), (1 << 20, False), ((1 << 20) + 1, True), (8 << 20, True)]
)
def test_pageable_copies_are_compared_with_a_mebibyte_of_pinned_ones(
    program: Program, pinned: int, compared: bool
) -> None:
    for _ in range(20):
        program.launch("gemm", 50 * US)
        copy(program, 1 << 20, "pageable")
    if pinned:
        copy(program, pinned)
    with program.open() as trace:
        (finding,) = [one for one in verdict(trace).findings if one.rule == "copies/pageable"]
    assert "20 copies from or to pageable memory move 20.0 MiB at 52.4 GB/s" in finding.text
    said = f"pinned copies of this recording reach {pinned / 20_000:.1f} GB/s"
    assert (said in finding.text) == compared == ("pinned copies" in finding.text)


@pytest.mark.parametrize(
    ("usual", "held", "count", "name", "idle", "found"),
    [
        (4 * US, 50_001, 60, "gemm", 0, True),
        (4 * US, 50_000, 60, "gemm", 0, False),  # no longer than a slow call
        (10 * US, 100_001, 60, "gemm", 0, True),
        (10 * US, 60_000, 60, "gemm", 0, False),  # less than ten usual calls
        (4 * US, 60_000, 30, "gemm", 0, False),  # 1.8 of 20 ms
        (4 * US, 60_000, 60, "gemm", 5_000 * US, False),  # the device is idle for a fifth of the time
        (
            4 * US,
            60_000,
            60,
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            0,
            True,
        ),  # communication keeps it busy too
    ],
)
def test_the_queue_is_full_where_held_calls_are_a_tenth_of_the_time_of_a_busy_device(
    program: Program, usual: int, held: int, count: int, name: str, idle: int, found: bool
) -> None:
    for number in range(200):
        program.launch(name if number % 2 else "gemm", 100 * US)
        length = held if number >= 200 - count else usual
        program.rows["launch"][-1]["duration"] = length
        program.host += length - 4 * US
    program.host = max(program.host, program.device + idle)
    program.launch("gemm", US)
    assert ("launches/queue-full" in rules(program)) == found


@pytest.mark.parametrize(("pause", "found"), [(96 * US, True), (96 * US + 1, False)])
def test_longer_pauses_than_100_us_are_not_those_between_launches(
    program: Program, pause: int, found: bool
) -> None:
    for _ in range(300):
        program.launch("relu", 2 * US)
        program.host = program.device + pause  # 4 µs after the launch call returned
    assert ("launches/launch-bound" in rules(program)) == found


@pytest.mark.parametrize(("small", "found"), [(6, True), (4, False)])
def test_kernels_count_from_a_twentieth_of_the_time(program: Program, small: int, found: bool) -> None:
    for number in range(100):
        program.launch("small" if number < small else "large", 100 * US)
    with program.open() as trace:
        names = {one.name for one in verdict(trace).findings if one.kind == "compute"}
    assert names == ({"small", "large"} if found else {"large"})


@pytest.mark.parametrize(("copies", "found"), [(30, True), (3, False)])
def test_copies_count_from_a_hundredth_of_the_time(program: Program, copies: int, found: bool) -> None:
    for _ in range(200):
        program.launch("gemm", 100 * US)
    for _ in range(copies):
        copy(program, 1 << 20)
    with program.open() as trace:
        kinds = {one.kind for one in verdict(trace).findings}
    assert ("copy" in kinds) == found


@pytest.mark.parametrize(("dry", "found"), [(60, True), (59, False)])
def test_launches_count_from_three_tenths_of_the_kernels(program: Program, dry: int, found: bool) -> None:
    """Each dry launch comes 90 µs after the device fell idle; the others are queued behind it."""
    queued = 200 - dry
    program.launch("relu", 5 * US)
    for number in range(dry):
        program.host = program.device + 90 * US
        program.launch("relu", 20 * US)
        for _ in range((number + 1) * queued // dry - number * queued // dry - (number == 0)):
            program.launch("relu", 20 * US)
    assert ("launches/launch-bound" in rules(program)) == found


@pytest.mark.parametrize(("duration", "found"), [(11 * US, True), (2 * US, False)])
def test_repeated_copies_count_from_a_fiftieth_of_the_time(
    program: Program, duration: int, found: bool
) -> None:
    """Fifty copies of the same bytes beside others that are all different, over 20 ms."""
    for _ in range(10):
        program.launch("gemm", 1_500 * US)
    for number in range(102):
        repeated = number % 2
        program.device += 5 * US
        program.add("memcpy", start=program.device, duration=duration if repeated else 40 * US, bytes=1 << 20,
                    kind="HtoD", source_kind="pinned", destination_kind="device", asynchronous=True, device=0, context=1,
                    stream=7, correlation=0, source_address=4096 if repeated else (number + 1) << 24,
                    destination_address=1 << 40 if repeated else (number + 1) << 34)  # fmt: skip
        program.device += duration if repeated else 40 * US
    assert ("copies/redundant" in rules(program)) == found


def test_a_window_of_kernels_excludes_its_end(program: Program) -> None:
    for _ in range(3):
        program.launch("gemm", 50 * US)
    starts = [row["start"] for row in program.rows["kernel"]]
    with program.open() as trace:
        assert grids.kernels(trace, Rows(), (starts[0], starts[2]))["start"].tolist() == starts[:2]
