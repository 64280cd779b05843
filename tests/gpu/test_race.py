"""Twelve races and their repaired twins on a real GPU: rare without delays, provoked with them, named by the detectors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from warpsight.race import delays, plan, points, prepare
from warpsight.race.check import check
from warpsight.race.plan import Where

pytestmark = pytest.mark.gpu

SOURCES = sorted((Path(__file__).parent / "race").glob("*.cu"))
NAMES = [source.stem for source in SOURCES]
#: Lanes of one warp wait together, whatever side of a branch they are on.
NOT_PROVOKED = {"divergent_exchange"}
LAUNCHES, SEEDS = 200, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, and with `_fixed` behind the name their twins."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    made = tmp_path_factory.mktemp("race")
    builds = [
        subprocess.Popen(["nvcc", "-O2", "-lineinfo", "-gencode", "arch=compute_90a,code=sm_90a", *flags, "-o",
                          made / f"{source.stem}{end}", source])
        for source in SOURCES for end, flags in (("", []), ("_fixed", ["-DFIXED"]))
    ]  # fmt: skip
    assert [build.wait() for build in builds] == [0] * len(builds)
    return made


def _wrong(program: Path, launches: int, **variables: str) -> int:
    run = subprocess.run(
        [program, str(launches)], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    said = re.match(r"wrong (\d+) of", run.stdout)
    assert said is not None, run.stdout + run.stderr
    return int(said.group(1))


def _plans(program: Path, folder: Path) -> list[Path]:
    found = points.discover([str(program), "2"])
    made = []
    for seed in range(SEEDS):
        written = prepare.plan_of(
            [str(program)], found, points.Chosen(kinds=points.PATCHED), Where(), mode="random", seed=seed, probability=0.5,
            floor_ns=0, ceiling_ns=50_000,
        )  # fmt: skip
        made.append(folder / f"{program.name}.{seed}.json")
        plan.write(written, made[-1])
    return made


@pytest.mark.parametrize("name", NAMES)
def test_the_race_is_rare(folder: Path, name: str) -> None:
    assert _wrong(folder / name, 1000) < 10
    assert _wrong(folder / f"{name}_fixed", 1000) == 0


@pytest.mark.parametrize("name", sorted({*NAMES} - NOT_PROVOKED))
def test_delays_provoke_it_and_not_its_twin(folder: Path, name: str, tmp_path: Path) -> None:
    wrong = [
        _wrong(folder / name, LAUNCHES, **delays.environment(one)) for one in _plans(folder / name, tmp_path)
    ]
    assert any(wrong)
    twin = folder / f"{name}_fixed"
    assert not any(_wrong(twin, LAUNCHES, **delays.environment(one)) for one in _plans(twin, tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_the_detectors_name_it_and_not_its_twin(folder: Path, name: str) -> None:
    found = check([str(folder / name), "2"])
    lines = {line.partition(":")[0] for suspect in found.suspects for line in suspect.lines}
    assert f"{name}.cu" in lines
    assert all(suspect.repair for suspect in found.suspects)
    assert not check([str(folder / f"{name}_fixed"), "2"]).racy


def test_the_same_plan_gives_the_same_delays(folder: Path, tmp_path: Path) -> None:
    chosen = _plans(folder / "double_buffer", tmp_path)[0]
    logs = []
    for attempt in ("first", "second"):
        _wrong(folder / "double_buffer", 20, **delays.environment(chosen, tmp_path / attempt))
        rows = delays.delays_done(tmp_path / attempt).drop_columns(["process"]).to_pylist()
        logs.append({tuple(v for k, v in row.items() if k != "delay_ns"): row["delay_ns"] for row in rows})
    both = logs[0].keys() & logs[1].keys()
    assert len(both) > 1000
    assert all(logs[0][key] == logs[1][key] for key in both)
