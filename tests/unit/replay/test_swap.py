"""Another version of a kernel is found in its file, and refused when it takes other parameters."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.standin import replaying
from warpsight.errors import UsageError
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.swap import replacements

SAME = "__global__ void scale(float* y, const float* x, float a, int n) { y[threadIdx.x] = a * x[n]; }"
OTHER = "__global__ void scale(double* y, int n) { y[threadIdx.x] = n; }"


@pytest.fixture
def capsule(tmp_path: Path) -> Capsule:
    return replaying.write(tmp_path / "x.capsule")


def swap(capsule: Capsule, folder: Path, name: str, text: str, kernel: str = "scale") -> str:
    (folder / name).write_text(text)
    found, _ = replacements(capsule, [f"{kernel}={folder / name}"], folder)
    return found[0].name


def test_kernels_of_ptx_are_found(capsule: Capsule, tmp_path: Path) -> None:
    entry = ".visible .entry {}(\n.param .u64 a) {{ ret; }}\n"
    assert swap(capsule, tmp_path, "a.ptx", entry.format("only")) == "only"
    both = entry.format("first") + entry.format("_Z5scalePfPKffi")
    assert swap(capsule, tmp_path, "b.ptx", both) == "_Z5scalePfPKffi"
    with pytest.raises(UsageError, match="it has first, second"):
        swap(capsule, tmp_path, "c.ptx", entry.format("first") + entry.format("second"))


def test_a_wrong_name_lists_the_right_ones(capsule: Capsule, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it has: scale"):
        swap(capsule, tmp_path, "a.ptx", ".entry x(", kernel="gemm")
    for text in ("scale", "scale=x.txt", "scale=missing.cubin"):
        with pytest.raises(UsageError, match="--swap"):
            replacements(capsule, [text], tmp_path)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_sources_are_compiled_and_their_parameters_compared(capsule: Capsule, tmp_path: Path) -> None:
    assert swap(capsule, tmp_path, "same.cu", SAME) == "_Z5scalePfPKffi"
    with pytest.raises(UsageError, match="takes 0:8 8:4, the recorded kernel 0:8 8:8 16:4 20:4"):
        swap(capsule, tmp_path, "other.cu", OTHER)
    with pytest.raises(UsageError, match=r"nvcc cannot compile .*broken\.cu:\n.*error"):
        swap(capsule, tmp_path, "broken.cu", SAME.replace("a *", "b *"))
