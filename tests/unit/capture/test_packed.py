"""Structs are described in text: sizes, arrays, and that every field is where its size wants it."""

from __future__ import annotations

import pytest

from warpsight.capture.segments.packed import TYPES, Struct, dtype, fields


def test_fields_have_name_type_count_and_meaning() -> None:
    found = fields(
        "u8 start start of it\ni4[3] grid blocks, by axis\nu4 kind 1 one, 2 other\nu1[8] text padded"
    )
    assert [(f.name, f.type, f.count, f.meaning) for f in found] == [
        ("start", "u8", 1, "start of it"), ("grid", "i4", 3, "blocks, by axis"), ("kind", "u4", 1, "1 one, 2 other"),
        ("text", "u1", 8, "padded"),
    ]  # fmt: skip
    struct = Struct("One", found)
    assert struct.size == 8 + 12 + 4 + 8
    made = dtype(struct)
    assert made.itemsize == struct.size
    assert [made.fields[name][1] for name in made.names] == [0, 8, 20, 24]
    assert made["grid"].shape == (3,)
    assert made["start"].str == "<u8"


@pytest.mark.parametrize("kind", [name for name, size in TYPES.items() if size > 1])
def test_a_field_lies_at_a_multiple_of_its_size(kind: str) -> None:
    with pytest.raises(ValueError, match=f"b is at offset 1, not aligned to {TYPES[kind]}"):
        fields(f"u1 a one\n{kind} b two")


def test_a_struct_fills_whole_words() -> None:
    with pytest.raises(ValueError, match="struct ending with b has 12 bytes, not a multiple of 8"):
        fields("u8 a one\nu4 b two")
