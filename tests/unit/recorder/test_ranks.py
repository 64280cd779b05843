"""Which rank a process is, whatever launched it, and where the recording of a job on several hosts goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.errors import WarpsightError
from warpsight.recorder import ranks

TORCHRUN = {"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "SLURM_PROCID": "1"}
LAUNCHERS = {
    "torchrun": (TORCHRUN, (9, 1, 16, True)),
    "one host": ({**TORCHRUN, "WORLD_SIZE": "8"}, (9, 1, 8, False)),
    "mpirun": ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, (3, 1, 4, True)),
    "Hydra": ({"PMI_RANK": "1", "MPI_LOCALRANKID": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}, (1, 1, 2, False)),
    "Slurm": ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_NODES": "2"}, (5, 1, 8, True)),
    "Slurm, one node": ({"SLURM_PROCID": "5", "SLURM_LOCALID": "5", "SLURM_NTASKS": "8", "SLURM_NNODES": "1"},
                        (5, 5, 8, False)),
    "Kubernetes": ({"JOB_COMPLETION_INDEX": "2"}, (2, None, None, True)),
    "none": ({"HOME": "/root", "RANK": "first"}, (None, None, None, False)),
}  # fmt: skip


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_rank_is_found_from_what_its_launcher_sets(launcher: str) -> None:
    environment, expected = LAUNCHERS[launcher]
    found = ranks.of(environment)
    assert (found.rank, found.local_rank, found.world_size, found.several_hosts) == expected


def test_ranks_of_one_host_share_a_partition_and_hosts_do_not(tmp_path: Path) -> None:
    path = tmp_path / "run.warp"
    assert ranks.partition(path, TORCHRUN) == path / "rank=00008"
    assert ranks.partition(path, {**TORCHRUN, "RANK": "8", "LOCAL_RANK": "0"}) == path / "rank=00008"
    assert ranks.partition(path, {**TORCHRUN, "RANK": "0", "LOCAL_RANK": "0"}) == path / "rank=00000"
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_job_on_one_host_and_no_job_record_where_they_are_told(tmp_path: Path) -> None:
    path = tmp_path / "run.warp"
    assert ranks.partition(path, LAUNCHERS["one host"][0]) == path
    assert ranks.partition(path, {}) == path
    assert not path.exists()


def test_a_finished_recording_is_no_folder_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "run.warp").mkdir()
    (tmp_path / "run.warp" / "manifest.json").touch()
    with pytest.raises(WarpsightError, match="not a folder of a job"):
        ranks.partition(tmp_path / "run.warp", TORCHRUN)


def test_a_recording_that_each_rank_starts_itself_is_its_own(tmp_path: Path) -> None:
    path = tmp_path / "run.warp"
    assert ranks.own_partition(path, LAUNCHERS["one host"][0]) == path / "rank=00009"
    assert ranks.own_partition(path, {"RANK": "0", "WORLD_SIZE": "1"}) == path
