"""Line tables and PTX: the extension's encoding byte by byte, damage, and what refinement may and may not change."""

from __future__ import annotations

import lzma
import random
import re
import subprocess
from pathlib import Path

import pytest

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.debug_info import ptx
from warpsight.device_code.debug_info.dwarf_info import inlined_calls
from warpsight.device_code.debug_info.inline_chain import find_source, source_line
from warpsight.device_code.debug_info.line_table import LineRow, LineSequence, sequence_at, sequences
from warpsight.device_code.disassembly import Instruction, disassemble, find_tool, parse
from warpsight.device_code.elf import Elf, ElfError
from warpsight.device_code.operations import operation

CUBINS = Path(__file__).resolve().parents[2] / "golden/cubins"


def cubin_bytes(name: str) -> bytes:
    return lzma.decompress((CUBINS / f"{name}.cubin.xz").read_bytes())


def unit(program: bytes, names_base: int | None = 5) -> bytes:
    """One unit of a line table: a folder, a file, the extension's base, and a program."""
    tables = b"/src\0\0" + b"kernel.cu\0\1\0\0" + b"\0"
    base = b"" if names_base is None else names_base.to_bytes(4, "little")
    header = bytes([1, 1, 0xFB, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1])
    body = len(header + tables + base).to_bytes(4, "little") + header + tables + base + program
    return (2 + len(body)).to_bytes(4, "little") + b"\2\0" + body


START = b"\0\x09\2" + (0x7F0000).to_bytes(8, "little")
#: Line 3; then a call site on line 6 and, at the same address, line 1 inlined into row 2 as the name at 7.
INLINED = (
    START
    + b"\3\2\1"
    + b"\2\x10\3\3\1"
    + b"\0\3\x90\2\7\3\x7b\1"
    + b"\2\x10\0\3\x90\0\0\3\5\1"
    + b"\2\x10\0\1\1"
)


def test_contexts_count_rows_from_one_within_the_sequence() -> None:
    for table, found in ((unit(INLINED), 1), (unit(INLINED + INLINED), 2)):
        problems: list[str] = []
        all_of_them = list(sequences(table, problems))
        assert len(all_of_them) == found and problems == []
        for sequence in all_of_them:
            assert sequence.rows == (
                LineRow(0, 1, 3, 0, 0, -1), LineRow(16, 1, 6, 0, 0, -1), LineRow(16, 1, 1, 0, 2, 12), LineRow(32, 1, 6, 0, 0, -1),
            )  # fmt: skip
            assert [row.line for row in sequence.chain(2)] == [1, 6]
            assert sequence.files[1].path == "/src/kernel.cu"
            assert (sequence.base, sequence.end) == (0x7F0000, 48)


def test_a_sequence_is_found_by_its_operand_without_decoding_those_before() -> None:
    table = unit(INLINED + INLINED)
    problems: list[str] = []
    second = list(sequences(table, problems))[1]
    assert sequence_at(table, second.operand, problems) == second
    assert problems == []
    assert sequence_at(table, second.operand + 1, problems) is None and "no rows begin" in problems[0]


def test_a_table_without_the_extension_has_no_base_of_names() -> None:
    (sequence,) = sequences(unit(START + b"\3\2\1\2\x10\0\1\1", None), [])
    assert [row.line for row in sequence.rows] == [3]


def test_call_sites_in_a_circle_end() -> None:
    rows = (LineRow(0, 1, 1, 0, 2, 0), LineRow(0, 1, 2, 0, 1, 0), LineRow(0, 1, 3, 0, 99, 0))
    sequence = LineSequence(rows, 0, 0, 16, ())
    assert len(sequence.chain(0)) < 1000
    assert sequence.chain(2) == (rows[2],)


@pytest.mark.parametrize("name", ["cub_deep.sm_90", "spin_flag.debug.sm_90", "three_lines.sm_80"])
def test_damaged_code_gives_chains_or_none_but_never_a_traceback(name: str) -> None:
    data, rng = cubin_bytes(name), random.Random(7)
    for _ in range(60):
        bad = bytearray(data)
        for _ in range(rng.choice([1, 10, 200])):
            bad[rng.randrange(64, len(bad))] = rng.randrange(256)
        try:
            cubin = Cubin(bytes(bad), "damaged")
        except ElfError:
            continue
        for section in list(cubin.sections)[:3]:
            for offset in (0, 0x50, 0x100):
                cubin.chain(section, offset)


