"""Races that are found on the device while kernels run: planted ones, and none in their repaired twins and in libraries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.sass.events import tracing
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races.detect import Races, checked

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "race").glob("*.cu"))
#: What is no race within a launch: the end of a block, and two streams; a bulk copy whose mbarrier reads as empty; and
#: volatile accesses alone, which only the memory swaps.
NOT_TOLD = {"cluster_peer_exits", "two_streams", "tma_without_wait", "weak_message"}
#: Kernels of torch: CUB, cuDNN, cuBLAS and its own.
LIBRARIES = """
import torch, torch.nn.functional as F
d = "cuda"
x = torch.randn(256, 1024, device=d)
torch.sort(torch.randn(1 << 16, device=d)); torch.sort(torch.randn(64, 900, device=d)); x.sum(); x.mean(1)
torch.topk(torch.randn(32, 5000, device=d), 10); torch.histc(torch.randn(1 << 16, device=d), 64)
torch.softmax(x, 1); F.layer_norm(x, (1024,))
F.conv2d(torch.randn(4, 16, 32, 32, device=d), torch.randn(32, 16, 3, 3, device=d), padding=1)
ones = torch.ones(1 << 18, device=d)
assert torch.equal(torch.cumsum(ones, 0), torch.arange(1, (1 << 18) + 1, device=d).float())
assert len(torch.unique(torch.arange(1 << 16, device=d) % 1000)) == 1000 and len(torch.nonzero(ones)) == 1 << 18
torch.randn(512, 512, device=d) @ torch.randn(512, 512, device=d)
torch.cuda.synchronize()
"""
#: Lanes whose addresses the compiler does not know to be in global or in shared memory.
GENERIC = """
#include <cstdio>
__device__ __noinline__ int added(volatile int* p) { return *p += 1; }
__global__ void generic(int* all) {
  __shared__ int own[64];
  own[threadIdx.x] = 1;
  all[threadIdx.x] = 1;
  __syncthreads();
  for (int i = 0; i < 50; ++i) added(threadIdx.x % 3 ? own + threadIdx.x : all + threadIdx.x);
  all[threadIdx.x] = threadIdx.x % 3 ? own[threadIdx.x] : all[threadIdx.x];
}
int main() {
  int *all, wrong = 0, host[64];
  cudaMalloc(&all, sizeof host);
  generic<<<1, 64>>>(all);
  cudaMemcpy(host, all, sizeof host, cudaMemcpyDeviceToHost);
  for (int value : host) wrong += value != 51;
  puts(cudaGetErrorString(cudaGetLastError()));
  return wrong;
}
"""


def _built(
    source: Path,
    target: Path,
    *flags: str,
    arguments: tuple[str, ...] = ("-gencode", "arch=compute_90a,code=sm_90a"),
) -> Path:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    command = [
        "nvcc",
        "-O2",
        "-lineinfo",
        *arguments,
        *flags,
        "-o",
        target,
        source,
    ]
    subprocess.run(command, check=True)
    return target


def _checked(folder: Path, *program: str, codes: tuple[int, ...] = (0,)) -> Races:
    selection = tracing.TraceSelection(check=True, shadow_mib=1024)
    traced = tracing.trace(program, selection, folder / "races.events")
    assert traced.files
    assert traced.code in codes
    return checked(traced.files)


def _kernels(found: Races) -> set[str]:
    return {race.kernel.removeprefix("void ").split("(")[0] for race in found.races}


def test_kernels_with_races_are_told_from_their_repaired_twins(tmp_path: Path) -> None:
    found = _checked(tmp_path, str(_built(HERE / "event_races.cu", tmp_path / "event_races")))
    assert _kernels(found) == {
        "shared_race", "loop_race", "warp_race", "flag_race", "scope_race", "global_race",
    }  # fmt: skip
    missing = next(race for race in found.races if race.kernel.startswith("shared_race"))
    lines = [side.frames[0].line for side in (missing.first, missing.second)]
    assert sorted(lines) == [6, 7]
    assert missing.count > 1


def test_copies_phases_and_clusters_are_followed(tmp_path: Path) -> None:
    found = _checked(tmp_path, str(_built(HERE / "device_races.cu", tmp_path / "device_races")))
    assert _kernels(found) - {"phases<false>"} == {
        "cluster_memory<false>", "proxy_fence<false>", "copies<false>", "last_block<false>", "bytes_race",
    }  # fmt: skip
    reasons = {race.kernel.split("<")[0].removeprefix("void "): race.reason for race in found.races}
    assert "cluster" in reasons["cluster_memory"]
    assert "fence.proxy.async" in reasons["proxy_fence"]
    assert "cp.async" in reasons["copies"]


#: PTX comes with the code, so that checks can be compiled into it.
WITH_PTX = ("-gencode", "arch=compute_90,code=[sm_90,compute_90]")


def test_checks_that_are_compiled_into_kernels_tell_races_from_their_repaired_twins(tmp_path: Path) -> None:
    program = _built(HERE / "compiled_races.cu", tmp_path / "compiled_races", arguments=WITH_PTX)
    selection = tracing.TraceSelection(check=True, shadow_mib=1024)
    traced = tracing.trace([str(program)], selection, tmp_path / "races.events")
    assert traced.code == 0
    (file,) = traced.files
    launches = EventTrace(file).launches.values()
    assert len(launches) == 24
    assert all(launch.said.get("compiled") for launch in launches)
    found = checked(traced.files)
    assert not found.notes
    assert _kernels(found) == {
        f"{name}<false>" for name in ("tile_race", "loop_race", "warp_race", "named_race", "scope_race", "blocks_race",
                                      "wide_race", "bytes_race", "copy_race", "generic_race")
    }  # fmt: skip
    tile = next(race for race in found.races if "tile_race" in race.kernel)
    assert sorted(frame.line for side in (tile.first, tile.second) for frame in side.frames[:1]) == [10, 12]
    assert {tile.first.operation, tile.second.operation} == {"store", "load"}
    copy = next(race for race in found.races if "copy_race" in race.kernel)
    assert "cp.async" in copy.reason
    # In the graph, 128 threads of two blocks store the same words, twice.
    assert {race.launch for race in found.races if "blocks_race" in race.kernel}


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda source: source.stem)
def test_the_planted_race_is_told_and_its_twin_is_not(tmp_path: Path, source: Path) -> None:
    planted = _checked(tmp_path, str(_built(source, tmp_path / source.stem)), "2", codes=(0, 1))
    assert bool(planted.races) == (source.stem not in NOT_TOLD)
    assert not _checked(tmp_path, str(_built(source, tmp_path / "fixed", "-DFIXED")), "2").races


def test_libraries_are_silent(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = _checked(tmp_path, sys.executable, "-c", LIBRARIES)
    assert found.launches > 10
    assert found.races == ()


def test_kernels_with_generic_addresses_end_and_are_right(tmp_path: Path) -> None:
    source = tmp_path / "generic.cu"
    source.write_text(GENERIC)
    assert _checked(tmp_path, str(_built(source, tmp_path / "generic"))).races == ()
