"""Single events in order of time."""

from __future__ import annotations

from tests.unit.analysis.conftest import Build, kernel
from warpsight.analysis.stats.listing import events
from warpsight.model.selection import Rows


def test_a_kernel_is_listed_with_its_blocks_or_where_opencl_chose_them_with_its_items(build: Build) -> None:
    grid = {"grid_x": 64, "grid_y": 2, "grid_z": 1}
    trace = build(
        kernel=[kernel(5, 7, shape_id=1), kernel(20, 7, shape_id=2)],
        shapes=(
            {**grid, "block_x": 32, "block_y": 4, "block_z": 1},
            {**grid, "block_x": 0, "block_y": 0, "block_z": 0},
        ),
    )
    details = events(trace, Rows()).tables["events"]["detail"].to_pylist()
    assert details == ["grid 64×2×1 block 32×4×1", "items 64×2×1"]