def test_every_cut_of_a_line_table_ends_with_a_word_about_it() -> None:
    table = Elf(cubin_bytes("three_lines.sm_90"), "x").bytes_of(".debug_line")
    for length in range(10, len(table)):
        problems: list[str] = []
        list(sequences(table[:length], problems))
        assert problems


def test_cut_debug_information_ends_with_a_word_about_it() -> None:
    elf = Elf(cubin_bytes("spin_flag.debug.sm_90"), "x")
    info, abbreviations = elf.bytes_of(".debug_info"), elf.bytes_of(".debug_abbrev")
    whole: list[str] = []
    calls = inlined_calls(info, abbreviations, b"", whole)
    assert whole == [] and {call.line for call in calls} == {9, 14}
    for length in range(64, len(info), 97):
        problems: list[str] = []
        inlined_calls(info[:length], abbreviations, b"", problems)
        assert problems


def test_only_lines_with_instructions_make_stretches() -> None:
    lines = [
        ".version 9.0",
        "",
        ".entry f(",
        "{",
        ".reg .b32 %r<3>;",
        "",
        "mov.u32 %r1, 1;",
        "add.s32 %r2, %r1, 1;",
    ]
    lines += ["", "L:", "bra L;", "", "{ .reg .pred p; setp p; }"]
    text = "\0".join(lines).encode()
    assert ptx.stretches(text) == [0, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 4, 0, 5]


def test_a_stretch_whose_anchors_disagree_changes_nothing() -> None:
    rows = (LineRow(0, 1, 6, 0, 0, -1), LineRow(16, 1, 7, 0, 0, -1), LineRow(32, 1, 8, 0, 0, -1))
    lines = LineSequence(rows, 0, 0, 80, ())
    ptx_rows = tuple(LineRow(16 * i, 0, line, 0, 0, -1) for i, line in enumerate([1, 1, 3, 1, 3]))
    refined = dict(ptx.refine(lines, LineSequence(ptx_rows, 0, 0, 80, ()), [0, 1, 0, 2]))
    assert refined == {
        0: 0,
        16: 1,
        32: 2,
        48: 2,
        64: 2,
    }  # lines 6 and 7 both claim stretch 1: 48 keeps its row
    rows = (*rows[:1], LineRow(16, 1, 6, 0, 0, -1), rows[2])
    refined = dict(
        ptx.refine(LineSequence(rows, 0, 0, 80, ()), LineSequence(ptx_rows, 0, 0, 80, ()), [0, 1, 0, 2])
    )
    assert rows[refined[48]].line == 6  # they agree now


def test_what_comes_before_the_first_row_of_the_ptx_belongs_to_no_stretch() -> None:
    lines = LineSequence((LineRow(0, 1, 6, 0, 0, -1), LineRow(32, 1, 8, 0, 0, -1)), 0, 0, 64, ())
    rows = tuple(LineRow(at, 0, line, 0, 0, -1) for at, line in ((16, 3), (32, 3), (48, 1)))
    refined = ptx.refine(lines, LineSequence(rows, 0, 0, 64, ()), [0, 1, 0, 2])
    assert refined == [(0, 0), (16, 1), (32, 1), (48, 1)]


def test_sources_are_found_elsewhere_by_the_end_of_their_path(tmp_path: Path) -> None:
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "kernel.cu").write_text("first\n  second\n")
    (tmp_path / "kernel.cu").write_text("another\n")
    folders = (str(tmp_path),)
    assert source_line("/build/project/csrc/kernel.cu", 2, folders) == "second"
    assert source_line("/build/project/csrc/kernel.cu", 3, folders) is None
    assert find_source("/build/other/kernel.cu", folders) == str(tmp_path / "kernel.cu")
    assert find_source("/build/../../etc/passwd", folders) is None
    assert source_line("/build/missing.cu", 1, folders) is None


