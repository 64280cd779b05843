"""Single events in order of time."""

from __future__ import annotations

from tests.unit.analysis.conftest import Build, kernel, launch
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


def test_with_a_device_or_stream_only_work_there_is_listed(build: Build) -> None:
    trace = build(kernel=[kernel(5, 7, device=0, stream=7), kernel(9, 7, device=1, stream=8)], launch=[launch(1, 2, 3)],
                  counter=[{"time": 3, "name": "power", "value": 1.0, "unit": "W", "device": 0, "source": "nvml"}])  # fmt: skip
    kinds = ("kernel", "launch", "counter")

    def listed(rows: Rows) -> list[str]:
        found: list[str] = events(trace, rows, kinds).tables["events"]["kind"].to_pylist()
        return sorted(found)

    assert listed(Rows()) == ["counter", "kernel", "kernel", "launch"]
    assert listed(Rows(devices=(0,))) == ["counter", "kernel"]
    assert listed(Rows(streams=(7,))) == ["kernel"]
