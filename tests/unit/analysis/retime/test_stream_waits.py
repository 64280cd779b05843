"""Work that began right after work of another stream, which its own had been told to wait for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.analysis.rules.program import US, Program
from warpsight.analysis.retime.building import build
from warpsight.analysis.retime.solving import solve


@pytest.mark.parametrize(("told", "right_after"), [(True, True), (False, True), (True, False)])
def test_without_event_ids_the_wait_is_for_what_ended_right_before(
    tmp_path: Path, told: bool, right_after: bool
) -> None:
    program = Program(tmp_path / "t.warp")
    for _ in range(10):
        program.launch("long", 500 * US, stream=7)
        if told:
            program.call("api", "cudaStreamWaitEvent", 2 * US)
        program.device += 0 if right_after else 300 * US
        program.launch("after", 50 * US, stream=8)
        program.host = program.device
    with program.open() as trace:
        found = build(trace)
        long = found.duration == 500 * US
        before = solve(found).start
        later = solve(found.but(duration=np.where(long, 600 * US, found.duration))).start
    moved = (later - before)[~long]
    assert (moved[0] > 0) == (told and right_after)
