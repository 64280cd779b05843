"""The rank and job of this process, from launchers' variables, and the place of its recording.

Ranks of one host record into one folder together (see :mod:`warpsight.recorder.join`). Ranks on several hosts have no folder that
all of them could complete, so NAME becomes a folder of recordings: `NAME/rank=00008` for the host whose first rank is 8. Nothing
is copied or merged afterwards, and a lost host costs only its own part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsight.errors import WarpsightError

#: Variables in order; the first that is a number counts. torchrun, Ray Train and Kubeflow set RANK, LOCAL_RANK, WORLD_SIZE.
#: `native/runtime/identity.cpp` reads the same for table `process`.
RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "FLUX_TASK_RANK",
        "SLURM_PROCID", "JOB_COMPLETION_INDEX")  # fmt: skip
LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID",
              "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID")  # fmt: skip
WORLD_SIZE = (
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "FLUX_JOB_SIZE",
    "SLURM_NTASKS",
)
#: Ranks on this host.
_LOCAL_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE",
              "PALS_LOCAL_SIZE")  # fmt: skip
#: Hosts of the job (Slurm's step, Flux, torchrun's configuration by Kubeflow, an indexed job of Kubernetes).
HOSTS = ("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "FLUX_JOB_NNODES", "PET_NNODES")


@dataclass(frozen=True)
class Rank:
    """A place in a job; None for facts that the launcher does not give."""

    rank: int | None
    local_rank: int | None
    world_size: int | None
    several_hosts: bool


def of(environment: Mapping[str, str]) -> Rank:
    """The rank that an environment describes; all None outside of a job."""
    rank, local, size = (_first(environment, names) for names in (RANK, LOCAL_RANK, WORLD_SIZE))
    here, hosts = _first(environment, _LOCAL_SIZE), _first(environment, HOSTS)
    if here is not None and size is not None:
        several = size > here
    elif hosts is not None:
        several = hosts > 1
    else:  # a pod of its own for each index
        several = "JOB_COMPLETION_INDEX" in environment and rank is not None
    return Rank(rank, local, size, several)


def partition(path: Path, environment: Mapping[str, str]) -> Path:
    """The folder for a recording to `path`; in a job of several hosts, a folder inside it.

    Raises:
        WarpsightError: when the folder of the job cannot be made or is something else.
    """
    found = of(environment)
    if not found.several_hosts or found.rank is None:
        return path
    return _part(path, max(found.rank - (found.local_rank or 0), 0))


def own_partition(path: Path, environment: Mapping[str, str]) -> Path:
    """The folder for a recording started by the program itself: each rank of a job has its own, even on one host.

    Raises:
        WarpsightError: as :func:`partition` does.
    """
    found = of(environment)
    if found.rank is None or (found.world_size or 1) < 2:
        return path
    return _part(path, found.rank)


def _part(path: Path, rank: int) -> Path:
    if path.exists() and (not path.is_dir() or (path / "manifest.json").exists()):
        raise WarpsightError(
            f"{path} exists and is not a folder of a job's recordings; choose another name with -o"
        )
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise WarpsightError(f"{path} cannot be created: {error.strerror}") from None
    return path / f"rank={rank:05d}"


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = environment.get(name, "").partition(":")[0]
        if value.isdigit():
            return int(value)
    return None
