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
