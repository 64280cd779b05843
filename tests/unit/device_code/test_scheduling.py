"""Scheduling fields of instructions whose encoding is known."""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.device_code.scheduling import scheduling


@pytest.mark.parametrize(
    ("high", "printed"),
    [
        (0x000EA2000C1E1900, "B------:R-:W2:-:S01"),  # LDG.E R2, [R2.64]
        (0x0001E8000C101904, "B------:R0:W-:-:S04"),  # STG.E [R2.64], R9
        (0x000E240000000A00, "B------:R-:W0:-:S02"),  # LDS.64 R6, [R3+0x400]
        (0x000FE200078E0000, "B------:R-:W-:-:S01"),
    ],
)
def test_fields_are_those_that_other_tools_print(high: int, printed: str) -> None:
    (found,) = scheduling(np.array([[0, high]], np.uint64))
    assert str(found) == printed


def test_every_field_is_read_from_its_own_bits() -> None:
    high = 11 << 41 | 1 << 45 | 3 << 46 | 5 << 49 | 0b100010 << 52 | 0b1001 << 58
    (found,) = scheduling(np.array([[0, high]], np.uint64))
    assert (found.stall, found.yields, found.write_barrier, found.read_barrier) == (11, False, 3, 5)
    assert (found.waits, found.reuse, found.sets) == (0b100010, 0b1001, 0b101000)
