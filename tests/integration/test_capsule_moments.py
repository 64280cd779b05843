"""The launch or step that is worth a capsule: the slowest, one that hangs or fails, one after a signal."""

# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.capsule_programs import (  # noqa: F401 - a fixture
    Programs,
    allocations,
    floats,
    programs,
)
from warpsight.replay.capsule import browsing


@pytest.mark.parametrize(
    ("options", "steps", "number", "value"),
    [
        ("-k fill* --when slowest", ["fill:3", "add", "fill:9", "fill:4", "fill:8"], 1, 9.0),
        ("-k fill* --when slowest --launch 2..4", ["fill:9", "fill:4", "fill:3", "fill:5", "fill:9"], 3, 5.0),
    ],
)
def test_the_slowest_launch_is_kept(
    programs: Programs, tmp_path: Path, options: str, steps: list[str], number: int, value: float
) -> None:
    done = programs.record(tmp_path, options, *steps)
    (filled,) = allocations(done.capsule)
    assert set(floats(done.capsule, filled, "after")) == {value}
    assert f"number {number} (from 0)" in done.output


@pytest.mark.parametrize(
    ("which", "value", "said"), [("hung", -1, "did not end within"), ("faulted", -2, "error 700")]
)
def test_the_launch_that_did_not_end_well_is_kept_with_what_it_read(
    programs: Programs, tmp_path: Path, which: str, value: int, said: str
) -> None:
    done = programs.record(
        tmp_path, f"-k fill* --when {which} --patience 0.1", "fill:3", "add", f"fill:{value}", "add"
    )
    (filled,) = allocations(done.capsule)
    assert set(floats(done.capsule, filled, "before")) == {3.0}
    assert done.capsule.manifest.allocations[0].after is None
    assert said in done.capsule.manifest.incomplete[0]


def test_what_the_host_needs_for_a_first_launch_makes_no_step_slow(
    programs: Programs, tmp_path: Path
) -> None:
    step = "warpsight:step"
    steps = [word for value in (2, 7, 5) for word in (f"range:{step}", f"fill:{value}", "add", f"end:{step}")]
    done = programs.record(tmp_path, "--step 1..4 --when slowest", *steps, standin="slow_first")
    assert "number 1 (from 0)" in done.output
    assert [operation.device_time for operation in done.capsule.manifest.operations] == [7_000_000] * 2


def test_the_slowest_step_is_kept(programs: Programs, tmp_path: Path) -> None:
    step = "warpsight:step"
    steps = [word for value in (2, 7, 5) for word in (f"range:{step}", f"fill:{value}", "add", f"end:{step}")]
    capsule = programs.record(tmp_path, "--step 1..4 --when slowest", *steps).capsule
    assert [operation.kind for operation in browsing.overview(capsule).operations] == ["launch", "launch"]
    assert any(7.0 in floats(capsule, block, "after") for block in allocations(capsule))


@pytest.mark.parametrize("standin", ["", "no_room"])
def test_a_step_in_which_work_hangs_is_cut_out_as_far_as_it_came(
    programs: Programs, tmp_path: Path, standin: str
) -> None:
    """Contents are those at the step's start; nothing after it is known."""
    steps = [
        word
        for value in (2, -1, 5)
        for word in ("range:warpsight:step", "add", f"fill:{value}", "add", "end:warpsight:step")
    ]
    done = programs.record(tmp_path, "--step 2 --patience 0.1", *steps, standin=standin)
    held = browsing.overview(done.capsule)
    assert [operation.what for operation in held.operations] == ["add_listed", "fill_target"]
    assert any(set(floats(done.capsule, block, "before")) == {2.0} for block in allocations(done.capsule))
    assert all(one.after is None for one in done.capsule.manifest.allocations)
    assert "did not end within 0.1 s" in done.output


def test_no_launch_that_hangs_is_said(programs: Programs, tmp_path: Path) -> None:
    done = programs.record(tmp_path, "--when hung", "add", "add")
    assert (done.code, "occurred 2 times, and none of them hung" in done.output) == (1, True), done.output


def test_launches_count_from_the_signal_on(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(
        tmp_path, "-k fill* --signal USR1", "fill:3", "fill:4", "signal", "fill:5", "fill:6"
    ).capsule
    (filled,) = allocations(capsule)
    assert set(floats(capsule, filled, "after")) == {5.0}
