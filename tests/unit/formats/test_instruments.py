"""Instruments' XML: references into other cells, nodes without a schema, empty cells; after exports quoted in public tests."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.unit.formats.stored import stored
from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files

GOLDEN = Path(__file__).parents[2] / "golden/formats/instruments/metal.xml"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("instruments") / "out.warp"
    assert import_files([GOLDEN], out).files[0].format == "instruments"
    return out


def test_intervals_resolve_their_references_and_take_the_encoders_name(trace: Path) -> None:
    text = (
        "select k.start, duration, n.name, s.name, pid, d.name, correlation from kernel k join name n on n.id = name_id "
        "join stream s using (process, context, stream) join process p using (process) join device d on d.device = k.device "
        "order by 1"
    )
    assert stored(trace, text) == [
        (100_000_001, 1_000_003, "layer0.attn", "Compute", 2297, "Apple M3 Max", 33),
        (105_000_000, 1_000_003, "Command Buffer 0:Compute Command 0", "Compute", 2297, "Apple M3 Max", 34),
        (110_000_000, 5, "Vertex", "Vertex", 77, "Apple M3 Max", None),
    ]


def test_encoders_are_launches_of_their_intervals(trace: Path) -> None:
    text = "select l.start, l.duration, function, thread, k.start from launch l join kernel k using (process, correlation)"
    assert stored(trace, text) == [(90_000_000, 20_000, "Compute", 4660, 100_000_001)]


def test_samples_share_their_stack(trace: Path) -> None:
    text = """
    with recursive up as (
      select a.time, s.parent, f.function, f.file, s.depth from sample a join stack s on s.id = a.stack
      join frame f on f.id = s.frame
      union all select up.time, s.parent, f.function, f.file, s.depth from up join stack s on s.id = up.parent
      join frame f on f.id = s.frame)
    select time, list(function order by depth) from up group by time order by time
    """
    assert stored(trace, text) == [(80_000_000, ["main", "eval"]), (81_000_000, ["main", "eval"])]
    assert stored(trace, "select count(*) from stack") == [(2,)]


def test_driver_work_processes_and_tables_left_out(trace: Path) -> None:
    text = "select start, duration, name, domain from marker join name on id = name_id"
    assert stored(trace, text) == [(95_000_000, 3_000, "Driver Processing", "metal-driver-intervals")]
    assert stored(trace, "select pid, command from process order by 1") == [
        (77, "WindowServer"),
        (2297, "qwen"),
    ]
    assert stored(trace, "select cause from loss") == [
        ("tables of Instruments that were not imported: thermal-state (1 rows)",)
    ]


def test_a_reference_to_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.xml").write_text(
        GOLDEN.read_text().replace('<process ref="6"/>', '<process ref="666"/>')
    )
    with pytest.raises(FormatError, match="'666'"):
        import_files([tmp_path / "bad.xml"], tmp_path / "out.warp")


def test_execution_points_give_kernels_where_there_are_no_intervals(tmp_path: Path) -> None:
    columns = ("timestamp", "channel-id", "function", "slot-id", "gpu-submission-id")
    points = [(100, 1, 1, 0, 7), (150, 2, 1, 0, 8), (180, 1, 2, 0, 7), (300, 2, 1, 0, 9)]
    text = '<trace-query-result><node><schema name="metal-gpu-execution-points">'
    text += "".join(f"<col><mnemonic>{column}</mnemonic></col>" for column in columns) + "</schema>"
    for point in points:
        text += "<row>" + "".join(f"<v>{value}</v>" for value in point) + "</row>"
    (tmp_path / "points.xml").write_text(text + "</node></trace-query-result>")
    import_files([tmp_path / "points.xml"], tmp_path / "out.warp")
    assert stored(tmp_path / "out.warp", "select start, duration, correlation from kernel") == [(100, 80, 7)]
    assert stored(tmp_path / "out.warp", "select count, severity from loss") == [(2, "lost")]


def test_a_bundle_goes_through_xctrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/xctrace"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> {tmp_path}/calls\n"
        'case "$*" in *--toc*) echo \'<trace-toc><run number="1"><data><table schema="metal-gpu-intervals"/>'
        f"</data></run></trace-toc>'; exit;; esac\n"
        f'while [ $# -gt 0 ]; do [ "$1" = --output ] && cp {GOLDEN} "$2"; shift; done\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    bundle = tmp_path / "run.trace"
    bundle.mkdir()
    import_files([bundle], tmp_path / "out.warp")
    assert stored(tmp_path / "out.warp", "select count(*) from kernel") == [(3,)]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == f"export --input {bundle} --toc"
    assert '/data/table[@schema="metal-gpu-intervals"]' in calls[1]


def test_a_bundle_without_xctrace_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    bundle = tmp_path / "run.trace"
    bundle.mkdir()
    with pytest.raises(FormatError, match=r"xctrace export --input run\.trace"):
        import_files([bundle], tmp_path / "out.warp")
