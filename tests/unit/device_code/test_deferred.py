"""Barriers that let a warp go on with arithmetic: which are found behind an instruction."""

from __future__ import annotations

import pytest

from warpsight.device_code.deferred import deferred_barrier
from warpsight.device_code.flow.control_flow import ControlFlow

ALWAYS = 7 << 12
BARRIER = 0xB1D | ALWAYS, 0
ARRIVAL = 0xB1D | ALWAYS, 1 << 13
ADD = 0x210 | ALWAYS | 5 << 16, 0x7F << 17  # IADD3 R5, …; no predicates
COMPARE = 0x20C | ALWAYS, 2 << 17 | 7 << 20  # ISETP P2, PT, …
LOAD, STORE = (0x381 | ALWAYS, 0), (0x386 | ALWAYS, 0)


def branch(here: int, target: int) -> tuple[int, int]:
    """A branch as sm_80 has it."""
    distance = ((target - here - 1) * 4) & ((1 << 48) - 1)
    return 0x947 | ALWAYS | (distance & ((1 << 30) - 1)) << 34, distance >> 30 | 7 << 23


def flow(*code: tuple[int, int]) -> ControlFlow:
    return ControlFlow(b"".join(word.to_bytes(8, "little") for pair in code for word in pair), 80)


def test_arithmetic_may_stand_between_and_what_it_writes_is_no_longer_known() -> None:
    found = deferred_barrier(flow(BARRIER, ADD, COMPARE, STORE), 3)
    assert found is not None and found.index == 0
    assert 5 in found.registers and 6 not in found.registers
    assert 2 in found.predicates and 0 not in found.predicates


@pytest.mark.parametrize(
    ("code", "at"),
    [
        ([LOAD, ADD, STORE], 2),  # no barrier
        ([BARRIER, STORE], 1),  # right in front: known without this
        ([BARRIER, LOAD, ADD, STORE], 3),  # held in front of the load
        ([BARRIER, ADD, ADD], 2),  # arithmetic goes on
        ([ARRIVAL, ADD, STORE], 2),  # an arrival holds nobody
        ([BARRIER, ADD, STORE, branch(3, 2)], 2),  # a loop around the store
        ([branch(0, 2), BARRIER, ADD, STORE], 3),  # a way around the barrier
    ],
)
def test_what_else_is_in_front_of_an_instruction_holds_nobody(code: list[tuple[int, int]], at: int) -> None:
    assert deferred_barrier(flow(*code), at) is None
