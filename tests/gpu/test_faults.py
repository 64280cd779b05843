"""What programs do to a recorder on a real GPU: captures while we flush, a thousand streams, another profiler, resets."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.test_recording import needs_torch, record

pytestmark = pytest.mark.gpu

#: One thread captures and replays graphs without a pause (a flush that made a forbidden call would invalidate the
#: capture: an exception), another launches so much that buffers complete all the time.
CAPTURES = """
import threading, torch
x, y = torch.zeros(256, device="cuda"), torch.zeros(256, device="cuda")
done = threading.Event()
def launch():
    with torch.cuda.stream(torch.cuda.Stream()):
        while not done.is_set():
            y.add_(1.0)
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    x.mul_(2.0)
torch.cuda.synchronize()
other = threading.Thread(target=launch)
other.start()
try:
    for _ in range(100):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            for _ in range(20):
                x.mul_(2.0)
        graph.replay()
        torch.cuda.synchronize()
finally:
    done.set()
    other.join()
"""
STREAMS = r"""
#include <cstdio>
#include <vector>
__global__ void touch(int* out) { if (out) *out = 1; }
int main() {
  std::vector<cudaStream_t> streams(1000);
  for (auto& stream : streams) if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) return 1;
  for (int round = 0; round < 5; ++round)
    for (auto& stream : streams) touch<<<1, 32, 0, stream>>>(nullptr);
  if (cudaDeviceSynchronize()) return 1;
  for (auto& stream : streams) cudaStreamDestroy(stream);
  return cudaDeviceSynchronize();
}
"""
RESET = r"""
__global__ void touch(int* out) { if (out) *out = 1; }
int main() {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) touch<<<1, 32>>>(nullptr);
    if (cudaDeviceSynchronize() || cudaDeviceReset()) return 1;
  }
  return 0;
}
"""
PROFILER = """
import sys, torch
from torch.profiler import ProfilerActivity, profile
x = torch.zeros(256, device="cuda")
def loop(n):
    for _ in range(n):
        x.add_(1.0)
    torch.cuda.synchronize()
loop(100)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
    loop(100)
loop(100)
print(sum(1 for e in seen.events() if "CUDA" in str(e.device_type)))
"""
RECORD_AFTER_PROFILER = """
import sys, torch, warpsight
from torch.profiler import ProfilerActivity, profile
x = torch.zeros(256, device="cuda")
def loop():
    for _ in range(100):
        x.add_(1.0)
    torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
    loop()
with warpsight.record(sys.argv[1]):
    loop()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as again:
    loop()
loop()
"""
TWO_DEVICES = """
import torch
streams = [torch.cuda.Stream(device=d) for d in range(2)]
x = [torch.ones(1 << 20, device=f"cuda:{d}") for d in range(2)]
for _ in range(50):
    for d in range(2):
        with torch.cuda.device(d), torch.cuda.stream(streams[d]):
            x[d].mul_(2.0)
    y = x[0].to("cuda:1")
for d in range(2):
    torch.cuda.synchronize(d)
"""


def cuda_program(folder: Path, source: str) -> list[str]:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    (folder / "program.cu").write_text(source)
    program = folder / "program"
    subprocess.run(["nvcc", "-o", str(program), str(folder / "program.cu")], check=True, capture_output=True)
    return [str(program)]


def python_program(folder: Path, source: str, *arguments: str) -> list[str]:
    needs_torch()
    (folder / "program.py").write_text(source)
    return [sys.executable, str(folder / "program.py"), *arguments]


def test_graphs_are_captured_while_buffers_are_flushed(library: Path, tmp_path: Path) -> None:
    trace = record(tmp_path / "run.warp", python_program(tmp_path, CAPTURES), "--graph", "node")
    nodes = trace.sql("SELECT count(*), count(start) FROM kernel WHERE graph_node IS NOT NULL").fetchall()
    assert nodes == [(2000, 2000)]


def test_each_of_a_thousand_streams_keeps_its_kernels(library: Path, tmp_path: Path) -> None:
    trace = record(tmp_path / "run.warp", cuda_program(tmp_path, STREAMS))
    counted = trace.sql(
        "SELECT n, count(*) FROM (SELECT count(*) n FROM kernel WHERE start IS NOT NULL GROUP BY stream) GROUP BY n"
    ).fetchall()
    assert counted == [(5, 1000)]


def test_a_reset_device_goes_on_being_recorded(library: Path, tmp_path: Path) -> None:
    trace = record(tmp_path / "run.warp", cuda_program(tmp_path, RESET))
    assert trace.sql("SELECT count(*), count(start) FROM kernel").fetchall() == [(300, 300)]
    contexts = trace.sql("SELECT count(DISTINCT context) FROM kernel").fetchall()[0][0]
    assert contexts == 3


def test_torch_profiler_inside_a_recording_harms_neither(library: Path, tmp_path: Path) -> None:
    trace = record(tmp_path / "run.warp", python_program(tmp_path, PROFILER))
    adds, finished = trace.sql(
        "SELECT count(*), count(start) FROM kernel WHERE name LIKE '%OnSelf_add%'"
    ).fetchall()[0]
    assert adds == 300
    lost = trace.sql("SELECT count(*) FROM loss WHERE severity = 'lost'").fetchall()[0][0]
    assert finished == 300 or lost, "missing kernels must be said"


def test_torch_profiler_before_and_after_a_recording_in_one_process(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.warp"
    done = subprocess.run(
        python_program(tmp_path, RECORD_AFTER_PROFILER, str(path)),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    import warpsight

    with warpsight.open(path) as trace:
        adds, finished = trace.sql(
            "SELECT count(*), count(start) FROM kernel WHERE name LIKE '%OnSelf_add%'"
        ).fetchall()[0]
        told = trace.sql("SELECT count(*) FROM loss").fetchall()[0][0]
        assert (adds, finished) == (100, 100) or told, done.stderr


def test_two_devices_of_one_process_are_told_apart(library: Path, tmp_path: Path) -> None:
    needs_torch()
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("one device")
    trace = record(tmp_path / "run.warp", python_program(tmp_path, TWO_DEVICES))
    kernels = trace.sql(
        "SELECT device, count(*) FROM kernel WHERE name LIKE '%MulFunctor%' GROUP BY device ORDER BY device"
    ).fetchall()
    assert [count for _, count in kernels] == [50, 50]
    assert trace.sql("SELECT count(DISTINCT uuid) FROM device").fetchall() == [(2,)]
    peers = trace.sql(
        "SELECT count(*), count(DISTINCT source_device || '>' || destination_device), min(bytes) FROM memcpy "
        "WHERE kind = 'PtoP'"
    ).fetchall()
    assert peers == [(50, 1, 4 << 20)]
