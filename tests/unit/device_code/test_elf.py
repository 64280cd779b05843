"""Sections, symbols and relocations of an ELF file, byte by byte, and what is read of damaged ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from warpsight.device_code.elf import _REL, _RELA, _SECTION, _SYMBOL, HEADER_SIZE, Elf, ElfError

LONG, LONGER = "n" * 300, "m" * 70_000


@dataclass
class Image:
    """A file under construction; section 0 is empty and section 1 has the names."""

    sections: list[tuple[str, int, bytes, dict[str, int]]] = field(default_factory=list)

    def add(self, name: str, content: bytes, kind: int = 1, **header: int) -> int:
        """Add a section; returns its index."""
        self.sections.append((name, kind, content, header))
        return len(self.sections) + 1

    def made(self, *, extended: bool = False, names: int = 1, count: int | None = None) -> bytes:
        """The file. `extended`: section 0 has the number of sections and the index of the one with the names."""
        texts = b"\0" + b"".join(
            name.encode() + b"\0" for name in (".shstrtab", *(one[0] for one in self.sections))
        )
        listed = [("", 0, b"", {}), (".shstrtab", 3, texts, {}), *self.sections]
        table, body, at = np.zeros(len(listed), _SECTION), b"", 1
        for row, (name, kind, content, header) in zip(table, listed, strict=True):
            row["type"], row["offset"], row["size"] = kind, HEADER_SIZE + len(body), len(content)
            row["name"] = at if name else 0
            at += len(name) + 1 if name else 0
            for key, value in header.items():
                row[key] = value
            body += content
        number = len(listed) if count is None else count
        if extended:
            table["size"][0], table["link"][0] = number, names
            number, names = 0, 0xFFFF
        header = bytearray(HEADER_SIZE)
        header[:8] = b"\x7fELF\x02\x01\x01\x41"
        header[16:20] = (2).to_bytes(2, "little") + (190).to_bytes(2, "little")
        header[40:48] = (HEADER_SIZE + len(body)).to_bytes(8, "little")
        header[48:52] = (0x5A).to_bytes(4, "little")
        for place, value in ((52, HEADER_SIZE), (58, _SECTION.itemsize), (60, number), (62, names)):
            header[place : place + 2] = value.to_bytes(2, "little")
        return bytes(header) + body + table.tobytes()


def image() -> Image:
    """Code twice under one name, two symbols with names of their own, and relocations with and without addends."""
    made = Image()
    made.add(".text", b"code")
    made.add(".text", b"again")
    strings = made.add(".strtab", f"\0first\0{LONG}\0{LONGER}\0".encode(), 3)
    symbols = np.zeros(3, _SYMBOL)
    symbols["name"], symbols["value"] = [0, 1, 7], [0, 16, 32]
    made.add(".symtab", symbols.tobytes(), 2, link=strings, info=1)
    made.add(".bss", b"not in the file", 8)
    made.add(".rela.text", np.array([(8, 2, 1, -4), (24, 2, 2, 7)], _RELA).tobytes())
    made.add(".rel.text", np.array([(40, 3, 1)], _REL).tobytes())
    return made


@pytest.mark.parametrize("extended", [False, True])
def test_sections_symbols_and_relocations(extended: bool) -> None:
    elf = Elf(image().made(extended=extended), "t.cubin")
    assert (elf.osabi, elf.type, elf.machine, elf.flags, elf.problems) == (0x41, 2, 190, 0x5A, [])
    assert [elf.section_name(i) for i in range(len(elf.sections))] == [
        "", ".shstrtab", ".text", ".text", ".strtab", ".symtab", ".bss", ".rela.text", ".rel.text",
    ]  # fmt: skip
    assert elf.bytes_of(".text") == b"code" and elf.contents(3).tobytes() == b"again"
    assert elf.bytes_of(".bss") == elf.bytes_of(".none") == b""
    assert [len(elf.contents(index)) for index in (-1, 0, len(elf.sections))] == [0, 0, 0]
    assert [elf.symbol_name(i) for i in (-1, 0, 1, 2, 3)] == ["", "", "first", LONG, ""]
    assert elf.symbols["value"].tolist() == [0, 16, 32]
    assert elf.text_at(4, 8 + len(LONG)) == LONGER
    found = elf.relocations(".text")
    assert found.tolist() == [(8, 2, 1, -4), (24, 2, 2, 7), (40, 3, 1, 0)]
    assert len(elf.relocations(".data")) == 0 and elf.problems == []


def test_names_of_sections_that_are_not_there_are_empty() -> None:
    """An index beyond the table, and one that only an extended file would have."""
    for made in (image().made(names=9), image().made(names=0xFFFF), image().made(extended=True, names=9)):
        elf = Elf(made, "t.cubin")
        assert {elf.section_name(i) for i in range(len(elf.sections))} == {""}
        assert elf.bytes_of(".text") == b""


def test_a_name_of_an_extended_file_is_not_looked_for_in_another() -> None:
    """Section 0 of an ordinary file may hold anything."""
    data = bytearray(image().made())
    first = int.from_bytes(data[40:48], "little")
    data[first + 32 : first + 40] = (3).to_bytes(8, "little")
    data[first + 40 : first + 44] = (4).to_bytes(4, "little")
    elf = Elf(bytes(data), "t.cubin")
    assert len(elf.sections) == 9 and elf.bytes_of(".text") == b"code"


def test_an_extended_index_counts_beside_an_ordinary_number() -> None:
    data = bytearray(image().made(names=0xFFFF))
    first = int.from_bytes(data[40:48], "little")
    data[first + 40 : first + 44] = (1).to_bytes(4, "little")
    assert Elf(bytes(data), "t.cubin").bytes_of(".text") == b"code"


def test_what_is_cut_off_is_named_once_and_the_rest_is_read() -> None:
    whole = image().made()
    elf = Elf(whole[: -_SECTION.itemsize - 1], "t.cubin")
    assert elf.problems == ["only 7 of 9 section headers are in the file: it is truncated"]
    assert elf.bytes_of(".text") == b"code" and len(elf.relocations(".text")) == 0
    late = image()
    late.add(".cut", b"all", offset=len(whole) - 2, size=400)
    late.add(".gone", b"", offset=1 << 40, size=3)
    late.add(".end", b"", offset=len(late.made()), size=0)
    elf = Elf(late.made(), "t.cubin")
    there = len(late.made()) - len(whole) + 2
    for _ in range(2):
        assert len(elf.bytes_of(".cut")) == min(there, 400)
        assert elf.bytes_of(".gone") == elf.bytes_of(".end") == b""
    assert elf.problems == [
        *([f"section 9 (.cut) has {there:,} of its 400 bytes"] if there < 400 else []),
        "section 10 (.gone) has 0 of its 3 bytes",
    ]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ({58: 63}, "section headers of 63 bytes are unknown"),
        ({43: 1}, "the file ends at byte"),
    ],
)
def test_a_file_without_a_table_of_sections_has_none(damage: dict[int, int], problem: str) -> None:
    data = bytearray(image().made())
    for place, value in damage.items():
        data[place] = value
    elf = Elf(bytes(data), "t.cubin")
    assert len(elf.sections) == len(elf.symbols) == 0 and elf.problems[0].startswith(problem)


@pytest.mark.parametrize(("place", "value"), [(0, 0), (3, 0), (4, 1), (5, 2)])
def test_other_files_are_refused(place: int, value: int) -> None:
    data = bytearray(image().made())
    data[place] = value
    with pytest.raises(ElfError):
        Elf(bytes(data), "t.cubin")
    with pytest.raises(ElfError):
        Elf(image().made()[: HEADER_SIZE - 1], "t.cubin")
