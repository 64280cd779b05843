"""rpd_tracer's databases against what a small one of them says, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.formats.rpd_file import write_rpd
from tests.unit.formats.stored import stored
from warpsight.formats.importing import import_files

_S = 1 << 32
KERNELS = (
    "select start, duration, n.name, grid_x, grid_y, block_x, shared_dynamic, local_per_thread, stream, correlation, d.name "
    "from kernel k join name n on n.id = name_id left join shape on shape.id = shape_id "
    "join device d on d.device = k.device order by k.start"
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rpd")
    out = folder / "out.warp"
    assert import_files([write_rpd(folder / "trace.rpd")], out).files[0].format == "rocprof"
    return out


def test_kernels_have_their_launchs_shape_and_stream_and_a_graphs_have_its_launch(trace: Path) -> None:
    assert stored(trace, KERNELS) == [
        (220, 20, "_Z4axpyfPfS_", 7, 2, 256, 64, 8, 16, _S + 2, "GPU 2"),
        (250, 30, "gemm", 4, 1, 256, 0, 0, 0, _S + 3, "GPU 2"),
        (290, 1, "in_graph", None, None, None, None, None, 5, _S + 4, "GPU 2"),
        (292, 2, "in_graph", None, None, None, None, None, 5, _S + 4, "GPU 2"),
    ]


def test_copies_fills_calls_and_ranges(trace: Path) -> None:
    text = "select start, duration, bytes, kind, stream, correlation from memcpy"
    assert stored(trace, text) == [(200, 10, 65536, "HtoD", 16, _S + 1)]
    assert stored(trace, "select start, duration, stream, correlation from memset") == [(295, 1, 5, _S + 5)]
    text = "select function, start, duration, thread, correlation from {} order by start"
    assert stored(trace, text.format("launch")) == [
        ("hipLaunchKernel", 120, 10, 78, _S + 2),
        ("hipExtModuleLaunchKernel", 140, 10, 78, _S + 3),
        ("hipGraphLaunch", 160, 10, 78, _S + 4),
    ]
    assert stored(trace, text.format("api")) == [
        ("hipMemcpyAsync", 100, 10, 78, _S + 1),
        ("hipMemsetAsync", 180, 10, 78, _S + 5),
    ]
    text = "select name, start, duration from marker join name on name.id = name_id order by start"
    assert stored(trace, text) == [("forward", 90, 210), ("hcc_activity_callback", 310, 10)]


def test_monitors_are_counters_and_what_is_left_out_is_said(trace: Path) -> None:
    assert stored(
        trace, "select time, c.name, value, unit, d.name from counter c join device d on d.device = c.device"
    ) == [(95, "sclk", 1700.0, "MHz", "GPU 2")]
    assert sorted(stored(trace, "select count, cause from loss")) == [
        (0, f"tables of {trace.parent / 'trace.rpd'} that were not imported: ext_callstack (2 rows)"),
        (1, "device work that is neither kernel, copy nor fill"),
        (1, "values of monitors that are not numbers"),
    ]
    assert stored(trace, "select pid from process") == [(77,)]


def test_grids_of_rocprofiler_sdk_are_work_items(tmp_path: Path) -> None:
    out = tmp_path / "out.warp"
    import_files([write_rpd(tmp_path / "trace.rpd", sdk=True)], out)
    assert [row[3:6] for row in stored(out, KERNELS)][:2] == [(2, 2, 256), (4, 1, 256)]
    assert stored(out, "select kind, bytes from memcpy") == [("HtoD", 65536)]


def test_the_golden_file_is_what_its_builder_writes(tmp_path: Path) -> None:
    golden = Path(__file__).parents[2] / "golden/formats/rocprof/trace.rpd"
    for file in (golden, write_rpd(tmp_path / "trace.rpd")):
        import_files([file], tmp_path / f"{file.parent.name}.warp")
    for table in ("kernel", "memcpy", "memset", "launch", "api", "marker", "counter"):
        text = f"select * from {table} order by all"
        both = [stored(tmp_path / f"{name}.warp", text) for name in (golden.parent.name, tmp_path.name)]
        assert both[0] == both[1] and both[0], table
