"""Work of many kinds, cut out of running programs, leaves the same bytes in a process of its own."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
CUT = ("--range", "cut")

# What is cut: program, options of `capsule record`.
TORCH = {
    name: ("work.py", name, CUT)
    for name in (
        "triton_add", "triton_softmax", "triton_tma", "gemm_bf16", "gemm_fp32", "gemm_batched", "attention_cudnn",
        "attention_flash", "attention_efficient", "convolution", "softmax", "layer_norm", "sort", "cumulative_sum",
        "graph",
    )
}  # fmt: skip
CUDA = {
    "pointers_in_memory": ("capsule_add", ("-k", "*add_listed*", "--launch", "0")),
    "memory_of_a_pool": ("capsule_add", ("-k", "*add_listed*", "--launch", "1")),
    "tensor_map": ("capsule_tma", ()),
    "sort_and_sum": ("replay/sort", CUT),
    "one_pass_of_a_sort": ("replay/sort", ("-k", "*Onesweep*", "--launch", "2")),
}
VARYING = ("triton_atomics", "index_add", "attention_backward")


def _warpsight(*arguments: str | Path, code: int | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", *arguments], capture_output=True, text=True, check=False
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def _replay(capsule: Path, *options: str) -> tuple[int, Any]:
    done = _warpsight("replay", capsule, "--json", *options)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _cut(folder: Path, options: tuple[str, ...], *program: str | Path) -> Path:
    out = folder / "x.capsule"
    _warpsight("capsule", "record", "-o", out, *options, "--", *program, code=0)
    return out


def _cut_torch(folder: Path, name: str) -> Path:
    pytest.importorskip("triton")
    return _cut(folder, CUT, sys.executable, HERE / "replay" / "work.py", name)


@pytest.mark.parametrize("name", TORCH)
def test_work_of_pytorch_and_triton_is_bit_exact(tmp_path: Path, name: str) -> None:
    capsule = _cut_torch(tmp_path, name)
    code, found = _replay(capsule, "-n", "5")
    assert code == 0 and found["verdict"] == "bit-exact", found
    assert _replay(capsule, "--check-reach")[0] == 0


@pytest.mark.parametrize("name", CUDA)
def test_work_of_cuda_is_bit_exact(tmp_path: Path, name: str) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    source, options = CUDA[name]
    program = tmp_path / "program"
    subprocess.run(
        ["nvcc", "-O2", "-std=c++17", "-arch=sm_90a", "-o", program, HERE / f"{source}.cu"], check=True
    )
    capsule = _cut(tmp_path, options, program)
    code, found = _replay(capsule, "-n", "5")
    assert code == 0 and found["verdict"] == "bit-exact", found
    assert _replay(capsule, "--check-reach")[0] == 0


@pytest.mark.parametrize("name", VARYING)
def test_atomics_are_named(tmp_path: Path, name: str) -> None:
    code, found = _replay(_cut_torch(tmp_path, name), "-n", "20")
    assert code == 5 and found["versions"][0]["runs_differ"][0]["kernel"], found


def test_a_decode_step_takes_as_long_as_in_its_program(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = (sys.executable, HERE / "replay" / "decode.py")
    alone = float(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    code, found = _replay(_cut(tmp_path, ("--step", "20"), *program), "-n", "20")
    assert code == 0, found
    replayed = statistics.median(found["versions"][0]["totals_ns"]) / 1000
    assert abs(replayed - alone) < 0.05 * alone, (replayed, alone)
