"""Flame graphs as text for other tools: folded stacks, and speedscope's JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from warpsight.analysis.flame.graph import FlameGraph

#: What ends a frame or a line in folded text.
_ESCAPES = str.maketrans({";": ":", "\n": " ", "\r": " "})
#: speedscope's units.
_UNITS = {"ns": "nanoseconds", "B": "bytes", "": "none"}
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_folded(graph: FlameGraph, stream: IO[str]) -> int:
    """One line per stack: `frame;frame;… weight`, for flamegraph.pl and everything after it; returns the lines.

    A differential graph gives two weights, before and after, as difffolded.pl writes them. The format separates frames
    by `;`, so a `;` inside a name becomes `:`.
    """
    lines = 0
    for path, weights in _stacks(graph):
        text = ";".join(graph.labels[graph.label[node]].translate(_ESCAPES) for node in path)
        stream.write(f"{text} {' '.join(map(str, weights))}\n")
        lines += 1
    return lines


def speedscope(graph: FlameGraph, name: str) -> dict[str, Any]:
    """The graph in speedscope's file format, one sampled profile per trace.

    Format: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources
    """
    stacks = list(_stacks(graph))
    profiles = []
    for i, trace in enumerate(graph.traces or (name,)):
        chosen = [(path, weights[i]) for path, weights in stacks if weights[i]]
        profiles.append({
            "type": "sampled", "name": trace if graph.differential else name, "unit": _UNITS[graph.unit],
            "startValue": 0, "endValue": sum(w for _, w in chosen),
            "samples": [[int(graph.label[node]) for node in path] for path, _ in chosen],
            "weights": [w for _, w in chosen],
        })  # fmt: skip
    return {
        "$schema": _SCHEMA,
        "shared": {"frames": [{"name": label} for label in graph.labels]},
        "profiles": profiles,
        "name": name,
        "exporter": "warpsight",
        "activeProfileIndex": 0,
    }


def _stacks(graph: FlameGraph) -> Iterator[tuple[list[int], list[int]]]:
    """Nodes with a weight of their own: the way to them without the root, and the weights; in the tree's order."""
    parent = graph.parent.tolist()
    for node in np.flatnonzero(graph.own.any(axis=1)).tolist():
        path, at = [], node
        while at > 0:
            path.append(at)
            at = parent[at]
        yield path[::-1], graph.own[node].tolist()
