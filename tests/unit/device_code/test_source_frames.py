"""Frames of source: which function and line each is, and the text of the line where its file is on this machine."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from warpsight.device_code.debug_info.inline_chain import (
    Frame,
    SourceChain,
    find_source,
    frames_of,
    source_line,
)
from warpsight.device_code.debug_info.line_table import LineRow, LineSequence, _SourceFile


@pytest.mark.parametrize("seed", range(10))
def test_frames_are_the_row_and_its_callers_each_in_the_function_it_is_inlined_into(seed: int) -> None:
    """A row's number of a context is that of the row that calls it, from 1; its name is the function that was called."""
    rng = random.Random(seed)
    names = {0: "_Z3onev", 8: "two", 14: "_ZN1a5threeEi"}
    texts = {0: "one()", 8: "two", 14: "a::three(int)"}
    files = tuple(_SourceFile("/src", f"{n}.cu") for n in range(4))
    rows, paths = [], []
    for number in range(30):
        file, line, column = rng.randrange(1, 4), rng.randrange(1, 99), rng.randrange(9)
        caller = rng.randrange(number) if number and rng.random() < 0.8 else None
        name = rng.choice(list(names)) if caller is not None else -1
        rows.append(LineRow(16 * number, file, line, column, 0 if caller is None else caller + 1, name))
        own = Frame("kernel(float*)" if name < 0 else texts[name], f"/src/{file}.cu", line, column)
        paths.append((own, *(paths[caller] if caller is not None else ())))
    sequence = LineSequence(tuple(rows), 0, 0, 480, files)
    for number in range(30):
        assert frames_of(sequence, number, names.__getitem__, "_Z6kernelPf") == paths[number]


def test_a_chain_begins_with_the_frame_of_the_instruction() -> None:
    frames = (Frame("f", "a.cu", 3), Frame("", "b.cu", 4, 7))
    chain = SourceChain(frames, frames)
    assert chain.innermost is frames[0]
    assert (str(frames[0]), str(frames[1])) == ("f at a.cu:3", "? at b.cu:4")


def test_lines_of_source_are_counted_from_one_and_stripped_unless_asked(tmp_path: Path) -> None:
    file = tmp_path / "a.cu"
    file.write_bytes(b"first  \n\tsecond \r\n" + b"x" * 2001 + b"\n\xff last")
    assert [source_line(str(file), n) for n in (0, 1, 2, 4, 5, -1)] == [
        None,
        "first",
        "second",
        "\ufffd last",
        None,
        None,
    ]
    assert source_line(str(file), 2, indented=True) == "    second"
    assert len(source_line(str(file), 3) or "") == 2000
    assert Frame("f", str(file), 1).text == "first"
    assert Frame("f", str(tmp_path / "b.cu"), 1).text is None
    assert source_line("", 1, (str(tmp_path),)) is source_line(str(tmp_path), 1) is None
    assert source_line("a\0b", 1, (str(tmp_path),)) is None


def test_a_source_is_looked_for_at_its_path_then_by_the_longest_end_of_it_in_every_folder(
    tmp_path: Path,
) -> None:
    def made(*parts: str) -> str:
        path = tmp_path.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
        return str(path)

    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    short, long = made("one", "k.cu"), made("other", "lib", "k.cu")
    assert (
        find_source("/build/lib/k.cu", (one, other)) == long
    )  # more of the path, though in the second folder
    assert find_source("/build/far/k.cu", (one, other)) == short
    assert find_source("/build/far/k.cu", (other,)) is None
    assert find_source(short, (other,)) == short
    assert find_source("build/k.cu", (one,)) == short
    (tmp_path / "one" / "sub").mkdir()
    assert find_source("/build/sub/../k.cu", (one,)) == short  # by its name; never by a path that climbs
    secret = made("k2.cu")
    assert (
        find_source("/build/../k2.cu", (one,)) is None and find_source("/x/k2.cu", (str(tmp_path),)) == secret
    )
