"""Occupancy against NVIDIA's own calculator (cuda_occupancy.h), where the CUDA toolkit is installed, and against its answers."""

import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.analysis.conftest import device, kernel
from warpsight.analysis.occupancy.kernels import occupancy
from warpsight.analysis.occupancy.limits import blocks_per_multiprocessor, limits

HEADER = Path("/usr/local/cuda/include/cuda_occupancy.h")
CAPABILITIES = ("6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
CASES = list(itertools.product((1, 32, 33, 96, 128, 192, 256, 512, 640, 1024), (0, 16, 24, 32, 40, 64, 80, 96, 128, 168, 255),
                               (0, 100, 1024, 9_000, 33_000, 49_152)))  # fmt: skip
PROGRAM = """
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
  int major, minor, threads, regs, shared, reserved, block, r;
  long s;
  while (scanf("%d %d %d %d %d %d %d %d %ld", &major, &minor, &threads, &regs, &shared, &reserved, &block, &r, &s) == 9) {
    cudaOccDeviceProp p = cudaOccDeviceProp();
    p.computeMajor = major; p.computeMinor = minor; p.maxThreadsPerBlock = 1024; p.maxThreadsPerMultiprocessor = threads;
    p.regsPerBlock = 65536; p.regsPerMultiprocessor = regs; p.warpSize = 32; p.sharedMemPerBlock = 49152;
    p.sharedMemPerMultiprocessor = shared; p.numSms = 1; p.sharedMemPerBlockOptin = shared - reserved;
    p.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes a = cudaOccFuncAttributes();
    a.maxThreadsPerBlock = 1024; a.numRegs = r; a.sharedSizeBytes = 0; a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    a.maxDynamicSharedSizeBytes = s;
    cudaOccDeviceState state = cudaOccDeviceState();
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    int error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &p, &a, &state, block, s);
    printf("%d\\n", error ? -error : result.activeBlocksPerMultiprocessor);
  }
}
"""


@pytest.mark.skipif(
    not HEADER.is_file() or shutil.which("g++") is None, reason="no cuda_occupancy.h or no g++ here"
)
def test_blocks_per_multiprocessor_are_those_of_cuda_occupancy(tmp_path):
    (tmp_path / "occupancy.cpp").write_text(PROGRAM)
    command = ["g++", "-I", str(HEADER.parent), "-o", "occupancy", "occupancy.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    asked, own = [], []
    for capability in CAPABILITIES:
        of = limits(capability)
        for block, registers, shared in CASES:
            major, minor = capability.split(".")
            asked.append(
                f"{major} {minor} {of.threads} {of.registers} {of.shared} {of.reserved} {block} {registers} {shared}"
            )
            own.append(blocks_per_multiprocessor(of, block, registers, shared)[0])
    run = subprocess.run(
        [str(tmp_path / "occupancy")], input="\n".join(asked), capture_output=True, text=True, check=True
    )
    answers = [int(line) for line in run.stdout.split()]
    assert len(answers) == len(own) == len(CAPABILITIES) * len(CASES)
    wrong = [(question, a, b) for question, a, b in zip(asked, answers, own, strict=True) if a != b]
    assert not wrong, wrong[:10]


@pytest.mark.parametrize(
    ("capability", "block", "registers", "shared", "expected"),
    [
        ("9.0", 256, 32, 0, (8, "warps+registers")),
        ("9.0", 128, 168, 0, (3, "registers")),
        ("9.0", 128, 32, 227 * 1024, (1, "shared")),
        ("9.0", 32, 16, 0, (32, "blocks")),
        ("8.6", 1024, 64, 0, (1, "warps+registers")),
        ("8.9", 32, 16, 0, (24, "blocks")),
        ("7.5", 1024, 32, 0, (1, "warps")),
        ("9.0", 1024, 255, 0, (0, "registers")),
        ("9.0", 32, 256, 0, (8, "registers")),
        ("9.0", 32, 257, 0, (0, "registers")),
        ("9.0", 2048, 16, 0, (0, "block size")),
    ],
)
def test_what_limits_a_kernel(capability, block, registers, shared, expected):
    assert blocks_per_multiprocessor(limits(capability), block, registers, shared) == expected


def test_the_carve_out_the_driver_chose_limits_blocks_too():
    assert blocks_per_multiprocessor(limits("9.0"), 64, 16, 1024, 32 * 1024) == (16, "shared")


def test_limits_the_device_told_win_and_unknown_devices_have_none():
    assert limits("9.0", shared=100 * 1024).shared == 100 * 1024
    assert limits("9.5") == limits("9.0")
    for unknown in (None, "", "gfx942", "99.0", "9"):
        assert limits(unknown) is None


def test_waves_and_tail(build):
    """132 multiprocessors × 8 blocks of 256 threads: 1,584 blocks are one and a half waves."""
    shape = {
        "grid_x": 1_584,
        "grid_y": 1,
        "grid_z": 1,
        "block_x": 256,
        "block_y": 1,
        "block_z": 1,
        "registers": 32,
    }
    gpu = device(0, compute_capability="9.0", multiprocessors=132)
    trace = build(
        shapes=(shape,), device=[gpu], kernel=[kernel(0, 100, shape_id=1), kernel(200, 300, shape_id=1)]
    )
    (row,) = occupancy(trace).tables["occupancy"].to_pylist()
    assert (row["grid"], row["block"], row["kernels"], row["time"]) == ("1584×1×1", "256×1×1", 2, 400)
    assert (row["blocks_per_multiprocessor"], row["occupancy"], row["waves"], row["last_wave"]) == (
        8,
        1.0,
        1.5,
        0.5,
    )
    assert (row["tail_share"], row["tail_time"]) == (0.25, 100)
    (total,) = occupancy(trace).tables["devices"].to_pylist()
    assert (total["occupancy"], total["tail_share"]) == (1.0, 0.25)


def test_a_grid_that_is_not_known_has_no_waves(build: Callable[..., Any]) -> None:
    shape = {"block_x": 256, "block_y": 1, "block_z": 1, "registers": 32}
    gpu = device(0, compute_capability="9.0", multiprocessors=132)
    trace = build(shapes=(shape,), device=[gpu], kernel=[kernel(0, 100, shape_id=1)])
    (row,) = occupancy(trace).tables["occupancy"].to_pylist()
    assert row["occupancy"] == 1 and row["waves"] is row["last_wave"] is row["tail_time"] is None


def test_a_device_of_another_vendor_is_not_judged_and_that_is_said(build):
    shape = {"grid_x": 10, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    gpu = {**device(0), "vendor": "AMD", "compute_capability": "9.0"}
    result = occupancy(build(shapes=(shape,), device=[gpu], kernel=[kernel(0, 100, shape_id=1)]))
    assert result.tables["occupancy"].to_pylist()[0]["occupancy"] is None
    assert [f.values for f in result.findings] == [{"kernels": 1, "of": 1}]


@pytest.mark.parametrize(
    ("capability", "threads", "blocks", "shared"),
    [  # the table of compute capabilities in NVIDIA's programming guide
        ("5.0", 2048, 32, 64), ("5.2", 2048, 32, 96), ("5.3", 2048, 32, 64), ("6.0", 2048, 32, 64), ("6.1", 2048, 32, 96),
        ("6.2", 2048, 32, 64), ("7.0", 2048, 32, 96), ("7.2", 2048, 32, 96), ("7.5", 1024, 16, 64), ("8.0", 2048, 32, 164),
        ("8.6", 1536, 16, 100), ("8.7", 1536, 16, 164), ("8.9", 1536, 24, 100), ("9.0", 2048, 32, 228),
        ("10.0", 2048, 32, 228), ("12.0", 1536, 24, 100), ("12.9", 1536, 24, 100), ("8.1", 2048, 32, 164),
    ],
)  # fmt: skip
def test_limits_are_those_of_the_capability_or_of_the_newest_before_it(capability, threads, blocks, shared):
    found = limits(capability)
    assert (found.threads, found.blocks, found.shared, found.registers) == (
        threads,
        blocks,
        shared * 1024,
        65_536,
    )
