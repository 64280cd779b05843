"""Latency after a launch call ends where it is longer than usual for that function."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.analysis.rules.program import US, Program
from warpsight.analysis.account.account import account
from warpsight.analysis.account.classes import LAUNCH, UNKNOWN
from warpsight.model.selection import Rows


@pytest.mark.parametrize(("function", "unknown"), [("cudaLaunchKernel", 60 * US), ("cudaGraphLaunch", 0)])
def test_each_function_has_its_own_usual_latency(tmp_path: Path, function: str, unknown: int) -> None:
    """2 µs are usual after one function and 20 µs after the other, so 60 µs are too long after the first alone."""
    program = Program(tmp_path / "t.warp")

    def launch(name: str, latency: int) -> None:
        program.host = program.device
        number = program.call("launch", name, 4 * US, captured=False)
        start = program.host + latency
        program.add("kernel", start=start, duration=50 * US, name_id=program.writer.name("k"), context=1, stream=7,
                    device=0, correlation=number, graph_level=False)  # fmt: skip
        program.device = start + 50 * US

    for _ in range(20):
        launch("cudaLaunchKernel", 2 * US)
        launch("cudaGraphLaunch", 20 * US)
    launch(function, 60 * US)
    with program.open() as trace:
        found = account(trace, Rows())
        assert found.time(UNKNOWN) == unknown
        latency = 19 * 2 * US + 20 * 20 * US + (0 if unknown else 60 * US)
        assert found.time(LAUNCH) == latency + 40 * 4 * US
