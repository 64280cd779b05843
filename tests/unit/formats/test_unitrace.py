"""unitrace and onetrace: files written by the statements of their loggers (pti-gpu, chromelogger.h and unified_tracer.h)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.formats.stored import stored
from warpsight.formats.importing import import_files

GOLDEN = Path(__file__).parents[2] / "golden/formats/unitrace"
EPOCH = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("unitrace") / "out.warp"
    assert import_files([GOLDEN / "unitrace.json"], out).files[0].format == "unitrace"
    return out


def test_a_kernels_launch_is_taken_out_of_its_name(trace: Path) -> None:
    text = (
        "select k.start, duration, n.name, grid_x, grid_y, block_x, correlation, s.name, pid from kernel k "
        "join name n on n.id = name_id join shape on shape.id = shape_id join stream s using (stream, context, process) "
        "join process p using (process)"
    )
    assert stored(trace, text) == [
        (EPOCH + 18_001, 7_123, "void gemm<float, 2>(float*)", 64, 2, 256, 77, "L0 Compute Engine<0,0>", 501)
    ]


def test_a_call_is_joined_by_the_flow_that_starts_in_it(trace: Path) -> None:
    assert stored(trace, "select function, start, duration, correlation, thread from launch") == [
        ("zeCommandListAppendLaunchKernel", EPOCH + 10_125, 5_500, 77, 502)
    ]
    assert stored(trace, "select function, correlation from api") == [("zeCommandListAppendMemoryCopy", 78)]


def test_copies_barriers_and_ranges(trace: Path) -> None:
    text = "select duration, bytes, kind, source_kind, destination_kind, correlation from memcpy"
    assert stored(trace, text) == [(1_250, 4096, "HtoD", "pageable", "device", 78)]
    assert stored(trace, "select kind, duration from sync") == [("barrier", 500)]
    text = "select name, start, duration, attributes from marker join name on id = name_id order by start"
    assert stored(trace, text) == [
        ("outer task", EPOCH + 5_000, 35_250, None),
        ("MPI_Send", EPOCH + 30_000, 1_000, '{"ssize": 64, "src": 1, "stag": 5}'),
    ]


def test_device_host_and_rank(trace: Path) -> None:
    assert stored(trace, "select name, pci, vendor, host from device") == [
        ("Intel(R) Data Center GPU Max 1550 tile 1", "0000:29:00.0", "Intel", "nodeA")
    ]
    assert stored(trace, "select pid, host, rank from process") == [(501, "nodeA", 2)]


def test_onetrace_files_have_no_end_and_are_whole_all_the_same(tmp_path: Path) -> None:
    imported = import_files([GOLDEN / "onetrace.json"], tmp_path / "out.warp")
    assert imported.files[0].format == "unitrace"
    out = tmp_path / "out.warp"
    text = "select start, duration, name, correlation from kernel join name on id = name_id"
    assert stored(out, text) == [(20_000, 30_000, "gemm", 3)]
    assert stored(out, "select function, correlation, thread from launch") == [
        ("zeCommandListAppendLaunchKernel", 3, 601)
    ]
