"""Strings of an ELF file end with their section, whatever follows it."""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.device_code.elf import _SECTION, HEADER_SIZE, Elf

STRINGS = b"\0first\0last"
AFTER = b"of another section\0"


def image() -> np.ndarray:
    """A file with one string table without a final zero, other bytes behind it, and the section headers."""
    table = np.zeros(2, _SECTION)
    table["type"][1], table["offset"][1], table["size"][1] = 3, HEADER_SIZE, len(STRINGS)
    body = STRINGS + AFTER
    header = bytearray(HEADER_SIZE)
    header[:6] = b"\x7fELF\x02\x01"
    header[40:48] = (HEADER_SIZE + len(body)).to_bytes(8, "little")
    header[58:60], header[60:62] = _SECTION.itemsize.to_bytes(2, "little"), (2).to_bytes(2, "little")
    return np.frombuffer(bytes(header) + body + table.tobytes(), np.uint8)


@pytest.mark.parametrize(
    ("offset", "text"), [(0, ""), (1, "first"), (4, "st"), (7, ""), (len(STRINGS), ""), (1000, "")]
)
def test_a_string_without_an_end_in_its_section_is_empty(offset: int, text: str) -> None:
    assert Elf(image(), "t.cubin").text_at(1, offset) == text
    assert Elf(image(), "t.cubin").text_at(0, offset) == Elf(image(), "t.cubin").text_at(9, offset) == ""
