"""Rows of the devices: which there are, and the work and the names in them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.conftest import Build, copy, kernel, launch
from warpsight.analysis.base.labels import NumberedLabels
from warpsight.analysis.timeline import devices
from warpsight.model import work as device_work

KERNELS = [kernel(100, 5, 1, correlation=7, stack=1), kernel(300, 5, 4), kernel(400, 5, 99)]
COPIES = [copy(200, 10), copy(500, 10, kind="DtoH", destination_kind="pageable")]
SET: dict[str, Any] = {"start": 600, "duration": 3, "bytes": 8, "value": 0, "memory_kind": "device", "asynchronous": True,
                       "context": 1, "stream": 7, "device": 0, "process": 0}  # fmt: skip
NAMES = {
    100: "gemm",
    300: "softmax",
    400: "?",
    200: "memcpy HtoD",
    500: "memcpy DtoH, pageable",
    600: "memset",
}


@pytest.mark.parametrize(
    ("tables", "keys"),
    [
        ({"kernel": KERNELS}, {"gpu0": [100, 300, 400]}),
        ({"memcpy": COPIES, "memset": [SET]}, {"gpu0": [200, 500, 600]}),
        ({"kernel": KERNELS, "memcpy": COPIES, "memset": [SET]},
         {"gpu0": [100, 200, 300, 400, 500, 600], "gpu0.copies": [200, 500, 600]}),
        ({"kernel": [*KERNELS, kernel(150, 9, 1, stream=8)]},
         {"gpu0": [100, 150, 300, 400], "gpu0.s7": [100, 300, 400], "gpu0.s8": [150]}),
        ({"kernel": [KERNELS[0], kernel(300, 5, 4, device=1)]}, {"gpu0": [100], "gpu1": [300]}),
        ({}, {}),
    ],
)  # fmt: skip
def test_a_device_has_its_streams_if_they_are_several_and_its_copies_if_it_has_other_work(
    build: Build,
    tables: dict[str, Any],
    keys: dict[str, list[int]],
) -> None:
    trace = build(launch=[launch(90, 5, 7)], stacks=(("main",),), **tables)
    names = NumberedLabels()
    found, merged = devices.rows(trace, device_work.load(trace), names)
    assert {row.key: row.start.tolist() for row in found} == keys and merged == 0
    texts = [text for _, text in names.numbers]
    shown = {150: "gemm", **NAMES}
    for row in found:
        begins = row.start.tolist()
        assert [texts[number] for number in row.name[:].tolist()] == [shown[at] for at in begins]
        assert [call >= 0 for call in row.call[:].tolist()] == [
            at == 100 and "kernel" in tables for at in begins
        ]
        assert [stack > 0 for stack in row.stack[:].tolist()] == [at == 100 for at in begins]
