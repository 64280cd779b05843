"""Data of the report's pictures in compact form: bins as bytes, times relative to the begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.ui.render.pages import packed

if TYPE_CHECKING:
    from warpsight.analysis.stats.overview import Overview
    from warpsight.analysis.stats.overview_series import Series

#: Iterations drawn one by one; more are drawn as bins of neighbors.
_MOST_ITERATIONS = 600


def timeline(over: Overview, text: Callable[[str], str]) -> dict[str, Any]:
    """What `timeline.js` draws. Shares are bytes (255 is busy all the time), names are bytes too: there are 251 at most."""
    from warpsight.model.work import KINDS

    share = np.ceil(over.busy * 255).clip(0, 255)  # work is never rounded away
    events = over.events
    return {
        "begin": 0,
        "end": over.end - over.begin,
        "lanes": [{"label": text(lane.label), "device": lane.device, "stream": lane.stream, "busy": lane.busy, "rows": lane.rows}
                  for lane in over.lanes],
        "bins": int(over.busy.shape[1]),
        "busy": packed(share, "u1"),
        "name": packed(over.name, "u1"),
        "names": [text(name) for name in over.names],
        "kinds": [KINDS[kind] for kind in over.kinds],
        "merged": over.merged,
        "events": {
            "begin": events.begin - over.begin, "end": events.end - over.begin, "count": len(events),
            "start": packed(events.start - over.begin, "f8"), "duration": packed(events.duration, "f4"),
            "lane": packed(events.lane, "u1"), "name": packed(events.name, "u1"),
        },
    }  # fmt: skip


def lines(series: Sequence[Series], origin: int, text: Callable[[str], str]) -> list[dict[str, Any]]:
    """What `charts.js` draws as lines, times relative to `origin`."""
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
