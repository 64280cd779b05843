"""Sizes and members of collectives, from the arguments that PyTorch writes."""

from __future__ import annotations

import pytest

from warpsight.formats.kineto import device_rows

#: PyTorch's names of element types by their size in bytes.
SIZES = {
    1: (b"Char", b"Byte", b"Bool", b"Float8_e5m2", b"Float8_e4m3fnuz", b"Float8_e5m2fnuz"), 2: (b"Half", b"Short"),
    4: (b"Int",), 8: (b"Long", b"ComplexFloat"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "inward", "outward", "expected"),
    [
        (b'"Float"', b"10", b"40", 160),
        (b'"BFloat16"', b"40", b"10", 80),
        (b'"Double"', b"3", None, 24),
        (b'"Float8_e4m3fn"', None, b"3", 3),
        (b'"ComplexDouble"', b"2", b"2", 32),
        *((b'"%s"' % name, b"1", b"1", size) for size, names in SIZES.items() for name in names),
        (b'"Float"', b"0", b"0", None),
        (b'"Unknown"', b"10", b"10", None),
        (None, b"10", b"10", None),
    ],
)
def test_a_collective_moves_the_larger_of_its_two_messages(
    dtype: bytes | None, inward: bytes | None, outward: bytes | None, expected: int | None
) -> None:
    assert device_rows._bytes(dtype, inward, outward) == expected


@pytest.mark.parametrize(
    ("listed", "size", "first", "stride", "expected"),
    [
        (b'"[0, 2, 4]"', b"3", b"9", b"9", "[0, 2, 4]"),
        (b'"[0, 1, ..., 7]"', b"3", b"2", b"4", "[2, 6, 10]"),
        (None, b"2", b"0", b"1", "[0, 1]"),
        (None, b"1", b"5", b"8", "[5]"),
        (None, b"2", b"-1", b"1", None),
        (None, b"2", b"0", b"0", None),
        (None, b"0", b"0", b"1", None),
        (None, b"2", None, b"1", None),
        (b'"[]"', None, None, None, None),
    ],
)
def test_members_are_listed_or_counted_from_the_first(
    listed: bytes | None, size: bytes | None, first: bytes | None, stride: bytes | None, expected: str | None
) -> None:
    assert device_rows._members(listed, size, first, stride) == expected
