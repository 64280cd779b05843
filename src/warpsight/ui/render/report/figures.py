"""Data of the report's pictures in compact form: bins as bytes, times relative to the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from warpsight.ui.render.pages import packed

if TYPE_CHECKING:
    from warpsight.analysis.stats.overview_series import OverviewSeries

#: Iterations drawn one by one; more are drawn as bins of neighbors.
_MOST_ITERATIONS = 600


def lines(series: Sequence[OverviewSeries], origin: int, text: Callable[[str], str]) -> list[dict[str, Any]]:
    """The data that `charts.js` draws as lines, times relative to `origin`."""
    return [
        {"name": text(s.name), "unit": s.unit, "device": s.device, "step": s.step, "rows": s.rows,
         "time": packed(s.time - origin, "f8"), "value": packed(s.value, "f4"),
         **({} if s.low is s.value else {"low": packed(s.low, "f4"), "high": packed(s.high, "f4")})}
        for s in series
    ]  # fmt: skip


def iterations(
    rows: Sequence[dict[str, Any]], origin: int, text: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Bars of `charts.js`: one per iteration, or the longest of each group of neighbors when there are many."""
    size = -(-len(rows) // _MOST_ITERATIONS)
    out = []
    for at in range(0, len(rows), max(size, 1)):
        group = rows[at : at + size]
        row = max(group, key=lambda r: r["duration"])
        out.append({"number": row["number"], "label": text(row["label"] or ""), "start": row["start"] - origin,
                    "duration": row["duration"], "busy": row["busy"], "steady": row["steady"],
                    "outlier": row["outlier"], "of": len(group)})  # fmt: skip
    return out
