"""mcTracer: a file written after what its consumers rely on (no real one is published)."""

from __future__ import annotations

from pathlib import Path

from tests.unit.formats.stored import stored
from warpsight.formats.importing import import_files

GOLDEN = Path(__file__).parents[2] / "golden/formats/mctracer/mctracer.json"


def test_device_work_calls_and_ranges(tmp_path: Path) -> None:
    out = tmp_path / "out.warp"
    assert import_files([GOLDEN], out).files[0].format == "mctracer"
    text = (
        "select start, duration, n.name, grid_x, block_x, stream, correlation, d.index from kernel "
        "join name n on n.id = name_id join shape s on s.id = shape_id join device d using (device)"
    )
    assert stored(out, text) == [(110_001, 20_123, "_Z4axpyfPfS_", 8, 256, 3, 5, 1)]
    assert stored(out, "select function, start, duration, correlation, thread from launch") == [
        ("mcLaunchKernel", 100_500, 4_250, 5, 71)
    ]
    assert stored(out, "select function from api") == [("mcMalloc",)]
    text = "select start, bytes, kind, asynchronous from memcpy order by start"
    assert stored(out, text) == [(80_000, 4096, "HtoD", True), (140_000, 1024, "DtoH", False)]
    text = "select name, start, duration, domain from marker join name on id = name_id"
    assert stored(out, text) == [("epoch", 50_000, 100_750, "mctx")]
    assert stored(out, "select pid, command from process") == [(70, "./mctest")]
