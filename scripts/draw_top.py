"""The screen of `warpsight top` as SVG, as it would have shown a recorded program."""

from __future__ import annotations

import asyncio

import numpy as np

from warpsight.analysis.flame.graph import FlameGraph
from warpsight.api.trace import open as open_trace
from warpsight.model import StoredTrace
from warpsight.recorder.live.recording import Snapshot, TopKernel
from warpsight.recorder.live.stacks import TopStack
from warpsight.ui.render.live.app import TopApp


class _Recorded:
    """Looks at a stored trace as :class:`warpsight.recorder.live.recording.Live` does at a running one."""

    def __init__(self, trace: StoredTrace) -> None:
        begin, end = trace.sql("SELECT min(start), max(start + duration) FROM kernel").fetchall()[0]
        seconds = (end - begin) / 1e9
        rows = trace.sql("""SELECT demangled, count(*), sum(duration)::BIGINT FROM kernel
                            GROUP BY 1 ORDER BY 3 DESC""").fetchall()
        whole = sum(row[2] for row in rows)
        (device,) = trace.sql("SELECT index || ' ' || name FROM device").fetchall()[0]
        self.busy = trace.sql("SELECT start, duration FROM kernel ORDER BY start").fetchnumpy()
        self.edges = np.linspace(begin, end, 60)
        self.looks = 0
        self.shown = Snapshot(
            "train.warp", True, 42.0, 5.0, (4711,), sum(r[1] for r in rows) / seconds, sum(r[1] for r in rows) / seconds, 12.0,
            3.2e6, {device: whole / (end - begin)}, {device: 0.0}, tuple(TopKernel(n, c, t, t / whole) for n, c, t in rows),
            _stacks(trace.flame()), _stacks(trace.flame("samples", by=["device"])), (), (),
        )  # fmt: skip

    def look(self, top: int, stacks: int) -> Snapshot:
        """The same snapshot, with the busy share of the next stretch."""
        from dataclasses import replace

        first, last = self.edges[self.looks % 59], self.edges[self.looks % 59 + 1]
        start, end = self.busy["start"], self.busy["start"] + self.busy["duration"]
        share = float(np.maximum(np.minimum(end, last) - np.maximum(start, first), 0).sum() / (last - first))
        self.looks += 1
        return replace(self.shown, recent=dict.fromkeys(self.shown.recent, min(share, 1.0)))


def _stacks(graph: FlameGraph) -> tuple[TopStack, ...]:
    """The ways to the nodes with weight of their own."""
    whole = int(graph.total[0, 0])
    found = []
    for node in np.flatnonzero(graph.own[:, 0]).tolist():
        frames, at = [], node
        while at > 0:
            frames.append(graph.labels[graph.label[at]])
            at = int(graph.parent[at])
        found.append(TopStack(tuple(frames[::-1]), int(graph.own[node, 0]), graph.own[node, 0] / whole))
    return tuple(found)


def live_screen(path: str) -> str:
    """The flame graph of the trace at `path` in 80 columns."""

    async def drawn() -> str:
        with open_trace(path) as trace:
            app = TopApp(_Recorded(trace), 3600.0)  # type: ignore[arg-type]
            async with app.run_test(size=(80, 24)) as pilot:
                for _ in range(58):
                    app._take(app.live.look(1, 1))
                await pilot.press("2", "down", "down")
                return app.export_screenshot()

    return asyncio.run(drawn())
