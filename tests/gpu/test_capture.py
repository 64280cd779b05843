"""On a real GPU: addresses of copies, ranges by cudaProfilerStart, memory pools, modules of a late start."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import warpsight
from tests.gpu.test_recording import needs_torch, record

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent
RANGE = ("--capture-range", "profiler-api")

TORCH_RANGE = """
import torch
x = torch.ones(1 << 12, device="cuda")
def loop():
    for _ in range(100):
        x.add_(1)
loop()
for _ in range(3):
    torch.cuda.cudart().cudaProfilerStart()
    loop()
    torch.cuda.cudart().cudaProfilerStop()
    loop()
torch.cuda.synchronize()
"""
#: Kernels of three libraries: the first runs before the recording and inside it, the second is loaded before and first runs
#: inside, the third is loaded inside.
LATE = """
import ctypes, sys, warpsight
first, second = (ctypes.CDLL(path) for path in sys.argv[2:4])
first.run()
with warpsight.record(sys.argv[1]):
    first.run()
    second.run()
    ctypes.CDLL(sys.argv[4]).run()
"""
KERNEL = """
__global__ void NAME(int* out) { if (out) *out = 1; }
extern "C" int run() {
  for (int i = 0; i < 10; ++i) NAME<<<1, 32>>>(nullptr);
  return cudaDeviceSynchronize();
}
"""


def built(source: Path, output: Path, *options: str) -> Path:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    done = subprocess.run(
        ["nvcc", *options, "-o", str(output), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return output


def told(program: Path, trace_path: Path) -> tuple[list[list[str]], warpsight.Trace]:
    """The lines that a recorded program printed, as words, and the trace."""
    command = [sys.executable, "-m", "warpsight.ui.cli", "record", "-o", str(trace_path), "--", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()], warpsight.open(trace_path)


def address(text: str) -> int | None:
    return int(text, 16) or None


def losses(trace: warpsight.Trace) -> list[tuple[str, int]]:
    return trace.sql("SELECT cause, count FROM loss WHERE severity <> 'note'").fetchall()


def test_copies_and_fills_have_the_addresses_that_the_program_gave(library: Path, tmp_path: Path) -> None:
    lines, trace = told(built(HERE / "copy_forms.cu", tmp_path / "copies", "-lcuda"), tmp_path / "run.warp")
    copies = [(address(a), address(b)) for kind, a, b in lines if kind == "memcpy"]
    fills = [address(b) for kind, _, b in lines if kind == "memset"]
    found = trace.sql(
        "SELECT source_address, destination_address, graph_node FROM memcpy ORDER BY start"
    ).fetchall()
    assert len(found) == len(copies)
    for place, ((source, destination, node), expected) in enumerate(zip(found, copies, strict=True)):
        if node is not None and source is None and destination is None:  # changed in the executable graph
            assert place == len(copies) - 1
        else:
            assert (source, destination) == expected, f"copy {place}"
    assert [row[0] for row in trace.sql("SELECT address FROM memset ORDER BY start").fetchall()] == fills
    kinds = trace.sql("SELECT kind, count(*) FROM graph_node WHERE original IS NULL GROUP BY 1").fetchall()
    assert {"memcpy": 2, "memset": 2}.items() <= dict(kinds).items()
    assert not losses(trace)


def test_redundant_copies_are_found(library: Path, tmp_path: Path) -> None:
    source = tmp_path / "again.cu"
    source.write_text("""
