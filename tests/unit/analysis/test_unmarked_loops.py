"""Loops whose turns nothing marks, made by chance: what is counted are the turns that the program made."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.unit.analysis.rules.program import US, Program
from warpsight.analysis.steps.iterations import find

KERNELS = ("gemm", "norm", "softmax", "add")


def counted(program: Program) -> int:
    with program.open() as trace:
        return max((len(one) for one in find(trace)), default=0)


def turn(program: Program, kernels: int) -> None:
    """Copies what the kernels need, as blocking calls of a solver's steps do, and launches them."""
    number = program.call("api", "cudaMemcpyAsync", 3 * US)
    program.device = max(program.device, program.host)
    program.add("memcpy", start=program.device, duration=US, bytes=512, kind="HtoD", source_kind="pinned", asynchronous=True,
                destination_kind="device", context=1, stream=7, device=0, correlation=number)  # fmt: skip
    program.device += US
    for place in range(kernels):
        program.launch(KERNELS[place], 20 * US)


@pytest.mark.parametrize("seed", range(12))
def test_waits_now_and_then_in_a_loop_of_the_same_work_are_no_turns(tmp_path: Path, seed: int) -> None:
    """The host waits after some turns, as whoever reads results when there are enough does."""
    chance = random.Random(seed)
    program = Program(tmp_path / "t.warp")
    turns, kernels = chance.randrange(200, 500), chance.randrange(1, 5)
    usual = chance.randrange(8, 40)
    left = chance.randrange(1, usual)
    for _ in range(turns):
        turn(program, kernels)
        left -= 1
        if not left:
            program.synchronize()
            left = max(1, usual + chance.randrange(-4, 5))
    assert counted(program) == turns


@pytest.mark.parametrize("seed", range(6))
def test_waits_after_equally_many_parts_are_turns(tmp_path: Path, seed: int) -> None:
    """A solver's outer loop of so many sweeps each, after which the host waits."""
    chance = random.Random(seed)
    program = Program(tmp_path / "t.warp")
    turns, kernels, sweeps = chance.randrange(5, 40), chance.randrange(1, 5), chance.randrange(3, 9)
    for _ in range(turns):
        for _ in range(sweeps):
            turn(program, kernels)
        program.synchronize()
        program.busy(30 * US)
    assert abs(counted(program) - turns) <= 1


@pytest.mark.parametrize(("seed", "every"), [(seed, every) for seed in range(3) for every in (10, 25, 100)])
def test_a_loop_that_waits_after_every_so_many_turns_has_all_of_them(
    tmp_path: Path, seed: int, every: int
) -> None:
    """As one that prints after every tenth, or hundredth, how far it is."""
    chance = random.Random(seed)
    program = Program(tmp_path / "t.warp")
    kernels, turns = chance.randrange(1, 5), every * chance.randrange(4, 9)
    for number in range(turns):
        turn(program, kernels)
        if number % every == every - 1:
            program.synchronize()
            program.busy(30 * US)
    assert counted(program) == turns


@pytest.mark.parametrize("copies", [0, 60, 250, 330])
def test_waits_before_a_loop_do_not_make_turns_of_its_layers(tmp_path: Path, copies: int) -> None:
    """Weights are copied one by one, each with a wait, before some passes of a model with blocks of layers."""
    program = Program(tmp_path / "t.warp")
    for _ in range(copies):
        turn(program, 0)
        program.synchronize()
    for _ in range(8):
        for place, blocks in enumerate((3, 4, 6, 3)):
            for name in ("stem", *("conv", "norm", "relu", "add") * blocks, f"pool{place}"):
                program.launch(name, 20 * US)
        program.synchronize()
    assert counted(program) == 8


@pytest.mark.parametrize(("pause", "expected"), [(10 * US, 0), (20_000 * US, 13)])
def test_a_result_that_is_read_number_by_number_is_no_loop(tmp_path: Path, pause: int, expected: int) -> None:
    """Thirteen copies take most of the device's time, but little of the program's unless there is a pause after each."""
    program = Program(tmp_path / "t.warp")
    for place in range(4):
        program.launch(f"kernel{place}", 2 * US)
        program.busy(20_000 * US)
    for _ in range(13):
        turn(program, 0)
        program.busy(pause)
    program.launch("kernel", 2 * US)
    assert counted(program) == expected


@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize("parts", [1, 3])
def test_the_first_turn_of_a_loop_that_waits_is_one(tmp_path: Path, before: int, parts: int) -> None:
    program = Program(tmp_path / "t.warp")
    for place in range(before):
        program.launch(f"setup{place}", 20 * US)
    for _ in range(12):
        for _ in range(parts):
            turn(program, 2)
        program.synchronize()
        program.busy(30 * US)
    assert counted(program) == 12


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("solve", 0),
        ("[param|cuda]", 0),
        ("train step", 1),
        ("ProfilerStep#3", 1),
        ("execute_context_1(512)_generation_8(8)", 1),
    ],
)
def test_a_range_around_a_program_without_a_loop_is_a_turn_if_its_name_says_so(
    tmp_path: Path, name: str, expected: int
) -> None:
    program = Program(tmp_path / "t.warp")
    begin = program.host
    for place in range(9):
        program.launch(f"kernel{place}", 20 * US)
    program.synchronize()
    program.annotated(name, begin)
    assert counted(program) == expected


def test_a_range_around_a_loop_of_many_turns_is_not_its_only_turn(tmp_path: Path) -> None:
    program = Program(tmp_path / "t.warp")
    begin = program.host
    for _ in range(300):
        turn(program, 2)
    program.annotated("solve", begin)
    assert counted(program) == 300


@pytest.mark.parametrize("table", ["marker", "op"])
@pytest.mark.parametrize(
    ("batches", "optimized", "expected"),
    [
        ((30, 30), (2,), 1),  # gradients of both are accumulated
        ((30, 30, 30, 30), (4,), 1),
        ((30, 4), (), 1),  # the fetch after the last batch gets none
        ((30, 30, 30), (), 3),  # a loop inside of the only step that was recorded
        ((30, 30, 30), (1, 2, 3), 3),
    ],
)
def test_batches_of_one_step_are_no_iterations(
    tmp_path: Path, table: str, batches: tuple[int, ...], optimized: tuple[int, ...], expected: int
) -> None:
    """`batches` are kernels of each, `optimized` the batches after which the optimizer steps."""
    program = Program(tmp_path / "t.warp")

    def ranged(name: str, begin: int) -> None:
        if table == "marker":
            program.annotated(name, begin)
        else:
            program.add(
                "op", start=begin, duration=program.host - begin, name_id=program.writer.name(name), thread=1
            )

    begin = program.host
    for place, kernels in enumerate(batches, 1):
        fetch = program.host
        program.busy(20 * US)
        ranged("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", fetch)
        for kernel in range(kernels):
            program.launch(f"kernel_{kernel}", 20 * US)
        if place in optimized:
            step = program.host
            program.launch("adam", 20 * US)
            ranged("Optimizer.step#Adam.step", step)
    ranged("ProfilerStep#1", begin)
    assert counted(program) == expected
