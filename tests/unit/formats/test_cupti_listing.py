"""CUPTI's listings, by the format strings of its samples (helper_cupti_activity.h of CUDA 12, activity_trace of CUDA 11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.formats.stored import stored
from warpsight.formats.importing import import_files

GOLDEN = Path(__file__).parents[2] / "golden/formats/cupti-listing"
KERNELS = (
    "select k.start, duration, n.name, grid_x, grid_y, block_x, cluster_x, shared_static, shared_dynamic, stream, "
    "context, correlation, graph, graph_node, d.index from kernel k join name n on n.id = name_id "
    "join shape s on s.id = shape_id join device d using (device)"
)


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("listing") / "new.warp"
    assert import_files([GOLDEN / "helper.txt"], out).files[0].format == "cupti-listing"
    return out


def test_new_listings(new: Path) -> None:
    assert stored(new, KERNELS) == [
        (
            1689233834571023466,
            1792,
            "_Z6VecAddPKiS0_Pii",
            98,
            2,
            512,
            2,
            16,
            1024,
            7,
            1,
            118,
            3,
            8589934593,
            0,
        )
    ]
    assert stored(new, "select function, start, duration, correlation, thread from launch") == [
        ("cudaLaunchKernel", 1000, 250, 118, 41)
    ]
    assert stored(new, "select function, correlation from api") == [("cuMemcpyHtoD_v2", 117)]
    text = "select start, duration, bytes, kind, source_kind, destination_kind, correlation from memcpy"
    assert stored(new, text) == [(910, 35, 200000, "HtoD", "pageable", "device", 117)]
    assert stored(new, "select bytes, value, correlation from memset") == [(400, 5, 119)]
    assert stored(new, "select kind, duration, thread from overhead") == [("command buffer full", 100, 41)]
    assert stored(new, "select name, compute_capability from device") == [("NVIDIA H200", "9.0")]


def test_what_was_dropped_is_a_loss_and_what_fits_nowhere_a_note(new: Path) -> None:
    assert sorted(stored(new, "select severity, count, cause from loss")) == [
        ("lost", 3, "CUPTI dropped activity records"),
        ("note", 0, "activities that were not imported: ENVIRONMENT (1)"),
    ]


def test_old_listings_have_numbers_for_names(tmp_path: Path) -> None:
    out = tmp_path / "old.warp"
    assert import_files([GOLDEN / "activity_trace.txt"], out).files[0].format == "cupti-listing"
    assert stored(out, KERNELS) == [
        (200, 60, "VecAdd(int const*, int*, int)", 98, 1, 512, 0, 0, 64, 7, 1, 5, None, None, 0)
    ]
    assert stored(out, "select function, correlation from launch") == [("cudaLaunchKernel", 5)]
    assert stored(out, "select function, correlation from api") == [("runtime function 20", 4)]
    assert stored(out, "select kind, bytes, correlation from memcpy") == [("HtoD", 0, 3)]
    assert stored(out, "select name, compute_capability from device") == [("NVIDIA A100-SXM4-40GB", "8.0")]
