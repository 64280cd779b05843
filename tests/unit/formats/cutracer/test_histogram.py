"""Instruction histograms: regions between clock reads, warp by warp."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.sass.traces import event, metadata, small, write
from warpsight.ui.cli import app
from warpsight_plugins.cutracer import histogram

CLOCK = "CS2R.32 R3, SR_CLOCKLO ;"
SASS = [CLOCK, "FFMA R1, R2 ;", "@P0 LDG.E R1 ;", "EXIT ;"]


def one_by_one(events: list[tuple[int, str]]) -> dict[tuple[int, int], dict[str, int]]:
    """The rule told one event at a time."""
    region: dict[int, int] = {}
    opened: dict[int, bool] = {}
    out: Counter[tuple[int, int, str]] = Counter()
    for warp, sass in events:
        if sass == CLOCK:
            if opened.get(warp):
                opened[warp] = False
                region[warp] = region.get(warp, 0) + 1
                continue
            opened[warp] = True
        if opened.get(warp):
            out[warp, region.get(warp, 0), histogram.mnemonic(sass)] += 1
    made: dict[tuple[int, int], dict[str, int]] = {}
    for (warp, number, name), count in out.items():
        made.setdefault((warp, number), {})[name] = count
    return made


def test_regions_are_those_of_the_rule_and_the_file_comes_back(tmp_path: Path) -> None:
    chance = random.Random(2)
    executed = [(chance.randrange(5), chance.randrange(4)) for _ in range(400)]
    table = {str(i): {"sass": text, "regs": [], "uregs": []} for i, text in enumerate(SASS)}
    trace = write(
        tmp_path / "t.ndjson",
        [metadata(instructions=table), *(event(i, w, o) for i, (w, o) in enumerate(executed))],
    )
    imported, out = tmp_path / "t.warp", tmp_path / "h.csv"
    assert app.main(["-q", "import", str(trace), "-o", str(imported)]) == 0
    expected = one_by_one([(warp, SASS[opcode]) for warp, opcode in executed])
    for source in (trace, imported):
        assert app.main(["sass", "histogram", str(source), "-o", str(out), "-f"]) == 0
        assert out.read_text().startswith('warp_id,region_id,instruction,count\n0,0,"CS2R.32",')
        assert histogram.read(out) == expected


def test_without_a_clock_read_there_are_no_regions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["sass", "histogram", str(write(tmp_path / "t.ndjson", small()))]) == 2
    assert "no event reads the clock" in capsys.readouterr().err
