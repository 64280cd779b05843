"""Delays without a GPU: warps of a stand-in come to the points of a plan, and the real library tells them what to do."""

# ruff: noqa: F811 - the fixture is imported
from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from tests.integration.recorded import TIMEOUT
from tests.integration.test_events_standin import Programs, programs  # noqa: F401 - a fixture
from tests.race_model import delays as model
from warpsight.device_code.cubin import Cubin
from warpsight.race import counter, delays
from warpsight.race.plan import Plan, Point, Where
from warpsight.sass.events import tracing

ROOT = Path(__file__).parents[2]


def plan_for(programs: Programs, **changes: object) -> Plan:
    cubin = Cubin.open(programs.cubin)
    section = cubin.section_of(programs.kernel)
    assert section is not None
    code = hashlib.sha256(cubin.instructions(section)).hexdigest()
    points = tuple(
        Point(programs.kernel, code, pc, kind) for pc, kind in ((0x40, "global"), (0x90, "barrier"))
    )
    values = {"mode": "random", "seed": 7, "floor_ns": 10, "ceiling_ns": 90_000, "points": points}
    return Plan(**{**values, **changes})  # type: ignore[arg-type]


def replay(programs: Programs, folder: Path, plan: Plan, *steps: str) -> subprocess.CompletedProcess[str]:
    points = folder / "points"
    points.write_text("\n".join(delays.lines(plan)) + "\n")
    asked = delays.request(
        plan, points, folder / "log", programs.folder / "libsanitizer-public.so", (Path("/p.cubin"),)
    )
    written = [
        s.replace("load", f"load:{programs.cubin}").replace(":K:", f":{programs.kernel}:") for s in steps
    ]
    variables = {tracing.INJECTION: str(programs.library), tracing.REQUEST: "\n".join(asked)}
    return subprocess.run([programs.folder / "program", *written], env={**os.environ, **variables}, capture_output=True,
                          text=True, timeout=TIMEOUT, check=False)  # fmt: skip


def done(folder: Path) -> list[tuple[object, ...]]:
    table = delays.delays_done(folder / "log").drop_columns(["process"])
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def expected(plan: Plan, launches: int, warps: int, times: int) -> list[tuple[object, ...]]:
    """What the Python function says of each (launch, warp, point, occurrence)."""
    rows = []
    for point in plan.points:
        for launch, warp, occurrence in np.ndindex(launches, warps, times):
            ns = int(model.delays(plan, point, launch, 0, warp, occurrence))
            row = (0, point.kernel, launch, 0, warp, point.kernel, point.pc, point.kind, occurrence, ns)
            rows += [row] if ns >= 0 else []
    return sorted(rows)


@pytest.mark.parametrize("probability", [1.0, 0.4])
def test_every_delay_is_the_one_that_the_plan_gives(
    programs: Programs, tmp_path: Path, probability: float
) -> None:
    plan = plan_for(programs, probability=probability)
    run = replay(programs, tmp_path, plan, "load", "launch:K:3:20", "launch:K:3:20")
    assert (run.returncode, run.stdout) == (0, "patched 1\n")
    assert done(tmp_path) == expected(plan, 2, 3, 20)
    assert delays.losses(tmp_path / "log") == []


def test_points_that_are_taken_out_leave_the_delays_of_the_others(programs: Programs, tmp_path: Path) -> None:
    plan = plan_for(programs)
    fewer = msgspec.structs.replace(plan, points=plan.points[1:])
    replay(programs, tmp_path, fewer, "load", "launch:K:2:5")
    assert done(tmp_path) == [row for row in expected(plan, 1, 2, 5) if row[7] == "barrier"]


def test_a_process_takes_other_plans_with_points_of_its_first(programs: Programs, tmp_path: Path) -> None:
    first = plan_for(programs)
    second = plan_for(
        programs, seed=8, ceiling_ns=50, points=first.points[1:], where=Where(ctas=((0, 1), (4, 9)))
    )
    for name, plan in (("first", first), ("second", second)):
        (tmp_path / name).write_text("\n".join(delays.lines(plan)) + "\n")
    steps = [f"plan:{tmp_path / name}" for name in ("second", "first", "none")]
    launch = "launch:K:3:20"
    run = replay(programs, tmp_path, first, "load", launch, steps[0], launch, steps[1], launch, steps[2])
    assert (run.returncode, run.stdout) == (0, "plan 1\nplan 1\nplan 0\npatched 1\n")
    both = {number: {row for row in expected(plan, 3, 3, 20) if row[2] == number}
            for number, plan in ((0, first), (1, second), (2, first))}  # fmt: skip
    assert done(tmp_path) == sorted(both[0] | both[1] | both[2])
    assert delays.losses(tmp_path / "log") == []


