"""A trace with NVBit of `tests/gpu/tma_truth.cu`, recorded on an H200: copies, tensor maps and tiles are what the program says.

`tma.json` is what the program printed in the recorded run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.golden import tma_truth
from warpsight.sass.events.trace import EventTrace
from warpsight.ui.cli import app

HERE = Path(__file__).parent / "nvbit"


@pytest.fixture(scope="module")
def trace() -> EventTrace:
    return EventTrace(HERE / "tma.events.zst")


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    packed = (HERE / "tma.json.zst").read_bytes()
    found: list[dict[str, Any]] = json.loads(zstandard.ZstdDecompressor().decompress(packed))
    return found


def test_every_copy_is_told_with_its_operands(trace: EventTrace, reports: list[dict[str, Any]]) -> None:
    tma_truth.check_operands(trace, reports)
    assert trace.notes == []


def test_every_tensor_map_is_decoded(trace: EventTrace, reports: list[dict[str, Any]]) -> None:
    tma_truth.check_maps(trace, reports)


def test_tiles_are_where_the_hardware_put_them(reports: list[dict[str, Any]]) -> None:
    tma_truth.check_tiles(reports)


def test_nothing_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["sass", "tma", str(HERE / "tma.events.zst"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    # A row of 1,000 bytes is written up to 1,008, four of 61 integers up to 64; atomics do so as well.
    assert [note.split(": ")[1].split(" are")[0] for note in answer["notes"]] == ["48 bytes", "8 bytes"]
    # The only copies without a size are of an interleaved tensor.
    unknown = [answer["maps"][one["map"]]["interleave"] for one in answer["copies"] if one["unknown"]]
    assert unknown == ["16B"]


@pytest.mark.parametrize("kept", [100, 150_000])
def test_a_file_that_ends_before_its_copies_is_said_to_end(
    kept: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = (HERE / "tma.events.zst").read_bytes()
    cut = tmp_path / "cut.events"
    cut.write_bytes(zstandard.ZstdDecompressor().stream_reader(packed).read()[:kept])
    assert app.main(["sass", "tma", str(cut)]) != 0
    assert "the file ends inside a block" in capsys.readouterr().err
