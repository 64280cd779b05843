"""On a real GPU: exact counts equal those known by hand, and metrics those of the same kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.test_capture import built

pytestmark = pytest.mark.gpu
SOURCE = Path(__file__).parent / "counts" / "known.cu"
REPETITIONS = 5
#: (part of the kernel's name, begin of an instruction) → in one launch: executions by warps, threads of each that no predicate
#: switched off, all threads of each, and more metrics of each execution.
KNOWN: dict[tuple[str, str], tuple[int, int, int, dict[str, int]]] = {
    ("trips", "FFMA"): (4 * 4 * 100, 32, 32, {}),
    ("diverge", "POPC"): (2 * 2 * 10, 8, 8, {}),
    ("diverge", "BREV"): (2 * 2 * 5, 24, 24, {}),
    ("predicated", "@!P0 STG"): (2 * 2, 16, 32, {}),
    ("predicated", "STG"): (2 * 2, 32, 32, {"sectors_mem_global": 4}),
    ("strided<1>", "LDG"): (2 * 2, 32, 32, {"sectors_mem_global": 4, "sectors_mem_global_ideal": 4}),
    ("strided<8>", "LDG"): (2 * 2, 32, 32, {"sectors_mem_global": 32, "sectors_mem_global_ideal": 4}),
    ("strided<32>", "LDG"): (2 * 2, 32, 32, {"sectors_mem_global": 32, "sectors_mem_global_ideal": 4}),
    ("banks<1>", "LDS"): (1, 32, 32, {"l1tex_pipe_lsu_wavefronts_mem_shared": 1}),
    ("banks<32>", "LDS"): (1, 32, 32, {"l1tex_pipe_lsu_wavefronts_mem_shared": 32}),
}


def counted_as_known(kernels: list[dict[str, Any]], name: str, text: str, repetitions: int) -> None:
    """Compare one instruction of `sass counts --json` with what is known of it."""
    executions, on, threads, more = KNOWN[name, text]
    [kernel] = [kernel for kernel in kernels if name in kernel["name"]]
    [found] = [one for one in kernel["instructions"] if one["sass"].startswith(text)]
    expected = {"inst_executed": executions, "thread_inst_executed": executions * threads,
                "thread_inst_executed_pred_on": executions * on,
                **{metric: value * executions for metric, value in more.items()}}  # fmt: skip
    assert {metric: found["metrics"][metric] for metric in expected} == {
        metric: value * repetitions for metric, value in expected.items()
    }
    assert kernel["launches"] == repetitions


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


def test_metrics_of_a_launch_equal_the_counts(program: Path, kernels: Any) -> None:
    rows = sass("metrics", "-m", "smsp__inst_executed.sum", "--json", "--", str(program), str(REPETITIONS))
    by_name = {row["name"]: row for row in rows}
    assert by_name["trips"]["times"] == REPETITIONS
    [trips] = [kernel for kernel in kernels if kernel["name"].startswith("trips")]
    assert by_name["trips"]["mean"] * REPETITIONS == trips["executions"]


def test_a_launch_takes_one_pass(program: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "warpsight",
        "sass",
        "metrics",
        "-m",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ]
    done = subprocess.run([*command, "--", str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "passes and a launch takes one" in done.stderr


def test_samples_show_when_the_gpu_worked(program: Path) -> None:
    rows = sass(
        "metrics", "-m", "sm__inst_executed.sum", "--every-us", "100", "--json", "--", str(program), "500"
    )
    assert rows[0]["samples"] > 10
    assert rows[0]["max"] > 0


def test_a_kernel_reaches_no_more_than_its_roof(program: Path) -> None:
    roofs = sass("counts", "--roofline", "--json", "--", str(program), "3")["rooflines"]
    assert {roof["launches"] for roof in roofs} == {3}
    assert all(0 < roof["share_of_roof"] <= 1 for roof in roofs)
