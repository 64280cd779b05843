"""Why a plan made no delay in a run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from warpsight.race import delays


@pytest.mark.parametrize(
    ("cluster", "rank", "reason"),
    [
        ((1, 2, 4), 7, "no chosen warp reached its points"),
        ((1, 2, 4), 8, "its clusters have 8 blocks, but the plan asks for rank 8"),
        ((0, 0, 0), 1, "its clusters have 1 block, but the plan asks for rank 1"),
        (None, 1, "it was not launched"),
    ],
)
def test_ranks_are_compared_with_all_blocks_of_a_cluster(
    monkeypatch: pytest.MonkeyPatch, cluster: tuple[int, ...] | None, rank: int, reason: str
) -> None:
    launches = {} if cluster is None else {0: SimpleNamespace(cluster=cluster, said={"name": "k"})}
    monkeypatch.setattr(delays, "logs", lambda _: [Path("log.1")])
    monkeypatch.setattr(delays, "EventTrace", lambda _: SimpleNamespace(launches=launches))
    plan = SimpleNamespace(points=[SimpleNamespace(kernel="k")], where=SimpleNamespace(ranks=(rank, 9)))
    done = pa.table({"function": pa.array([], pa.string())})
    assert delays.idle(cast(Any, plan), Path("log"), done) == [f"k made no delay: {reason}"]
