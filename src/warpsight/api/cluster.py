"""Jobs of many ranks from Python: what the verbs of `warpsight cluster` call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.cluster.executor import Executor
    from warpsight.cluster.verdict import JobVerdict


def analyze(
    *paths: str | os.PathLike[str], workers: int = 0, dask: str = "", executor: Executor | None = None
) -> JobVerdict:
    """Which rank of a job holds the others up, since when and why; or which rank a hung job waits for.

    Args:
        paths: folders of a job, traces, other tools' files, dumps of PyTorch's flight recorder.
        workers: processes that read traces; 0: one per core.
        dask: address of a Dask scheduler, or its file, to read on its workers instead.
        executor: something else to read with; wins over the other two.

    Raises:
        UsageError: when a path holds nothing that can be read, or Dask is not installed.
        WarpsightError: when none of it could be read.
    """
    from warpsight.cluster.executor import Dask, Local
    from warpsight.cluster.job import load
    from warpsight.cluster.verdict import judge

    return judge(load(paths, executor or (Dask(dask) if dask else Local(workers))))
