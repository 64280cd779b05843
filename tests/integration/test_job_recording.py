"""Ranks that their launcher places on several hosts record parts of one folder, which is then read as one job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import os, warpsight as ws
for number in range(3):
    with ws.annotate("work"):
        pass
    ws.step()
"""
LAUNCHERS: dict[str, Any] = {
    "torchrun": lambda rank: {"RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 1},
    "mpirun": lambda rank: {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": 0, "OMPI_COMM_WORLD_SIZE": 2,
                            "OMPI_COMM_WORLD_LOCAL_SIZE": 1},
    "Slurm": lambda rank: {"SLURM_PROCID": rank, "SLURM_LOCALID": 0, "SLURM_NTASKS": 2, "SLURM_STEP_NUM_NODES": 2},
}  # fmt: skip


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_host_records_its_part_and_the_job_is_read_as_one(
    launcher: str, tmp_path: Path, library: Path
) -> None:
    running = []
    for rank in range(2):
        placed = {name: str(value) for name, value in LAUNCHERS[launcher](rank).items()}
        command = [
            sys.executable,
            "-m",
            "warpsight",
            "record",
            "-o",
            str(tmp_path / "job.warp"),
            "--",
            sys.executable,
            "-c",
            PROGRAM,
        ]
        environment = {**os.environ, **placed, "WARPSIGHT_LIBRARY": str(library)}
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    for rank in range(2):
        part = tmp_path / "job.warp" / f"rank={rank:05d}"
        content = json.loads((part / "manifest.json").read_text())
        ranks = {row["rank"] for row in content["processes"]}
        assert ranks == {rank}
        assert {row["world_size"] for row in content["processes"]} == {2}
        assert content["clocks"]["boot"] and "synchronized" in content["clocks"]["wall"]
    asked = subprocess.run([sys.executable, "-m", "warpsight", "cluster", "analyze", str(tmp_path / "job.warp"), "--json"],
                           capture_output=True, text=True, timeout=300, check=True)  # fmt: skip
    rows = json.loads(asked.stdout)["tables"]["ranks"]["rows"]
    assert [row["rank"] for row in rows] == [0, 1]
    # Both ran under one boot of this machine, so they share a clock.
    assert {row["clock"] for row in rows} == {"same clock"}
