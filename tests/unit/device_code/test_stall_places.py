"""Stalls that are sampled behind the instruction they belong to."""

from __future__ import annotations

import pytest

from warpsight.device_code.stall_places import place_of


@pytest.mark.parametrize(
    ("reason", "operations", "sampled", "expected"),
    [
        ("long_scoreboard", ("LDG", "FADD"), 1, 1),
        ("drain", ("STG", "EXIT", "BRA"), 2, 1),
        ("drain", ("STG", "FADD"), 1, 1),
        ("branch_resolving", ("BRA", "FADD"), 1, 0),
        ("branch_resolving", ("FADD", "FADD"), 1, 1),
        ("barrier", ("BAR", "ISETP", "BRA"), 2, 0),
        ("barrier", ("BAR", "FADD"), 0, 0),
        ("barrier", ("BAR", "BRA", "FADD"), 2, 2),  # a branch is between: it may have come from elsewhere
        ("barrier", ("BAR", *["FADD"] * 8), 8, 0),
        ("barrier", ("BAR", *["FADD"] * 9), 9, 9),
        ("barrier", ("FADD",), 0, 0),
    ],
)
def test_a_stall_stands_at_the_instruction_that_waits(
    reason: str, operations: tuple[str, ...], sampled: int, expected: int
) -> None:
    def operation_at(offset: int) -> str:
        return operations[offset // 16] if 0 <= offset // 16 < len(operations) else ""

    assert place_of(reason, sampled * 16, operation_at) == expected * 16
