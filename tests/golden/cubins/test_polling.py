"""Polling loops in code of nvcc 13.0 for four architectures: what they read, and that loops over data are none.

Built by `nvcc -std=c++17 -arch=sm_XX -cubin polls.cu`.
"""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import pytest

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.flow.polling import Poll, counts_in_memory, poll_of, reads_grid_size

HERE = Path(__file__).resolve().parent
ARCHITECTURES = (80, 90, 100, 120)


@cache
def code(architecture: int) -> Cubin:
    name = f"polls.plain.sm_{architecture}"
    return Cubin(lzma.decompress((HERE / f"{name}.cubin.xz").read_bytes()), name)


def flow_of(architecture: int, kernel: str) -> ControlFlow:
    cubin = code(architecture)
    section = cubin.section_of(kernel)
    assert section is not None
    return ControlFlow(cubin.instructions(section), architecture)


def polls(architecture: int, kernel: str) -> set[Poll]:
    """Every poll that a lane of a kernel can be found in."""
    flow = flow_of(architecture, kernel)
    loops = [flow.loop_around(index) for index in range(len(flow.words))]
    found = [poll_of(flow, loop) for loop in loops if loop is not None]
    return {poll for poll in found if poll is not None}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("kernel", "operation", "space", "atomic", "sleeps", "offset", "size"),
    [
        ("flag", "LDG", "global", False, False, 0, 4),
        ("sleeping", "LDG", "global", False, True, 0, 4),
        ("generic", "LD", "memory", False, False, 12, 4),
        ("shared_flag", "LDS", "shared", False, False, 0, 4),
        ("swap_lock", "ATOMG", "global", True, False, 0, 4),
        ("exchange_lock", "ATOMG", "global", True, True, None, 4),
        ("read_by_atomic", "ATOMG", "global", True, False, 0, 8),
        ("with_abort", "LDG", "global", False, False, 0, 8),
        ("with_timeout", "LDG", "global", False, False, 0, 4),
        ("counter", "LDG", "global", False, False, 0, 4),
        ("grid_sync", "LD", "memory", False, False, 4, 4),
    ],
)
def test_a_polling_loop_is_found_with_what_it_reads(
    architecture: int, kernel: str, operation: str, space: str, atomic: bool, sleeps: bool, offset: int | None,
    size: int,
) -> None:  # fmt: skip
    (poll,) = polls(architecture, kernel)
    assert (poll.operation, poll.space, poll.atomic, poll.sleeps) == (operation, space, atomic, sleeps)
    assert poll.size == size
    assert offset is None or poll.offset == offset  # compilers may add an offset to the register beforehand


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernel", ["sum", "search", "list", "queue", "writing"])
def test_a_loop_over_data_or_one_that_stores_is_no_poll(architecture: int, kernel: str) -> None:
    flow = flow_of(architecture, kernel)
    # Besides the loop of the source there is the one behind EXIT, a branch to itself.
    assert any(loop and len(loop.body) > 1 for loop in map(flow.loop_around, range(len(flow.words)))), (
        "there is a loop"
    )
    assert polls(architecture, kernel) == set()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_barrier_of_the_grid_reads_its_size_and_counts_in_memory(architecture: int) -> None:
    for kernel, size, counts in (
        ("counter", True, True),
        ("grid_sync", True, True),
        ("flag", False, False),
        ("sum", False, False),  # reads blockDim, which is beside
        ("swap_lock", False, True),
    ):
        flow = flow_of(architecture, kernel)
        assert (reads_grid_size(flow), counts_in_memory(flow)) == (size, counts), kernel


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_instructions_before_and_behind_a_loop_are_in_none(architecture: int) -> None:
    flow = flow_of(architecture, "flag")
    inside = [
        index for index in range(len(flow.words)) if (loop := flow.loop_around(index)) and len(loop.body) > 1
    ]
    assert inside == list(range(inside[0], inside[-1] + 1)) and 0 not in inside
    (poll,) = polls(architecture, "flag")
    assert poll.index in inside and poll.value is not None


def test_an_empty_section_and_code_that_is_cut_have_no_loops() -> None:
    assert len(ControlFlow(b"", 90).words) == 0
    whole = flow_of(90, "flag").words.tobytes()
    flow = ControlFlow(whole[: 4 * 16 + 7], 90)  # without the branch back
    assert all(flow.loop_around(index) is None for index in range(len(flow.words)))
