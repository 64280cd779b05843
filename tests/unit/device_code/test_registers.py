"""Sets of registers as bits: each register has one of its own, in its file."""

from __future__ import annotations

import pytest

from warpsight.device_code import registers

SIZES = {"R": 255, "UR": 255, "P": 7, "UP": 7, "B": 16}


def test_every_register_has_a_bit_of_its_own_with_its_name() -> None:
    seen = 0
    for file, size in SIZES.items():
        for number in range(size):
            one = registers.register(file, number)
            assert one and not one & (one - 1) and not one & seen
            assert registers.names(one) == [f"{file}{number}"]
            seen |= one
        assert registers.register(file, size) == 0  # RZ, PT and what no file has
        assert registers.names(registers.whole(file)) == [f"{file}{number}" for number in range(size)]
    for bit in (255, 263, 271, 527, 551, 576):
        with pytest.raises(ValueError, match=f"bit {bit}"):
            registers.name(bit)


@pytest.mark.parametrize(
    ("number", "count", "names"),
    [
        (4, 2, ["R4", "R5"]),
        (252, 4, ["R252", "R253", "R254"]),
        (254, 2, ["R254"]),
        (255, 2, []),
        (7, 0, []),
    ],
)
def test_consecutive_registers_end_with_their_file(number: int, count: int, names: list[str]) -> None:
    assert registers.names(registers.register("R", number, count)) == names


def test_a_set_is_taken_apart_by_file() -> None:
    both = registers.register("R", 0, 2) | registers.register("UR", 254) | registers.register("P", 6)
    assert registers.names(registers.only(both, "UR")) == ["UR254"]
    assert registers.names(registers.only(both, "R")) == ["R0", "R1"]
    assert list(registers.bits(both)) == [0, 1, 262, 526]
