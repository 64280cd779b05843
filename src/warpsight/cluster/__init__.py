"""Jobs of many ranks: aligned clocks, matched collectives, and which rank delays the others.

import warpsight as ws

print(ws.cluster.analyze("train.warp").headline)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.cluster.executor import Executor
    from warpsight.cluster.verdict import JobVerdict


@dataclass(frozen=True)
class MergedJob:
    """The result of :func:`merge`: rows by table, and the largest clock error of any rank (ns, or None)."""

    path: str
    ranks: int
    rows: dict[str, int]
    bound: float | None
    failed: tuple[tuple[str, str], ...]


def analyze(
    *paths: str | os.PathLike[str], workers: int = 0, dask: str = "", executor: Executor | None = None
) -> JobVerdict:
    """Which rank of a job holds the others up, since when and why; or which rank a hung job waits for.

    Args:
        paths: folders of a job, traces, other tools' files, dumps of PyTorch's flight recorder.
        workers: processes that read traces; 0: one per core.
        dask: address of a Dask scheduler, or its file, to read on its workers instead.
        executor: another executor to read with; it overrides the other two.

    Raises:
        UsageError: when nothing at a path can be read, or Dask is not installed.
        WarpsightError: when no file could be read.
    """
    from warpsight.cluster.job import load
    from warpsight.cluster.verdict import judge

    return judge(load(paths, executor or _executor(workers, dask)))


def traffic(*paths: str | os.PathLike[str], workers: int = 0, dask: str = "") -> pa.Table:
    """What the ranks of a job send to each other: a row per pair; arguments and errors as in :func:`analyze`."""
    from warpsight.cluster import exchange
    from warpsight.cluster.job import load
    from warpsight.cluster.waiting import Waiting

    return exchange.traffic(Waiting(load(paths, _executor(workers, dask))))


def merge(
    *paths: str | os.PathLike[str],
    out: str | os.PathLike[str],
    workers: int = 0,
    dask: str = "",
    force: bool = False,
) -> MergedJob:
    """Join the recordings of a job's ranks into one trace at `out`, with all times on one clock.

    Args:
        paths: as in :func:`analyze`.
        out: the trace to make.
        workers: as in :func:`analyze`.
        dask: as in :func:`analyze`.
        force: replace an existing trace.

    Raises:
        TraceError: when `out` exists without `force`.
        WarpsightError: when nothing could be read.
    """
    from warpsight.cluster.job import load
    from warpsight.cluster.merged import merge as merged

    job = load(paths, _executor(workers, dask))
    rows = merged(job, out, force=force)
    return MergedJob(os.fspath(out), len(job.summaries), rows, job.clocks.worst, job.failed)


@dataclass(frozen=True)
class Triggered:
    """The request of :func:`trigger`, the recordings that will follow it, and the reasons of those that will not."""

    when: str
    taken: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


def trigger(
    folder: str | os.PathLike[str],
    *,
    step: int | None = None,
    steps: int = 0,
    wait: float = 5.0,
    seconds: float = 0.0,
    patience: float = 10.0,
) -> Triggered:
    """Have every recording of a job (`record --on-trigger`) begin, and end, at one step or time.

    Args:
        folder: the recording, or the folder of a job's recordings.
        step: begin when each rank has ended this many steps (`ws.step()`); None: begin at a time.
        steps: end after this many more steps; 0: record to the end.
        wait: without `step`: begin this many seconds from now, by the hosts' wall clocks.
        seconds: end after this many more seconds; 0: record to the end.
        patience: how long to wait for the recordings to confirm, s.

    Raises:
        UsageError: when nothing is recorded into the folder, or both a step and a time are given.
    """
    from warpsight.cluster import triggering

    return Triggered(*triggering.trigger(folder, step, steps, wait, seconds, patience))


def _executor(workers: int, dask: str) -> Executor:
    from warpsight.cluster.executor import Dask, LocalExecutor

    return Dask(dask) if dask else LocalExecutor(workers)
