"""On a real GPU: exact counts equal those known by hand, and metrics those of the same kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.counts.known import KNOWN, SOURCE, added_by_cupti, counted_as_known, launches
from tests.gpu.test_capture import built

pytestmark = pytest.mark.gpu
REPETITIONS = 5


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(
        SOURCE, tmp_path_factory.mktemp("known") / "known", "-std=c++17", "-O3", "-lineinfo", "-arch=native"
    )


def sass(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", "sass", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def kernels(program: Path) -> Any:
    return sass("counts", "--json", "--", str(program), str(REPETITIONS))["kernels"]


@pytest.mark.parametrize(("name", "text"), KNOWN)
def test_counts_equal_what_is_known(kernels: Any, name: str, text: str) -> None:
    counted_as_known(kernels, name, text, REPETITIONS)


def test_metrics_of_a_launch_equal_the_counts_and_what_cupti_adds(program: Path, kernels: Any) -> None:
    rows = sass("metrics", "-m", "smsp__inst_executed.sum", "--json", "--", str(program), str(REPETITIONS))
    by_name = {row["name"]: row for row in rows}
    assert by_name["trips"]["times"] == REPETITIONS
    [trips] = [kernel for kernel in kernels if kernel["name"].startswith("trips")]
    [launch] = [launch for launch in launches() if launch.kernel == "trips"]
    assert by_name["trips"]["mean"] == trips["executions"] / REPETITIONS + added_by_cupti(launch)


def test_metrics_of_several_passes_take_several_runs(program: Path, kernels: Any) -> None:
    names = "sm__throughput.avg.pct_of_peak_sustained_elapsed,smsp__inst_executed.sum"
    rows = sass("metrics", "-m", names, "--json", "--", str(program), str(REPETITIONS))
    found = {(row["name"], row["metric"].partition(".")[0]): row for row in rows}
    [trips] = [kernel for kernel in kernels if kernel["name"].startswith("trips")]
    assert found["trips", "smsp__inst_executed"]["mean"] >= trips["executions"] / REPETITIONS
    assert 0 < found["trips", "sm__throughput"]["mean"] < 100


def test_samples_show_when_the_gpu_worked(program: Path) -> None:
    rows = sass(
        "metrics", "-m", "sm__inst_executed.sum", "--every-us", "100", "--json", "--", str(program), "500"
    )
    assert rows[0]["samples"] > 10
    assert rows[0]["max"] > 0


def test_a_kernel_reaches_no_more_than_its_roof_while_it_is_alone(program: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "warpsight",
        "sass",
        "counts",
        "--roofline",
        "--json",
        "--",
        program,
        "3",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    roofs = json.loads(done.stdout)["rooflines"]
    assert {roof["launches"] for roof in roofs} == {3}
    assert min(roof["share_of_roof"] for roof in roofs) > 0
    assert (max(roof["share_of_roof"] for roof in roofs) > 1) == ("other processes" in done.stderr)