@pytest.mark.parametrize(
    ("where", "warps"),
    [(Where(warps=(0, 2)), {0, 2}), (Where(ranks=(1,)), set()), (Where(ctas=((3, 9),)), set()), (Where(streams=(1,)), set()),
     (Where(streams=(0,), ctas=((0, 1),)), {0, 1, 2})],
)  # fmt: skip
def test_only_chosen_warps_wait(programs: Programs, tmp_path: Path, where: Where, warps: set[int]) -> None:
    replay(programs, tmp_path, plan_for(programs, where=where), "load", "launch:K:3:2")
    assert {row[4] for row in done(tmp_path)} == warps


@pytest.mark.parametrize(
    ("where", "said"),
    [(Where(ranks=(1,)), "its clusters have 1 block, but the plan asks for rank 1"),
     (Where(ctas=((3, 9),)), "no chosen warp reached its points"), (Where(), None)],
)  # fmt: skip
def test_a_delay_that_cannot_act_is_said(
    programs: Programs, tmp_path: Path, where: Where, said: str | None
) -> None:
    plan = plan_for(programs, where=where)
    replay(programs, tmp_path, plan, "load", "launch:K:2:1")
    assert [said in note for note in delays.idle(plan, tmp_path / "log")] == ([True] if said else [])
    elsewhere = plan_for(programs, points=(Point("elsewhere", "ab" * 32, 0, "global"),))
    assert delays.idle(elsewhere, tmp_path / "log") == ["elsewhere made no delay: it was not launched"]


def test_other_code_ends_the_program_and_says_which(programs: Programs, tmp_path: Path) -> None:
    plan = plan_for(programs)
    other = tuple(msgspec.structs.replace(point, code="0" * 64) for point in plan.points)
    run = replay(programs, tmp_path, msgspec.structs.replace(plan, points=other), "load", "launch:K:1:1")
    assert run.returncode == 125
    assert f"the code of {programs.kernel} is not the code" in run.stderr
    assert any(programs.kernel in note for note in delays.losses(tmp_path / "log"))


def test_other_code_that_the_plan_knows_runs_undelayed(programs: Programs, tmp_path: Path) -> None:
    plan = plan_for(programs)
    known = {programs.kernel: ("0" * 64, plan.points[0].code)}
    other = tuple(msgspec.structs.replace(point, code="0" * 64) for point in plan.points)
    run = replay(
        programs, tmp_path, msgspec.structs.replace(plan, points=other, code=known), "load", "launch:K:1:1"
    )
    assert (run.returncode, run.stdout, done(tmp_path)) == (0, "patched 0\n", [])


def test_the_host_waits_before_launches(programs: Programs, tmp_path: Path) -> None:
    plan = plan_for(programs)
    host = msgspec.structs.replace(plan.points[0], pc=0, kind=delays.HOST_LAUNCH)
    plan = msgspec.structs.replace(plan, points=(host,))
    replay(programs, tmp_path, plan, "load", *["launch:K:1:1"] * 3)
    assert [row[-1] for row in done(tmp_path)] == [
        int(model.delays(plan, host, n, 0, 0, 0)) for n in range(3)
    ]


def test_a_plan_whose_code_is_not_loaded_changes_nothing(programs: Programs, tmp_path: Path) -> None:
    points = (Point("elsewhere", "ab" * 32, 0, "global"),)
    run = replay(programs, tmp_path, plan_for(programs, points=points), "load", "launch:K:2:5")
    assert (run.returncode, run.stdout, done(tmp_path)) == (0, "patched 0\n", [])


