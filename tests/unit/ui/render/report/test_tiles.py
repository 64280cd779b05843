"""The figures on top of the report: they are of the same time as the verdict's sentences."""

from __future__ import annotations

import pytest

from tests.unit.analysis.rules.program import US, Program
from warpsight.model.selection import Rows
from warpsight.ui.render import numbers
from warpsight.ui.render.report import collect as collecting
from warpsight.ui.render.report.build import _kind, _tiles
from warpsight.ui.render.report.collect import collect


@pytest.fixture
def program(tmp_path):
    """A start of 100 ms, then 40 iterations of 1 ms in which the device works for 0.7 ms."""
    program = Program(tmp_path / "t.warp")
    program.launch("gemm", 100 * US)
    program.busy(100_000 * US)
    for _ in range(40):
        program.launch("gemm", 500 * US)
        program.launch("relu", 200 * US)
        program.host = program.device + 292 * US
        program.add("user_event", start=program.host, duration=0, name="step", kind="step", thread=1)
    return program


@pytest.mark.parametrize("part", ["all", "asked for"])
def test_tiles_and_sentences_are_of_the_same_time(program, part):
    begin = program.rows["kernel"][20]["start"]
    rows = Rows() if part == "all" else Rows(begin=begin)
    with program.open() as trace:
        material = collect(trace, rows)
    found = material.verdict
    assert found is not None and found.iterations is not None
    tiles = {tile["label"]: tile for tile in _tiles(material)}
    assert f"busy {tiles['GPU busy']['share']:.0%} {tiles['GPU busy']['note']}" in found.summary
    assert tiles["Iteration"]["value"] == numbers.duration(found.iterations.median_ns)
    assert f"{found.iterations.steady_count:,} steady" in tiles["Iteration"]["note"]
    idle = sum(entry.time for entry in found.account.entries if entry.kind > 2)
    assert tiles["GPU idle"]["value"] == numbers.duration(idle)
    shares = [finding.share_ns for finding in found.leading if finding.kind is not None]
    assert shares and shares[0] <= found.account.span == found.length


def test_a_large_trace_is_told_the_same(program, monkeypatch):
    with program.open() as trace:
        usual = collect(trace, Rows())
        trace.kept.forget()
        monkeypatch.setattr(collecting, "_LARGE", 0)
        found = collect(trace, Rows())
    assert not found.failed and found.findings == usual.findings
    assert _tiles(found) == _tiles(usual)
    assert found.flame is not None and found.scene is not None and found.iterations.tables


def test_devices_whose_names_differ_by_their_number_are_of_one_kind():
    names = ["CUDA device 0", "CUDA device 1", "NVIDIA RTX 4090", None]
    several = [{"device": number, "name": name} for number, name in enumerate(names)]
    assert [_kind(one, alone=False) for one in several] == [
        "CUDA device",
        "CUDA device",
        "NVIDIA RTX 4090",
        "",
    ]
    assert _kind(several[0], alone=True) == "CUDA device 0"
