"""How much sooner a kernel follows in a graph, from the times of two chains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from warpsight.replay import script
from warpsight.replay.schedules import pace


@pytest.mark.parametrize(
    ("stream", "graph", "sooner"),
    [(900_000, 600_000, 1_000), (600_000, 900_000, 0), (float("nan"), 600_000, 0)],
)
def test_a_graph_saves_the_difference_of_two_chains_per_kernel(
    monkeypatch: pytest.MonkeyPatch, stream: float, graph: float, sooner: int
) -> None:
    """300 kernels take 900 µs in a stream and 600 µs in a graph: 1 µs each."""
    shapes: list[tuple[Any, ...]] = []
    monkeypatch.setattr(pace, "_chain", lambda _, *shape: shapes.append(shape))
    monkeypatch.setattr(
        pace, "_total", lambda _, flags, *__: {script.GATE: stream, script.GRAPH: graph}[flags]
    )
    launches = [SimpleNamespace(grid=(n, 2, 1), block=(64, 1, 2)) for n in (1, 8, 900)]
    assert pace.sooner_in_a_graph(cast(Any, launches), [1_000.0, 2_000.0, 90_000.0], 0, None) == sooner
    assert shapes == [(16, 128, 3_400)]
    assert pace.sooner_in_a_graph([], [], 0, None) == 0
