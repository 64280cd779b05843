"""The flame graph as a self-contained page that zooms and searches, and as data for other pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from warpsight.analysis.base.frames import is_folded
from warpsight.ui.render import pages
from warpsight.ui.render.flame.layout import preorder, pruned
from warpsight.ui.render.flame.pictures import title_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from warpsight.analysis.flame.graph import FlameGraph

#: Frames of a page of its own; more than anybody can see, few enough to open at once.
MOST_NODES = 100_000
STYLES = ("theme.css",)
SCRIPTS = ("format.js", "flame_trees.js", "flame.js")
#: Weight → name of its rows.
ROWS = {
    "time": "rows",
    "launches": "launches",
    "bytes": "copies and sets",
    "idle": "rows",
    "allocated": "allocations",
    "samples": "samples",
    "pc-samples": "samples of warps",
}
_HINT = "Click a frame to zoom or unfold, hover for its numbers, / searches."


def data_of(graph: FlameGraph, most: int, text: Callable[[str], str] = str) -> tuple[dict[str, Any], int]:
    """The data that `flame.js` draws, and the number of frames left out as too small; `text` redacts labels.

    Nodes are in preorder, so that depths alone give the tree; only own weights are written, the page sums them up. `runs` are
    parts of these weights in the order of time.
    """
    import numpy as np

    graph, dropped = pruned(graph, most)
    order = preorder(graph)
    count = graph.count.copy()
    for i in range(count.shape[1]):
        _subtract_children(graph, count[:, i])
    data = {
        "title": title_of(graph)[0],
        "hint": _HINT,
        "weight": graph.weight,
        "unit": graph.unit,
        "rows": ROWS[graph.weight],
        "columns": graph.total.shape[1],
        "labels": [text(label) for label in graph.labels],
        "kinds": list(graph.kinds),
        "library": [
            int(kind == "python" and is_folded(label))
            for label, kind in zip(graph.labels, graph.kinds, strict=True)
        ],
        "tree": {
            "depth": graph.depth[order].tolist(),
            "label": graph.label[order].tolist(),
            "own": [graph.own[order, i].tolist() for i in range(graph.own.shape[1])],
            "count": [count[order, i].tolist() for i in range(count.shape[1])],
        },
    }
    if graph.runs is not None:
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        runs = graph.runs
        data["runs"] = {"node": place[runs.node].tolist(), "own": runs.weight.tolist(), "count": runs.count.tolist(),
                        "start": runs.start.tolist()}  # fmt: skip
    return data, dropped


def rows_of(graph: FlameGraph, most: int) -> int:
    """The rows that the page draws at first, with consecutive library frames merged into one."""
    graph, _ = pruned(graph, most)
    folded = [
        kind == "python" and is_folded(label) for label, kind in zip(graph.labels, graph.kinds, strict=True)
    ]
    depth: list[int] = []
    for parent, label in zip(graph.parent.tolist(), graph.label.tolist(), strict=True):
        above = parent >= 0 and folded[label] and folded[graph.label[parent]]
        depth.append((depth[parent] if parent >= 0 else 0) + (not above))
    return max(depth, default=0)


def _subtract_children(graph: FlameGraph, count: NDArray[np.int64]) -> None:
    """Rows at a node itself, from the rows at and below it."""
    import numpy as np

    below = np.zeros_like(count)
    np.add.at(below, graph.parent[1:], count[1:])
    count -= below


def page(
    graph: FlameGraph,
    name: str,
    *,
    text: Callable[[str], str] = str,
    lost: Sequence[str] = (),
    most: int = MOST_NODES,
) -> str:
    """One HTML file without outside requests.

    Args:
        graph: The graph.
        name: Name for the heading; redacted by the caller's `text` like all labels.
        text: Redaction of labels.
        lost: What is missing from the trace, a line each, shown in red.
        most: Largest number of frames to draw; the heaviest are kept.
    """
    heading, told = title_of(graph)
    data, dropped = data_of(graph, most, text)
    return pages.page(
        "flame.html.j2", css=STYLES, js=SCRIPTS, data=data, title=heading, name=text(name), told=told,
        lost=[text(line) for line in lost], dropped=f"{dropped:,}" if dropped else "",
    )  # fmt: skip
