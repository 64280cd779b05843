"""A program made of a recording: what each piece of work follows, and how long after it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import Build, kernel, launch
from tests.unit.analysis.device_program import Machine
from warpsight.analysis.retime import building
from warpsight.analysis.retime.solving import solve
from warpsight.model import open as open_trace


@pytest.mark.parametrize(
    ("begins", "calls", "previous"),
    [
        (
            (0, 1_000, 2_000),
            (2, 3, 4),
            [-1, 0, 1],
        ),  # each begins before the one before it has ended, and follows it
        ((0, 1_000, 2_000), (2, 2, 4), [-1, 0, 1]),  # so do programmatic launches in a graph
        ((0, 100, 2_000), (2, 3, 4), [-1, 0, 1]),
    ],
)
def test_work_follows_what_it_overlaps(
    build: Build, begins: tuple[int, ...], calls: tuple[int, ...], previous: list[int]
) -> None:
    trace = build(
        kernel=[kernel(begin, 1_300, correlation=call) for begin, call in zip(begins, calls, strict=True)],
        launch=[launch(-900 + 10 * call, 5, call) for call in sorted(set(calls))],
    )
    found = building.build(trace)
    assert found.previous.tolist() == previous
    for node, one in enumerate(previous):
        assert one < 0 or found.gap[node] <= begins[node] - begins[one] - 1_300
    assert solve(found).start.tolist() == found.graph.start.tolist()


@pytest.mark.parametrize(("seed", "nested"), [(seed, seed % 2 == 1) for seed in range(8)])
def test_a_program_that_is_left_as_it_is_runs_as_recorded(tmp_path: Path, seed: int, nested: bool) -> None:
    machine = Machine(seed, nested)
    machine.run(60)
    machine.write(tmp_path / "t.warp")
    with open_trace(tmp_path / "t.warp") as trace:
        program = building.build(trace)
        found = solve(program)
    real = program.graph.kind < 4  # a wait of a stream may end earlier than it was seen to
    assert (found.start[real] == program.graph.start[real]).all()


WORK = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 1), st.booleans()), max_size=8
)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(WORK)
def test_a_device_is_busy_until_the_last_end_of_what_began_before(
    rows: list[tuple[int, int, int, bool]],
) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    start, length, device, wait = (
        np.array([row[i] for row in rows], kind) for i, kind in enumerate((int, int, int, bool))
    )
    made: Any = SimpleNamespace(
        graph=SimpleNamespace(start=start, end=start + length, work=SimpleNamespace(device_index=lambda: ([0, 1], device))),
        is_wait=wait, count=len(rows),
    )  # fmt: skip
    found = building._Building._busy_until(made).tolist()
    for place, (_, _, own, waits) in enumerate(rows):
        before = [row[0] + row[1] for row in rows[:place] if row[2] == own and not row[3]]
        assert found[place] == (max(before) if before and not waits else building._NEVER)
