"""Joining an existing recording, so that the ranks of a job, or nested launchers, write one trace."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from warpsight.recorder import output
from warpsight.recorder.drain.listener import knock
from warpsight.recorder.environment import SOCKET

#: Variables that are equal in all processes of one job on one host, and different in the next job.
_JOB = (("torchrun", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")), ("mpi", ("OMPI_COMM_WORLD_JOBID", "PMIX_NAMESPACE")),
        ("pmi", ("PMI_JOBID", "HYDI_CONTROL_FD")), ("slurm", ("SLURM_JOB_ID", "SLURM_STEP_ID")))  # fmt: skip


def job_of(environment: Mapping[str, str]) -> str:
    """The identity of the job that this process belongs to, or empty."""
    for system, names in _JOB:
        found = [environment[name] for name in names if environment.get(name)]
        if found and (system != "slurm" or "SLURM_STEP_ID" in environment):
            return ":".join([system, *found])
    return ""


def enclosing(environment: Mapping[str, str]) -> str | None:
    """The socket of the recording that this process is already part of, after it agreed to wait for us."""
    path = environment.get(SOCKET)
    return path if path and _join(path) else None


def siblings(folder: Path, job: str) -> str | None:
    """The socket of a recording of the same job in the same folder, after it agreed to wait for us."""
    if not job:
        return None
    live = output.announced(folder)
    if live is None or live.job != job or not live.alive():
        return None
    return live.socket if _join(live.socket) else None


def _join(path: str) -> bool:
    return knock(path, f"join 1 {os.getpid()}")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let only one process of this user at a time decide who records into a folder."""
    place = Path(tempfile.gettempdir()) / f"warpsight-locks-{os.getuid()}"
    import hashlib  # loads OpenSSL; most recordings need no lock

    name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:32]
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(place)
        lock = os.open(place / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:  # without a lock two ranks may both try; the folder itself still goes to one of them
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
