"""One trace of all ranks: times on one clock, ids that still mean the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.unit.cluster.generated_jobs import Job
from warpsight.cluster.executor import LocalExecutor
from warpsight.cluster.job import load
from warpsight.cluster.merged import merge
from warpsight.model import open as open_trace

CLOCKS = {1: (5_000_000_000, 20e-6), 2: (-900_000_000, -35e-6)}


def test_collectives_of_all_ranks_end_together_and_keep_their_names(tmp_path: Path) -> None:
    Job(ranks=3, clock=CLOCKS, steps=30).write(tmp_path / "run")
    rows = merge(load([tmp_path / "run"], LocalExecutor(1)), tmp_path / "job.warp")
    assert rows["kernel"] == 3 * 30 * 2 * 4
    with open_trace(tmp_path / "job.warp") as trace:
        found = trace.sql(
            "SELECT process, start + duration FROM kernel WHERE short LIKE 'nccl%' ORDER BY process, start"
        )
        ends = np.array([end for _, end in found.fetchall()]).reshape(3, 60)
        assert np.ptp(ends, axis=0).max() < 20_000
        counts = dict(trace.sql("SELECT short, count(*) FROM kernel GROUP BY short").fetchall())
        assert counts["softmax"] == 3 * 30 * 2
        assert trace.sql("SELECT rank FROM process ORDER BY process").fetchall() == [(0,), (1,), (2,)]
        assert trace.sql("SELECT count(DISTINCT device) FROM kernel").fetchall() == [(3,)]
