"""Races and their repaired twins on a real GPU: rare by themselves, provoked, reduced to the broken line, named by detectors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warpsight.race import delays, plan, points, prepare
from warpsight.race.check import check
from warpsight.race.plan import Where

pytestmark = pytest.mark.gpu

FOLDER = Path(__file__).parent / "race"
SOURCES = sorted(FOLDER.glob("*.cu"))
#: Fails by itself now and then, by weak memory alone: which waiting does not provoke, since it gives stores time to arrive.
WEAK = "weak_message"
NAMES = [source.stem for source in SOURCES if source.stem != WEAK]
#: Lanes of one warp wait together, whatever side of a branch they are on.
NOT_PROVOKED = {"divergent_exchange"}
#: The lines on both sides of the hand-over that is broken.
BROKEN = {
    "cluster_peer_exits": {15}, "double_buffer": {14, 17}, "flag_without_fence": {8, 18}, "lock_without_acquire": {13, 14},
    "missing_barrier": {12, 18}, "split_k": {10}, "tma_without_wait": {21, 27}, "two_streams": {4, 8},
    "wrong_named_barrier": {15, 16, 23}, "wrong_phase": {20, 27}, "wrong_scope": {18, 27},
}  # fmt: skip
SECONDS = 60
LAUNCHES, SEEDS = 200, 6


#: End of a built file's name and the flags that make it; the libraries are for trials in one process.
_LIBRARY = ["-shared", "-Xcompiler", "-fPIC"]
_KINDS: tuple[tuple[str, list[str]], ...] = (
    ("", []),
    ("_fixed", ["-DFIXED"]),
    (".so", _LIBRARY),
    ("_fixed.so", [*_LIBRARY, "-DFIXED"]),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, and with `_fixed` behind the name their twins; each as a library too."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    made = tmp_path_factory.mktemp("race")
    builds = [
        subprocess.Popen(["nvcc", "-O2", "-lineinfo", "-gencode", "arch=compute_90a,code=sm_90a", *flags, "-o",
                          made / f"{source.stem}{end}", source])
        for source in SOURCES for end, flags in _KINDS
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


def _race(verb: str, out: Path, library: Path, *words: str) -> dict[str, Any]:
    """What `race stress` or `race reduce` says of the trials of a library."""
    command = [
        sys.executable,
        "-m",
        "warpsight",
        "race",
        verb,
        "--json",
        "-o",
        str(out),
        *words,
        "--",
        sys.executable,
    ]
    run = subprocess.run(
        [*command, str(FOLDER / "trials.py"), str(library), "4"], capture_output=True, text=True, check=False
    )
    assert "{" in run.stdout, run.stderr
    told: dict[str, Any] = json.loads(run.stdout[run.stdout.index("{") :])
    return told


@pytest.mark.parametrize("name", BROKEN)
def test_stress_reproduces_it_and_reduce_ends_on_the_broken_line(
    folder: Path, name: str, tmp_path: Path
) -> None:
    stressed = _race(
        "stress", tmp_path / "s", folder / f"{name}.so", f"--for={SECONDS}", "--directed", "--in-process=100"
    )
    assert stressed["verdict"] == "reproduced"
    plan_of_failure = str(tmp_path / "s" / "failing.json")
    reduced = _race("reduce", tmp_path / "r", folder / f"{name}.so", "--in-process=20", plan_of_failure)
    assert reduced["verdict"] == "reduced"
    lines = [line.rpartition("/")[2] for point in reduced["points"] for line in point["source"]]
    assert {f"{name}.cu:{line}" for line in BROKEN[name]} & {*lines}, lines
    limit = f"--for={max(10, stressed['seconds']):.0f}"
    twin = _race("stress", tmp_path / "t", folder / f"{name}_fixed.so", limit, "--in-process=100")
    assert (twin["verdict"], twin["delayed"]["failures"], twin["control"]["failures"]) == (
        "not reproduced",
        0,
        0,
    )


def test_memory_stress_leaves_a_program_with_fences_right(folder: Path, tmp_path: Path) -> None:
    words = ("--memory", "--for=20", "--in-process=100")
    racy = _race("stress", tmp_path / "s", folder / f"{WEAK}.so", *words)
    assert racy["verdict"] in ("reproduced", "natural") and racy["cause"] == "memory stress"
    twin = _race("stress", tmp_path / "t", folder / f"{WEAK}_fixed.so", *words)
    assert (twin["verdict"], twin["delayed"]["failures"]) == ("not reproduced", 0)
    assert twin["delayed"]["trials"] > 100


@pytest.mark.parametrize("name", NAMES)
def test_the_detectors_name_it_and_not_its_twin(folder: Path, name: str) -> None:
    found = check([str(folder / name), "2"])
    lines = {line.partition(":")[0] for suspect in found.suspects for line in suspect.lines}
    assert f"{name}.cu" in lines
    assert all(suspect.repair for suspect in found.suspects)
    assert not check([str(folder / f"{name}_fixed"), "2"]).racy


@pytest.mark.parametrize("mode", ["random", "pct"])
def test_the_same_plan_gives_the_same_delays(folder: Path, tmp_path: Path, mode: str) -> None:
    chosen = _plans(folder / "double_buffer", tmp_path)[0]
    if mode == "pct":
        plan.write(prepare.by_priorities(plan.read(chosen), depth=3).plan, chosen)
    logs = []
    for attempt in ("first", "second"):
        _wrong(folder / "double_buffer", 50, **delays.environment(chosen, tmp_path / attempt))
        rows = delays.delays_done(tmp_path / attempt).drop_columns(["process"]).to_pylist()
        logs.append({tuple(v for k, v in row.items() if k != "delay_ns"): row["delay_ns"] for row in rows})
    both = logs[0].keys() & logs[1].keys()
    assert len(both) > 1000
    assert all(logs[0][key] == logs[1][key] for key in both)


def test_the_tutorials_gemm_races_until_it_has_its_barrier(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    text = (Path(__file__).parents[2] / "docs" / "tutorial" / "flaky-gemm.md").read_text()
    racy = (Path(__file__).with_name("race") / "gemm.py").read_text()
    end, repair = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]
    last = "    tl.atomic_xchg(turn, part + 1)\n"
    assert end in racy and racy.count(last) == 1 and repair.endswith("    tl.debug_barrier()\n" + last)
    programs = tmp_path / "gemm.py", tmp_path / "fixed.py"
    for program, code in zip(
        programs, (racy, racy.replace(last, "    tl.debug_barrier()\n" + last)), strict=True
    ):
        program.write_text(code)
    line = racy[: racy.index("    tl.store(")].count("\n") + 1
    found, silent = (check([sys.executable, str(program), "2"], ["gemm_kernel"]) for program in programs)
    assert {where for suspect in found.suspects for where in suspect.lines} == {f"gemm.py:{line}"}
    assert all("tl.debug_barrier()" in suspect.repair for suspect in found.suspects)
    assert not silent.racy
