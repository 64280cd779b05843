"""Memory stress without a GPU: what the real library launches beside a program, as a stand-in of the driver sees it."""

# ruff: noqa: F811 - the fixture is imported
from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT
from tests.integration.test_events_standin import Programs, programs  # noqa: F401 - a fixture
from warpsight.errors import UsageError
from warpsight.race import delays, plan
from warpsight.race.experiment import Experiment
from warpsight.race.plan import Plan
from warpsight.race.search.reduction import reduce
from warpsight.sass.events import tracing

Rows = list[list[int]]


def run(
    programs: Programs, folder: Path, *words: str, standin: str = "", **changes: object
) -> tuple[int, str, Rows]:
    """Exit code, standard error, and a row for each launch."""
    values = {"mode": "memory", "seed": 5, "floor_ns": 0, "ceiling_ns": 9000, "points": (), **changes}
    plan.write(Plan(**values), folder / "plan.json")  # type: ignore[arg-type]
    asked = delays.environment(folder / "plan.json")
    launches = folder / "launches"
    launches.unlink(missing_ok=True)
    variables = {**os.environ, tracing.REQUEST: asked[tracing.REQUEST], tracing.INJECTION: str(programs.library),
                 "STANDIN_LAUNCHES": str(launches), "STANDIN": standin}  # fmt: skip
    done = subprocess.run([programs.folder / "stressed", *words], env=variables, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)  # fmt: skip
    lines = launches.read_text().splitlines() if launches.exists() else []
    return done.returncode, done.stderr, [[int(word) for word in line.split()] for line in lines]


def test_the_same_plan_launches_the_same_kernels(programs: Programs, tmp_path: Path) -> None:
    code, _, first = run(programs, tmp_path, "200")
    again = run(programs, tmp_path, "200")[2]
    assert code == 0 and first[:200] == again[:200]
    assert run(programs, tmp_path, "200", seed=6)[2][:200] != first[:200]


def test_kernels_differ_in_everything_and_stay_within_the_plan(programs: Programs, tmp_path: Path) -> None:
    rows = run(programs, tmp_path, "400", floor_ns=1000)[2]
    blocks, threads, shared, ns, seed, lines, stride, mask, pattern = zip(*rows, strict=True)
    assert min(blocks) >= 26 and 110 < max(blocks) <= 125  # of 100 multiprocessors
    assert set(threads) == {128, 256, 512, 1024} and set(shared) == {0, 100}
    assert min(ns) >= 1000 and max(ns) <= 9000 and len(set(seed)) > 390
    assert set(lines) == {2**k for k in range(8)} and set(stride) == {32 << k for k in range(8)}
    assert {(words + 32) * 4 for words in mask} == {32 << 20}  # halved where there was no more
    assert 0.4 < pattern.count(0) / len(pattern) < 0.6  # half of them load only


def test_the_control_arm_launches_nothing(programs: Programs, tmp_path: Path) -> None:
    assert run(programs, tmp_path, probability=0.0, standin="inactive") == (0, "", [])
    assert run(programs, tmp_path, "0", "7", probability=0.0) == (
        0,
        "",
        [],
    )  # trials are switched as with delays


def test_a_program_that_was_not_stressed_cannot_be_judged(programs: Programs, tmp_path: Path) -> None:
    code, errors, rows = run(programs, tmp_path, standin="inactive")
    assert (code, rows) == (125, [])
    assert errors.startswith("warpsight: memory was not stressed")


def test_memory_stress_has_no_points_to_reduce(tmp_path: Path) -> None:
    made = Plan(mode="memory", seed=1, floor_ns=0, ceiling_ns=1, points=())
    with pytest.raises(UsageError, match="no points"):
        reduce(Experiment.of(["true"], tmp_path / "r"), made)
