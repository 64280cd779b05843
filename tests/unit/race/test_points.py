"""Points of a program, chosen and found again in a program that was changed; from recorded traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from warpsight.errors import UsageError, WarpsightError
from warpsight.race import delays
from warpsight.race.plan import Plan, Point, Where
from warpsight.race.points import Chosen, DiscoveredPoints, matching, points_of
from warpsight.race.prepare import mapped, plan_of
from warpsight.sass.events.trace import EventTrace
from warpsight.ui.cli import app

FOLDER = Path(__file__).parents[2] / "golden" / "events" / "race"
RULE: dict[str, Any] = {"mode": "random", "seed": 3, "probability": 1.0, "floor_ns": 0, "ceiling_ns": 50}


def _found(name: str) -> DiscoveredPoints:
    points = tuple(
        sorted(points_of(EventTrace(FOLDER / f"{name}.events.zst")), key=lambda p: (p.kernel, p.pc, p.kind))
    )
    return DiscoveredPoints(points, {point.kernel: (point.code,) for point in points}, 0, ())


def _plan(name: str, chosen: Chosen, **changes: Any) -> Plan:
    return plan_of(["app"], _found(name), chosen, Where(), **{**RULE, **changes})


def _places(plan: Plan) -> set[tuple[str, str]]:
    return {(point.kind, point.source[0].rpartition("/")[2]) for point in plan.points}


@pytest.mark.parametrize(
    ("chosen", "places"),
    [
        (Chosen(kinds=("shared",)), {("shared", f"missing_barrier.cu:{line}") for line in (8, 12, 18)}),
        (Chosen(opcodes=("LDS*",)), {("shared", "missing_barrier.cu:18")}),
        (Chosen(kinds=("memory",), sources=("missing_barrier.cu:18",)),
         {("shared", "missing_barrier.cu:18"), ("global", "missing_barrier.cu:18")}),
        (Chosen(kinds=("barriers",), sources=("race/missing_barrier.cu:1-11",)),
         {("barrier", "missing_barrier.cu:10"), ("barrier_release", "missing_barrier.cu:10")}),
        (Chosen(kinds=("memory",), kernels=("other*",)), set()),
        (Chosen(sources=("barrier.cu:18",)), set()),
    ],
)  # fmt: skip
def test_points_are_chosen(chosen: Chosen, places: set[tuple[str, str]]) -> None:
    assert _places(_plan("missing_barrier", chosen)) == places


def test_what_is_suspicious_comes_first() -> None:
    found = _found("missing_barrier")
    load = next(point for point in found.points if point.opcode == "LDS")
    made = plan_of(["app"], found, Chosen(kinds=("barriers",)), Where(), (load,), **RULE)
    assert [point.kind for point in made.points] == ["shared", "barrier", "barrier_release"]


def test_a_repaired_program_gets_the_points_of_the_broken_one() -> None:
    """The repair moves no line here, but gives the kernel a barrier, other code and other offsets."""
    plan = _plan("missing_barrier", Chosen(kinds=("shared", "barriers")))
    moved, notes = mapped(plan, _found("missing_barrier_fixed"))
    assert notes == []
    assert [(p.kind, p.source) for p in moved.points] == [(p.kind, p.source) for p in plan.points]
    assert {p.code for p in moved.points}.isdisjoint({p.code for p in plan.points})


def test_points_that_the_changed_program_lacks_are_said() -> None:
    plan = _plan("missing_barrier", Chosen(kinds=("shared",)))
    moved, notes = mapped(plan, DiscoveredPoints((), {}, 0, ()))
    assert moved.points == ()
    assert any("STS at" in note and "missing_barrier.cu:12" in note for note in notes)


def test_wrong_choices_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no kind sharde"):
        Chosen(kinds=("sharde",))
    with pytest.raises(UsageError, match="FILE:LOW-HIGH"):
        Chosen(sources=("a.cu:9-3",))
    with pytest.raises(WarpsightError, match="'nothing', which nothing patches"):
        delays.lines(Plan(points=(Point("k", "ab" * 32, 0, "nothing"),), **RULE))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["points", "--warps", "40", "--", "true"], "numbers must be below 32"),
        (["points", "--ctas", "5..2", "--", "true"], "the range is empty"),
        (["points", "--kind", "memroy", "--", "true"], "there is no kind memroy"),
        (["points"], "no program"),
        (["check"], "no program"),
        (["replay", "p.json", "true"], "write -- before the program"),
        (["replay", "p.json", "--table", "x.txt", "--", "true"], "ends in .csv or .parquet"),
    ],
)
def test_a_wrong_command_line_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["race", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_any_instruction_whose_text_matches_is_a_point() -> None:
    trace = EventTrace(FOLDER / "missing_barrier.events.zst")
    kernel = next(iter(trace.launches.values())).said
    listed = [
        [0x10, "S2R R0, SR_TID.X ;", [0]],
        [0x20, "@P0 MEMBAR.SC.GPU ;", []],
        [0x30, "LDS R2, [R3] ;", [2, 3]],
    ]
    trace.file.operands.append({**kernel, "instructions": listed})
    found = matching(trace, ["MEMBAR", "^LDS"])
    assert {(point.pc, point.opcode, point.kind) for point in found} == {
        (0x20, "MEMBAR.SC.GPU", "instruction"), (0x30, "LDS", "instruction"),
    }  # fmt: skip
    (code,) = {point.code for point in found}
    assert code in {point.code for point in _found("missing_barrier").points}
    assert len(matching(trace, ["*"])) == 3
    assert matching(trace, ["ATOMG"]) == set()
