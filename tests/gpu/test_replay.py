"""Replays on a real GPU: kernels of every kind leave the bytes that another process left, or are named as varying."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent / "replay"


@pytest.fixture(scope="module")
def capsules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    folder = tmp_path_factory.mktemp("replay")
    cubin = folder / "kernels.cubin"
    subprocess.run(
        ["nvcc", "-cubin", "-std=c++17", "-arch=native", "-o", cubin, HERE / "kernels.cu"], check=True
    )
    subprocess.run([sys.executable, HERE / "make_capsules.py", cubin, folder / "made"], check=True)
    return folder / "made"


def replay(capsule: Path, *options: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", "replay", str(capsule), "--json", *options],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", ["saxpy", "clusters", "cooperative", "tensor", "through_globals"])
def test_deterministic_kernels_are_bit_exact(capsules: Path, name: str) -> None:
    code, found = replay(capsules / f"{name}.capsule", "-n", "5")
    assert code == 0 and found["verdict"] == "bit-exact", found


def test_atomics_are_named(capsules: Path) -> None:
    code, found = replay(capsules / "atomic_sum.capsule", "-n", "20")
    assert code == 5 and found["versions"][0]["runs_differ"][0]["kernel"] == "atomic_sum", found


def test_an_access_outside_is_found(capsules: Path) -> None:
    assert replay(capsules / "saxpy.capsule", "--check-reach")[0] == 0
    assert replay(capsules / "reads_beyond.capsule", "--check-reach")[0] == 7


@pytest.mark.parametrize("schedule", ["graph", "original"])
def test_other_schedules_leave_the_same_bytes(capsules: Path, schedule: str) -> None:
    assert replay(capsules / "saxpy.capsule", "--schedule", schedule)[0] == 0


@pytest.mark.parametrize(
    "tool", ["compute-sanitizer --tool memcheck", "ncu --metrics gpu__time_duration.sum"]
)
def test_tools_find_the_kernels(capsules: Path, tool: str) -> None:
    if shutil.which(tool.split()[0]) is None:
        pytest.skip(f"no {tool}")
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", "replay", str(capsules / "tensor.capsule"), "--under", tool],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "bit-exact" in done.stdout
