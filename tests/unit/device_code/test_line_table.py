"""Line programs: rows encoded in any of the ways that DWARF allows come back as they were, of any unit and sequence."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.device_code.debug_info import line_table
from warpsight.device_code.debug_info.line_table import LineRow, sequence_at, sequences

#: Address (in units of the shortest instruction), line, column and file of a row.
ROWS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 400), st.integers(0, 200), st.integers(1, 3)),
    min_size=1,
    max_size=5,
)


@dataclass(frozen=True)
class Header:
    """What a unit says about its opcodes."""

    version: int
    shortest: int
    line_base: int
    line_range: int
    opcode_base: int


HEADERS = st.builds(
    Header,
    version=st.sampled_from((2, 3, 4)),
    shortest=st.sampled_from((1, 16)),
    line_base=st.sampled_from((-5, -1, 0, 1, 127)),
    line_range=st.sampled_from((4, 14)),
    opcode_base=st.sampled_from((10, 13)),
)


def unsigned(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def signed(value: int) -> bytes:
    out = b""
    while not -64 <= value < 64:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value & 127])


def program(header: Header, base: int, rows: list[tuple[int, int, int, int]], choice: st.DataObject) -> bytes:
    """One sequence that begins at `base` and ends one instruction after its last row."""
    out = b"\0\x09\2" + base.to_bytes(8, "little")
    address, line, column, file = 0, 1, 0, 1
    constant = (255 - header.opcode_base) // header.line_range
    for at, *rest in sorted(rows, key=lambda row: row[0]):
        wanted, wanted_column, wanted_file = rest
        if wanted_column != column:
            out, column = out + b"\5" + unsigned(wanted_column), wanted_column
        if wanted_file != file:
            out, file = out + b"\4" + unsigned(wanted_file), wanted_file
        out += choice.draw(st.sampled_from((b"", b"\6", b"\7")))  # is_stmt and basic block: of no use here
        if at - address >= constant and choice.draw(st.booleans()):
            out, address = out + b"\x08", address + constant
        step, lines = at - address, wanted - line
        special = lines - header.line_base + header.line_range * step + header.opcode_base
        if (
            0 <= lines - header.line_base < header.line_range
            and special <= 255
            and choice.draw(st.booleans())
        ):
            out += bytes([special])
        else:
            if step and choice.draw(st.booleans()):
                out += b"\2" + unsigned(step)
            elif step:
                out += b"\x09" + (step * header.shortest).to_bytes(2, "little")
            out += (b"\3" + signed(lines) if lines else b"") + b"\1"
        address, line = at, wanted
    return out + b"\2\1" + b"\0\1\1"


def unit(header: Header, programs: list[bytes], before: bytes = b"", folder: int = 2) -> bytes:
    """A unit with two folders and three files; `before` is between the tables and the programs."""
    lengths = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])[: header.opcode_base - 1]
    files = b"a.cu\0\1\0\0" + b"b.cu\0" + bytes([folder]) + b"\x80\1\5" + b"/c.cu\0\1\0\0"
    operations = b"\1" if header.version >= 4 else b""
    numbers = bytes([1, header.line_base & 255, header.line_range, header.opcode_base])
    tables = b"/one\0two\0\0" + files + b"\0" + before
    body = bytes([header.shortest]) + operations + numbers + lengths + tables
    rest = len(body).to_bytes(4, "little") + body + b"".join(programs)
    return (2 + len(rest)).to_bytes(4, "little") + header.version.to_bytes(2, "little") + rest


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(HEADERS, st.lists(ROWS, min_size=1, max_size=2)), min_size=1, max_size=2), st.data()
)
def test_rows_come_back_as_they_were(units: list[tuple[Header, list]], data: st.DataObject) -> None:
    table, expected, base = b"", [], 0
    for header, wanted in units:
        programs = []
        for rows in wanted:
            base += 0x1_0000
            programs.append(program(header, base, rows, data))
            kept = sorted(rows, key=lambda row: row[0])
            found = tuple(LineRow(row[0] * header.shortest, row[3], row[1], row[2], 0, -1) for row in kept)
            expected.append((base, found, (kept[-1][0] + 1) * header.shortest))
        table += unit(header, programs)
    problems: list[str] = []
    found = list(sequences(table, problems))
    assert problems == []
    assert [(one.base, one.rows, one.end) for one in found] == expected
    for one in found:
        assert [one.file(number).path for number in range(-1, 5)] == [
            "",
            "",
            "/one/a.cu",
            "two/b.cu",
            "/c.cu",
            "",
        ]
        assert table[one.operand : one.operand + 8] == one.base.to_bytes(8, "little")
        assert sequence_at(table, one.operand, problems) == one
    assert problems == []


def test_an_address_set_again_is_relative_to_the_first() -> None:
    header = Header(2, 1, -5, 14, 10)
    again = b"\0\x09\2" + (0x1_0040).to_bytes(8, "little")
    first = b"\0\x09\2" + (0x1_0000).to_bytes(8, "little")
    (found,) = sequences(unit(header, [first + b"\1" + again + b"\3\2\1" + b"\2\x10" + b"\0\1\1"]), [])
    assert [(row.address, row.line) for row in found.rows] == [(0, 1), (0x40, 3)]
    assert (found.base, found.end) == (0x1_0000, 0x50)


def test_an_operand_of_a_unit_that_is_cut_off_has_no_rows() -> None:
    header = Header(2, 1, -5, 14, 10)
    table = unit(header, [b"\0\x09\2" + (0x1_0000).to_bytes(8, "little") + b"\1\2\x10\0\1\1"])
    (found,) = sequences(table, [])
    problems: list[str] = []
    assert sequence_at(table[:-1], found.operand, problems) is None
    assert problems == [f".debug_line: no rows begin at {found.operand}"]


@pytest.mark.parametrize(
    ("folder", "path"), [(0, "b.cu"), (1, "/one/b.cu"), (2, "two/b.cu"), (3, "b.cu"), (4, "b.cu")]
)
def test_a_file_in_an_unknown_folder_has_its_name_alone(folder: int, path: str) -> None:
    (found,) = sequences(unit(Header(2, 1, -5, 14, 10), [b"\1\0\1\1"], folder=folder), [])
    assert found.file(2).path == path


@pytest.mark.parametrize(("before", "name"), [(b"\x10\0\0\0", 0x17), (b"\x10\0\0\0\0", 7), (b"\x10\0\0", 7)])
def test_names_begin_at_the_base_if_the_header_has_room_for_it(before: bytes, name: int) -> None:
    (found,) = sequences(unit(Header(2, 1, -5, 14, 10), [b"\0\2\x91\7\1\0\1\1"], before), [])
    assert [row.function for row in found.rows] == [name]


@pytest.mark.parametrize(("most", "whole"), [(6, True), (5, False)])
def test_rows_of_all_sequences_are_bounded(monkeypatch: pytest.MonkeyPatch, most: int, whole: bool) -> None:
    monkeypatch.setattr(line_table, "MAXIMUM_ROWS", most)
    problems: list[str] = []
    found = list(sequences(unit(Header(2, 1, -5, 14, 10), [b"\1\1\1\0\1\1"] * 2), problems))
    assert (len(found) == 2) == whole == (problems == [])


@pytest.mark.parametrize(("base", "line"), [(127, 128), (0, 1), (-5, -4), (-128, -127)])
def test_the_base_of_lines_is_a_signed_byte(base: int, line: int) -> None:
    (found,) = sequences(unit(Header(2, 1, base, 14, 10), [b"\x0a\0\1\1"]), [])
    assert [row.line for row in found.rows] == [line]
