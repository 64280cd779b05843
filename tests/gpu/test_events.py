"""Event traces on a real GPU: accesses equal what the program must do, races are found, the program is unharmed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.golden import event_truth
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races.detect import races

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
RACED = {"shared_race", "loop_race", "warp_race", "flag_race", "scope_race", "global_race"}
#: Lanes in tiles of 8 x 4: by sums, by exclusive or, farther than 16 bits apart, and a warp that is not whole.
TILED = """
#include <cstdio>
__global__ void tiled(float* a) {
  const int lane = threadIdx.x;
  a[lane / 8 * 64 + lane % 8] = 1;
  a[lane / 8 * 64 + ((lane % 8) ^ (lane / 8 * 2))] = 2;
  a[lane / 8 * 500000 + lane % 8] = 3;
  if (lane != 5) a[lane / 8 * 64 + lane % 8] = 4;
}
int main() {
  float* a;
  cudaMalloc(&a, 8 << 20);
  tiled<<<1, 32>>>(a);
  printf("%llu", (unsigned long long)a);
  return cudaDeviceSynchronize();
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


def _traced(
    folder: Path,
    name: str,
    *options: str,
    arguments: tuple[str, ...] = (),
    target: str = "-arch=native",
    source: Path | None = None,
) -> tuple[EventTrace, str, int]:
    """The trace of a program of this folder, what it printed and its exit code."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    program, out = folder / name, folder / f"{name}.events"
    source = source or HERE / f"{name}.cu"
    if not program.is_file():
        subprocess.run(
            ["nvcc", "-O2", "-lineinfo", target, "-o", program, source],
            check=True,
        )
    command = [
        sys.executable,
        "-m",
        "warpsight",
        "sass",
        "trace",
        "-f",
        "-o",
        out,
        *options,
        "--",
        program,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return EventTrace(out), done.stdout, done.returncode


def test_every_access_of_every_lane_is_told(folder: Path) -> None:
    trace, printed, code = _traced(folder, "event_truth", "--events", "memory,values,barriers")
    assert (code, trace.notes) == (0, [])
    base = json.loads(printed)
    for kernel, expected in event_truth.EXPECTED.items():
        assert event_truth.recorded(trace, kernel) == expected(base), kernel


def test_addresses_of_tiles_take_two_or_three_words(folder: Path) -> None:
    source = folder / "tiled.cu"
    source.write_text(TILED)
    trace, printed, code = _traced(folder, "tiled", "--events", "memory", source=source)
    assert (code, trace.notes) == (0, [])
    lanes = np.arange(32)
    row, column = lanes // 8, lanes % 8
    places = [row * 64 + column, row * 64 + (column ^ row * 2), row * 500_000 + column, row * 64 + column]
    events = trace.events
    offsets = (events.operand(0).astype(np.int64) - int(printed)) // 4
    assert [lane.tolist() for lane in offsets[:3]] == [place.tolist() for place in places[:3]]
    assert offsets[3][lanes != 5].tolist() == places[3][lanes != 5].tolist()
    assert (events.encodings >> 6).tolist() == [1, 1, 2, 0], (
        "two words, two, three, and an offset for each lane"
    )


def test_planted_races_are_found_and_their_twins_are_not(folder: Path) -> None:
    trace, _, code = _traced(folder, "event_races")
    assert code == 0
    assert {race.kernel.split("(")[0] for race in races(trace).races} == RACED


def test_what_the_async_proxy_reads_is_followed(folder: Path) -> None:
    classes = "memory,barriers,tma,wgmma"
    trace, _, code = _traced(
        folder, "async_races", "--events", classes, target="-gencode=arch=compute_90a,code=sm_90a"
    )
    found = {race.kernel.removeprefix("void ").split("(")[0]: race.reason for race in races(trace).races}
    assert code == 0 and set(found) == {"copied<false>", "multiplied<false>", "overwritten<false>"}
    assert "fence.proxy.async" in found["multiplied<false>"] and "wait_group" in found["overwritten<false>"]


def test_a_kernel_that_faults_faults_as_before_and_keeps_its_events(folder: Path) -> None:
    trace, _, code = _traced(folder, "event_truth", arguments=("fault",))
    assert code == 1
    assert len(trace.events) == 2


def test_nothing_is_lost_in_a_small_ring(folder: Path) -> None:
    trace, _, code = _traced(
        folder, "event_truth", "--events", "memory", "--ring-mib", "1", arguments=("measure", "4194304", "1")
    )
    assert code == 0
    assert len(trace.events) == 2 * 2 * 4194304 // 32
    assert trace.notes == []
