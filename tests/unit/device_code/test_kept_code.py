"""Instructions of the code that a trace keeps: their chains, those of the compiler's own functions, and what is not there."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.device_code.kept_code import UNKNOWN, KeptCode, frame_text

CUBINS = Path(__file__).parents[2] / "golden" / "cubins"
WITH_LINES, PLAIN, DAMAGED, ABSENT = 7, 8, 9, 10
DIVISION, ROOT = "__cuda_sm3x_div_rn_noftz_f32_slowpath", "__cuda_sm20_sqrt_rn_f32_slowpath"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cubins")
    for number, name in ((WITH_LINES, "stalls.sm_90"), (PLAIN, "kinds.plain.sm_90")):
        content = lzma.decompress((CUBINS / f"{name}.cubin.xz").read_bytes())
        (folder / f"{number:016x}.cubin").write_bytes(content)
    (folder / f"{DAMAGED:016x}.cubin").write_bytes(b"ELF")
    return folder


@pytest.fixture
def kept(folder: Path) -> KeptCode:
    return KeptCode(folder)


def test_every_instruction_of_a_kernel_has_the_chain_of_its_cubin(folder: Path, kept: KeptCode) -> None:
    cubin = Cubin.open(folder / f"{WITH_LINES:016x}.cubin")
    chains = 0
    for section, name in cubin.sections.items():
        for offset in range(0, len(cubin.instructions(section)), 16):
            if cubin.function_at(section, offset).name == name:
                chain = cubin.chain(section, offset)
                found = kept.origin(WITH_LINES, name, offset, sass=False)
                assert found.frames == (chain.frames if chain else ())
                assert (found.ptx_line, found.ptx) == (cubin.ptx_at(section, offset) or (0, ""))
                assert found.sass == ""
                chains += bool(found.frames)
    assert chains > 100


@pytest.mark.parametrize("name", [DIVISION, ROOT])
def test_a_function_of_the_compiler_has_the_line_that_most_of_its_calls_are_in(
    folder: Path, kept: KeptCode, name: str
) -> None:
    cubin = Cubin.open(folder / f"{WITH_LINES:016x}.cubin")
    (function,) = (one for one in cubin.functions if one.name == name)
    found = kept.origin(WITH_LINES, name, 32, sass=False)
    assert found == kept.origin(
        WITH_LINES, cubin.sections[function.section], function.offset + 32, sass=False
    )
    assert found.frames[0] == Frame(function.demangled, "", 0)
    source = (CUBINS / "stalls.cu").read_text().splitlines()
    assert [frame.function for frame in found.frames[1:]] == ["branches"]
    word = "sqrt" if name == ROOT else "/"
    assert word in source[found.frames[1].line - 1]
    assert (found.ptx_line, found.ptx) == (0, "")


def test_code_without_lines_has_no_chains_but_operations(kept: KeptCode) -> None:
    assert not kept.has_lines(PLAIN)
    assert kept.has_lines(WITH_LINES)
    for name in ("_Z2faf", "_Z5tableif"):
        assert kept.has(PLAIN, name)
        assert kept.origin(PLAIN, name, 16, sass=False).frames == ()
    assert kept.missing == set()


def test_operations_are_those_of_the_section_from_a_functions_begin(folder: Path, kept: KeptCode) -> None:
    from warpsight.device_code.operations import operation

    cubin = Cubin.open(folder / f"{PLAIN:016x}.cubin")
    (function,) = (one for one in cubin.functions if one.name == "_Z2fbf")
    code = cubin.instructions(function.section)
    for at in range(0, function.size, 16):
        place = function.offset + at
        assert kept.operation_at(PLAIN, "_Z2fbf", at) == (operation(code[place : place + 16]) or "")
    assert kept.operation_at(PLAIN, "_Z2fbf", -16 - function.offset) == ""
    assert kept.operation_at(PLAIN, "nothing", 0) == ""


@pytest.mark.parametrize("checksum", [DAMAGED, ABSENT, None])
def test_code_that_is_not_there_is_unknown_and_named(kept: KeptCode, checksum: int | None) -> None:
    assert kept.origin(checksum, "_Z2faf", 0) == UNKNOWN
    assert not kept.has(checksum, "_Z2faf")
    assert not kept.has_lines(checksum)
    assert kept.operation_at(checksum, "_Z2faf", 0) == ""
    assert kept.missing == {checksum or 0}
    assert kept.origin(PLAIN, "nothing", 0) == UNKNOWN


def test_the_text_of_an_instruction_begins_with_its_operation(kept: KeptCode) -> None:
    found = kept.origin(PLAIN, "_Z2fbf", 16)
    assert kept.operation_at(PLAIN, "_Z2fbf", 16) in found.sass
    assert kept.origin(PLAIN, "_Z2fbf", 1 << 20).sass == "?"


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (Frame("f", "a.cu", 3), "f (a.cu:3)"),
        (Frame("", "a.cu", 3), "? (a.cu:3)"),
        (Frame("f", "", 0), "f"),
        (Frame("", "", 0), "?"),
    ],
)
def test_a_frame_is_written_as_those_of_the_host_are(frame: Frame, text: str) -> None:
    assert frame_text(frame) == text