@pytest.mark.parametrize(
    "name", [".ssh/id_rsa", "credentials", "secret.json", "notes.txt", "include.d/key", "x.pem"]
)
def test_a_line_table_cannot_name_files_that_are_no_source(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("private\n")
    assert source_line(str(path), 1) is None
    assert source_line(f"/build/{name}", 1, (str(tmp_path),)) is None


def test_headers_without_a_suffix_are_source(tmp_path: Path) -> None:
    (tmp_path / "include" / "cuda" / "std").mkdir(parents=True)
    (tmp_path / "include" / "cuda" / "std" / "atomic").write_text("first\n")
    assert source_line(str(tmp_path / "include/cuda/std/atomic"), 1) == "first"


def test_nvdisasms_lines_are_read_with_their_addresses() -> None:
    head = '\t.headerflags\t@"EF_CUDA_SM90"\n'
    text = head + "        /*7f00*/              @!P0 BRA 0x7f10 ;\n.L_x_1:\n        /*7f10*/   EXIT ;\n"
    found = parse(text)
    assert found == [Instruction(0x7F00, "@!P0 BRA 0x7f10"), Instruction(0x7F10, "EXIT")]
    assert [instruction.operation for instruction in found] == ["BRA", "EXIT"]


#: Codes in compiled files that the table leaves out.
UNNAMED = {
    0x026, 0x028, 0x034, 0x040, 0x046, 0x048, 0x04C, 0x0CB, 0x0CC, 0x102, 0x107, 0x113, 0x149, 0x152, 0x153, 0x1C2, 0x1EA,
}  # fmt: skip
#: One code, two names: arithmetic of sm_80 and of sm_120, a reduction up to sm_80 and from sm_90.
OTHER_NAMES = {("HFMA2", "IADD"), ("REDG", "RED")}


def test_names_of_operations_are_nvdisasms() -> None:
    """One instruction of every code that occurs in any of the compiled files, by architecture."""
    if find_tool("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    words: dict[int, dict[int, bytes]] = {}
    for path in sorted(CUBINS.glob("*.cubin.xz")):
        cubin = Cubin(lzma.decompress(path.read_bytes()), path.name)
        for section in cubin.sections:
            code = cubin.instructions(section)
            for at in range(0, len(code), 16):
                number = int.from_bytes(code[at : at + 2], "little") & 0xFFF
                words.setdefault(cubin.architecture, {})[number] = code[at : at + 16]
    assert set(words) == {80, 90, 100, 120}
    unnamed = set()
    for architecture, chosen in words.items():
        listing = disassemble(b"".join(chosen.values()), 0, architecture)
        for (number, word), instruction in zip(chosen.items(), listing, strict=True):
            theirs = instruction.operation.split(".")[0].rstrip(";")
            ours = operation(word)
            if ours is None:
                unnamed.add(number & 0x1FF)
            elif (ours, theirs) not in OTHER_NAMES:
                assert ours == theirs, (architecture, instruction.text)
    assert unnamed == UNNAMED


def test_code_of_one_byte_has_no_operation() -> None:
    assert operation(b"") is operation(b"\x81") is None
    assert operation(b"\x81\x79") == "LDG"


def test_without_nvdisasm_there_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsight.device_code import disassembly

    monkeypatch.setattr(disassembly, "find_tool", lambda name: None)
    assert disassemble(b"\0" * 16, 0, 90) == []


def test_the_whole_cubins_functions_are_nvdisasms(tmp_path: Path) -> None:
    tool = find_tool("nvdisasm")
    if tool is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    path = tmp_path / "code.cubin"
    path.write_bytes(cubin_bytes("cub_deep.sm_90"))
    text = subprocess.run([tool, "-ndf", "-c", path], capture_output=True, text=True, check=True).stdout
    theirs = set(re.findall(r"\.section\s+\.text\.(\S+?),", text))
    assert set(Cubin.open(path).sections.values()) == theirs


def test_names_cannot_reach_the_terminals_controls() -> None:
    data = bytearray(cubin_bytes("three_lines.sm_90"))
    name = b"_Z11three_linesPfPKf"
    at = data.index(b".text." + name) + 6
    data[at : at + 4] = b"\x1b[2J"
    cubin = Cubin(bytes(data), "hostile")
    assert all(section.isprintable() for section in cubin.sections.values())
    assert any("[2J" in section for section in cubin.sections.values())
