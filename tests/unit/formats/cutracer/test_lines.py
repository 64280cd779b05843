"""Lines of a chunk: their numbers are those an editor shows, whatever is blank, and are counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.sass.traces import small, write
from warpsight.formats import importing
from warpsight_plugins.cutracer.lines import Chunk


@pytest.mark.parametrize("open_end", [False, True])
@pytest.mark.parametrize("text", ["{1}\n{2}\n{3}", "\n\n{1}\n \n{2}\n\n\n{3}", "{1}\n\t\n{2}"])
def test_numbers_are_those_of_the_file(text: str, open_end: bool) -> None:
    data = (text if open_end else text + "\n").encode()
    chunk = Chunk(data, 11, open_end)
    ends = chunk.ends()
    wanted = [11 + n for n, line in enumerate(text.split("\n")) if line.strip()]
    assert chunk.numbers(ends).tolist() == wanted
    assert [chunk.number(place, ends) for place in range(len(ends))] == wanted


def test_a_whole_file_is_imported_without_counting_for_each_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "k.ndjson", small())

    def refused(*_: object) -> int:
        raise AssertionError("a line was counted for itself")

    monkeypatch.setattr(Chunk, "number", refused)
    done = importing.import_files([path], tmp_path / "k.warp", form="cutracer")
    assert done.rows["warp_event"] == len(small()) - 1
