"""Clocks of ranks on different hosts: processes in network namespaces, each with an offset, a drift and jitter of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from warpsight.cluster.executor import LocalExecutor
from warpsight.cluster.job import load
from warpsight.model.storage import manifest

RANK = Path(__file__).with_name("clock_rank.py")
#: In a user namespace of its own: two network namespaces, joined by a pair of virtual Ethernet devices.
HOSTS = """
set -e
python=$1 rank=$2 rounds=$3 folder=$4; shift 4
ip link set lo up
ip link add left type veth peer name right
unshare --net sh -c 'echo $$ > "$0/pid"; while [ ! -e "$0/linked" ]; do sleep 0.05; done
  ip link set lo up; ip address add 10.9.8.2/24 dev right; ip link set right up
  exec "$@"' "$folder" "$python" "$rank" 1 10.9.8.1 7400 "$rounds" "$folder/rank1.warp" "$4" "$5" "$6" "$7" &
while [ ! -s "$folder/pid" ]; do sleep 0.05; done
ip link set right netns "$(cat "$folder/pid")"
ip address add 10.9.8.1/24 dev left; ip link set left up
touch "$folder/linked"
"$python" "$rank" 0 10.9.8.1 7400 "$rounds" "$folder/rank0.warp" "$1" "$2" "$3" "$7"
wait
"""


def namespaces() -> str | None:
    """Why there can be no network namespaces here, or None."""
    if not all(map(shutil.which, ("unshare", "ip"))):
        return "unshare and ip are needed"
    trial = "ip link add left type veth peer name right && unshare -n true"
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", trial]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if made.returncode == 0 else f"no network namespaces: {made.stderr.strip()}"


def off_by(folder: Path, offset: int, ppm: float) -> tuple[float, float]:
    """The largest error of rank 1's times on the reference clock, and the bound there (ns)."""
    job = load([folder / "rank0.warp", folder / "rank1.warp"], LocalExecutor(1))
    planted = [manifest.read(folder / f"rank{rank}.warp")["settings"] for rank in range(2)]
    reference = job.clocks.of[0]
    assert job.clocks.clocks[reference].source == "same clock", "rank 0 is the reference"
    moments = np.linspace(0.02, 0.98, 50) * (job.summaries[1].about.end - job.summaries[1].about.begin)
    shown = job.summaries[1].about.begin + moments.astype(np.int64)
    began = [one["began"] for one in planted]
    true = began[1] + (shown - began[1] - planted[1]["offset"]) / (1 + planted[1]["ppm"] * 1e-6)
    expected = true + planted[0]["offset"] + (true - began[0]) * planted[0]["ppm"] * 1e-6
    bound = job.clocks.bound(0, 1)
    assert bound is not None
    return float(np.abs(job.clocks.corrected(1, shown) - expected).max()), bound


@pytest.mark.parametrize(
    ("offset", "ppm", "jitter"), [(0, 0.0, 0.0), (3_000_000_000, 40.0, 500.0), (-(10**15), -80.0, 1000.0)]
)
def test_planted_clocks_are_recovered(tmp_path: Path, offset: int, ppm: float, jitter: float) -> None:
    why = namespaces()
    if why:
        pytest.skip(why)
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", HOSTS, "hosts", sys.executable, RANK, "4000", tmp_path,
               "0", "5", str(jitter), str(offset), str(ppm), str(jitter), "1"]  # fmt: skip
    subprocess.run(command, check=True, timeout=120, env=os.environ)
    error, bound = off_by(tmp_path, offset, ppm)
    assert error <= bound, "the bound is honest"
    # On a quiet machine within 20 µs; load makes it more. A drift that is left in would show.
    assert error < 100_000