def test_the_devices_rule_gives_the_golden_delays(tmp_path: Path) -> None:
    """The function that the patches compile, compiled for the host, over corners and random arguments."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, library = tmp_path / "rule.cpp", tmp_path / "rule.so"
    source.write_text(
        '#include "sanitizer/delay_rule.h"\n'
        'extern "C" long long delay_of(unsigned long long seed, unsigned long long threshold, unsigned floor, unsigned ceiling,'
        " unsigned point, unsigned occurrence, unsigned launch, unsigned block, unsigned warp) {\n"
        "  return ws_delay_of({seed, threshold, floor, ceiling, 0, 0}, point, occurrence, launch, block, warp);\n}\n"
        'extern "C" long long priority_delay(unsigned long long seed, unsigned floor, unsigned ceiling, unsigned depth,'
        " unsigned steps, unsigned step, unsigned launch, unsigned long long warp, unsigned long long warps) {\n"
        "  return ws_priority_delay({seed, 1ull << 32, floor, ceiling, depth, steps}, step, launch, warp, warps);\n}\n"
    )
    subprocess.run(
        [compiler, "-std=c++17", "-shared", "-fPIC", f"-I{ROOT / 'native'}", "-o", library, source],
        check=True,
    )
    loaded = ctypes.CDLL(str(library))
    _same_priorities(loaded)
    function = loaded.delay_of
    function.restype = ctypes.c_longlong
    function.argtypes = [ctypes.c_uint64, ctypes.c_uint64, *[ctypes.c_uint32] * 7]
    random = np.random.default_rng(1)
    for probability, floor, ceiling in ((1.0, 0, 0), (1.0, 0, 4_000_000_000), (0.3, 5, 70), (0.0, 1, 9)):
        point = Point("k", "ab" * 32, int(random.integers(2**32)), "global")
        plan = Plan(mode="random", seed=int(random.integers(2**63)), probability=probability, floor_ns=floor,
                    ceiling_ns=ceiling, points=(point,))  # fmt: skip
        for place in [*random.integers(0, 2**32, (200, 4)).tolist(), [0] * 4, [2**32 - 1] * 4]:
            launch, block, warp, occurrence = (int(word) for word in place)
            wanted = int(model.delays(plan, point, launch, block, warp, occurrence))
            threshold = counter.threshold(probability)
            assert (
                function(plan.seed, threshold, floor, ceiling, point.number, occurrence, launch, block, warp)
                == wanted
            )


def _same_priorities(library: ctypes.CDLL) -> None:
    function = library.priority_delay
    function.restype = ctypes.c_longlong
    function.argtypes = [ctypes.c_uint64, *[ctypes.c_uint32] * 6, *[ctypes.c_uint64] * 2]
    random = np.random.default_rng(2)
    for depth, floor, ceiling in ((1, 0, 0), (2, 5, 4_000_000_000), (5, 0, 70_000)):
        for warps in (1, 7, 1 << 34):
            plan = Plan(mode="pct", seed=int(random.integers(2**63)), floor_ns=floor, ceiling_ns=ceiling, depth=depth,
                        steps=int(random.integers(1, 9)), points=())  # fmt: skip
            for _ in range(50):
                step, launch, warp = (int(random.integers(limit)) for limit in (12, 4, min(warps, 9)))
                wanted = int(model.priority_delays(plan, launch, warp, step, warps))
                assert wanted == function(
                    plan.seed, floor, ceiling, depth, plan.steps, step, launch, warp, warps
                )


def test_a_schedule_counts_the_steps_of_a_warp_over_all_points(programs: Programs, tmp_path: Path) -> None:
    plan = plan_for(programs, mode="pct", depth=3, steps=20)
    replay(programs, tmp_path, plan, "load", "launch:K:3:10")
    rows = done(tmp_path)
    assert sorted((row[4], row[8]) for row in rows) == [
        (warp, step) for warp in range(3) for step in range(20)
    ]
    assert all(
        row[-1] == model.priority_delays(plan, row[2], row[4], row[8], 3)  # type: ignore[arg-type]
        for row in rows
    )


def test_logs_of_no_run_are_an_empty_table(tmp_path: Path) -> None:
    assert delays.delays_done(tmp_path / "none").num_rows == 0
    assert isinstance(delays.delays_done(tmp_path / "none"), pa.Table)