#include <cuda_runtime.h>
int main() {
  void *device, *host;
  if (cudaMalloc(&device, 1 << 20) || cudaMallocHost(&host, 1 << 20)) return 1;
  for (int i = 0; i < 5; ++i) if (cudaMemcpy(device, host, 1 << 20, cudaMemcpyHostToDevice)) return 1;
  return 0;
}
""")
    from warpsight.analysis.stats.redundant_copies import redundant

    trace = record(tmp_path / "run.warp", [str(built(source, tmp_path / "again"))])
    found, notes = redundant(trace)
    assert found.column("count").to_pylist() == [4]
    assert not notes


@pytest.mark.parametrize(("ranges", "kernels", "waits"), [(1, 2000, False), (3, 200, True), (50, 20, False)])
def test_a_range_has_its_launches_and_kernels_and_no_others(
    library: Path, tmp_path: Path, ranges: int, kernels: int, waits: bool
) -> None:
    program = built(HERE / "capture_range.cu", tmp_path / "ranges")
    arguments = [str(program), str(ranges), str(kernels), *(["wait"] if waits else [])]
    trace = record(tmp_path / "run.warp", arguments, *RANGE)
    launched = Counter(name for (name,) in trace.sql("SELECT short FROM launch").fetchall())
    ran = Counter(
        name for (name,) in trace.sql("SELECT short FROM kernel WHERE start IS NOT NULL").fetchall()
    )
    assert launched == ran == {"inside": ranges * kernels}
    assert trace.sql("SELECT count(stack), count(module) FROM kernel").fetchall()[0][1] == ranges * kernels
    assert not losses(trace)
    marks = Counter(
        name for (name,) in trace.sql("SELECT name FROM marker WHERE source = 'profiler'").fetchall()
    )
    assert marks == {"cudaProfilerStart": ranges, "cudaProfilerStop": ranges}


def test_a_program_without_ranges_has_nothing_and_is_told(library: Path, tmp_path: Path) -> None:
    program = built(HERE / "capture_range.cu", tmp_path / "ranges")
    trace = record(tmp_path / "run.warp", [str(program), "0", "0"], *RANGE)
    assert trace.sql("SELECT count(*) FROM kernel").fetchall() == [(0,)]
    (cause,) = trace.sql("SELECT cause FROM loss WHERE cause LIKE '--capture-range%'").fetchall()
    assert "did not call cudaProfilerStart" in cause[0]


def test_torch_bounds_a_recording(library: Path, tmp_path: Path) -> None:
    needs_torch()
    script = tmp_path / "ranges.py"
    script.write_text(TORCH_RANGE)
    trace = record(tmp_path / "run.warp", [sys.executable, str(script)], *RANGE)
    rows = trace.sql(
        "SELECT count(*), count(k.start), count(l.stack) FROM launch l JOIN kernel k USING (process, correlation)"
    ).fetchall()
    assert rows == [(300, 300, 300)]
    assert trace.sql("SELECT count(*) FROM launch").fetchall() == [(300,)]
    assert not losses(trace)


def test_memory_pools_have_rows_by_default(library: Path, tmp_path: Path) -> None:
    lines, trace = told(built(HERE / "memory_pools.cu", tmp_path / "pools"), tmp_path / "run.warp")
    expected = [
        (words[0].replace("_", " "), int(words[1], 16), int(words[2], 16) or None, int(words[3], 16))
        for words in lines
    ]
    rows = trace.sql(
        "SELECT operation, address, bytes, pool FROM memory WHERE pool IS NOT NULL ORDER BY time"
    ).fetchall()
    assert rows == expected
    streams = trace.sql(
        "SELECT count(DISTINCT stream), count(stream) FROM memory WHERE operation = 'allocate' AND pool IS NOT NULL"
    ).fetchall()
    assert streams == [(1, 3)]


def test_a_late_start_knows_what_was_loaded_after_it(library: Path, tmp_path: Path) -> None:
    libraries = []
    for name in ("first", "second", "third"):
        source = tmp_path / f"{name}.cu"
        source.write_text(KERNEL.replace("NAME", name))
        libraries.append(
            str(
                built(
                    source, tmp_path / f"lib{name}.so", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared"
                )
            )
        )
    script = tmp_path / "late.py"
    script.write_text(LATE)
    path = tmp_path / "late.warp"
    done = subprocess.run(
        [sys.executable, str(script), str(path), *libraries],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    trace = warpsight.open(path)
    rows = trace.sql(
        """SELECT k.short, count(*), count(k.module), count(m.checksum) FROM kernel k
        LEFT JOIN module m USING (process, module) GROUP BY k.short ORDER BY 1"""
    ).fetchall()
    print(rows)
    known = {name: (kernels, modules, checksums) for name, kernels, modules, checksums in rows}
    assert known["third"] == (10, 10, 10)
    assert known["first"][0] == known["second"][0] == 10
    unknown = sum(kernels - modules for kernels, modules, _ in known.values())
    noted = trace.sql(
        "SELECT coalesce(sum(count), 0)::INT FROM loss WHERE cause LIKE '%loaded while nothing was recorded%'"
    ).fetchall()
    assert noted == [(unknown,)]
