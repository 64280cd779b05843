"""PTX files behind a cubin's embedded text: which file it is, and the call sites it gives for each line."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.device_code.debug_info import ptx_files
from warpsight.device_code.debug_info.inline_chain import Frame


def lines(count: int, other: int = 0) -> str:
    """Instructions, with the last `other` of them different."""
    return "\n".join(f"add.s32 %r{n}, %r{n}, {9 if n >= count - other else 1};" for n in range(count))


def embedded(text: str) -> bytes:
    return b"\0".join(line.encode() for line in text.splitlines())


@pytest.mark.parametrize(("other", "same"), [(0, True), (2, True), (3, False), (20, False)])
def test_a_file_is_the_source_when_nine_tenths_of_its_instructions_are_there(other: int, same: bool) -> None:
    assert ptx_files.matches(lines(20, other), embedded(lines(20))) == same


def test_comments_blanks_and_lines_without_instructions_do_not_count() -> None:
    text = "// made by a compiler\n\n  add.s32   %r1, %r2, 1;  // here\n.loc 1 2 3\nret;"
    assert ptx_files.matches(text, b"// another\0\0add.s32 %r1, %r2, 1;\0.file\0ret;")
    assert not ptx_files.matches(text, b"// another\0\0\0")  # no instruction at all
    assert not ptx_files.matches("", b"ret;")


def test_the_last_line_of_a_file_counts() -> None:
    assert ptx_files.matches("ret;", b"ret;")
    assert not ptx_files.matches(lines(9), embedded(lines(9)) + b"\0exit;\0ret;")  # two of eleven are missing


PTX = """.file 1 "/src" "kernel.py"
.file 2 "/lib/math.py"
.file 3 "/src" "/abs/other.py"
// nothing yet
add.s32 %r1, %r1, 1;
.loc 1 12 5
add.s32 %r2, %r2, 1;
.loc 2 40 7 // math.py:40:7 @[ kernel.py:13:9 @[ unknown.py:3:1 ] ]
add.s32 %r3, %r3, 1;
.loc 9 5 1
ret;"""


def test_lines_have_the_call_sites_of_the_position_before_them() -> None:
    found = ptx_files.parse(PTX, "kern")
    outer = Frame("kern", "/src/kernel.py", 12, 5)
    chain = (
        Frame("", "/lib/math.py", 40, 7),
        Frame("", "/src/kernel.py", 13, 9),
        Frame("kern", "unknown.py", 3, 1),
    )
    assert found[:6] == [()] * 6  # counted from 1, and nothing is known of the first lines
    assert found[6] == found[7] == (outer,)
    assert found[8] == found[9] == chain
    assert found[10] == found[11] == (Frame("kern", "", 5, 1),)
    assert len(found) == 12


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ('.file 1 "/src" "kernel.py"', (1, "/src/kernel.py")),
        ('.file 2 "/lib/math.py"', (2, "/lib/math.py")),
        ('  .file 3 "/src" "/abs/other.py"', (3, "/abs/other.py")),
        (".loc 1 2 3", None),
    ],
)
def test_files_are_named_by_folder_and_name(line: str, file: tuple[int, str] | None) -> None:
    assert ptx_files._file(line) == file


def test_the_function_around_a_line_is_the_innermost(tmp_path: Path) -> None:
    source = tmp_path / "made.py"
    source.write_text(
        "x = 1\n\ndef outer():\n    y = 2\n    def inner():\n        return 3\n    return inner\n\nasync def last():\n    z = 4\n"
    )
    around = [ptx_files.function_around(str(source), line) for line in range(1, 12)]
    assert around == ["", "", "outer", "outer", "inner", "inner", "outer", "", "last", "last", ""]
    assert ptx_files.function_around(str(tmp_path / "none.py"), 1) == ""
    assert ptx_files.function_around(__file__ + "x", 1) == ""


def test_names_of_the_functions_around_are_taken_from_the_sources(tmp_path: Path) -> None:
    (tmp_path / "math.py").write_text("def square(x):\n    return x * x\n")
    text = f'.file 1 "{tmp_path}/math.py"\n.file 2 "/src/kernel.py"\n.loc 1 2 1 // math.py:2:1 @[ kernel.py:9:2 ]\nret;'
    found = ptx_files.parse(text, "kern")[4]
    assert [(frame.function, frame.line) for frame in found] == [("square", 2), ("kern", 9)]


def test_files_given_come_alone_and_else_those_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("cache/a", "cache/b", "given/deep"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "kern.ptx").write_text(lines(3))
        (tmp_path / folder / "other.ptx").write_text(lines(3))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    names = [str(path.relative_to(tmp_path)) for path in ptx_files.candidates("kern", [])]
    assert names == ["cache/a/kern.ptx", "cache/b/kern.ptx"]
    own = tmp_path / "given" / "deep" / "other.ptx"
    given = list(ptx_files.candidates("kern", [own, tmp_path / "given"]))
    assert given == [own, tmp_path / "given" / "deep" / "kern.ptx"]


def test_the_first_file_that_fits_gives_the_call_sites(tmp_path: Path) -> None:
    wrong, right = tmp_path / "wrong.ptx", tmp_path / "right.ptx"
    wrong.write_text(lines(12, 9))
    right.write_text(PTX)
    found = ptx_files.call_sites("kern", embedded(PTX), [tmp_path / "none.ptx", wrong, right], ())
    assert found == ptx_files.parse(PTX, "kern")
    assert ptx_files.call_sites("kern", embedded(PTX), [wrong], ()) is None
