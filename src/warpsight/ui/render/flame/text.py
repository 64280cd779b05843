"""Flame graphs as text for other tools: folded stacks, and speedscope's JSON, and V8's CPU profiles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from warpsight.analysis.flame.graph import FlameGraph

#: Characters that end a frame or a line in folded text.
_ESCAPES = str.maketrans({";": ":", "\n": " ", "\r": " "})
#: speedscope's units.
_UNITS = {"ns": "nanoseconds", "B": "bytes", "": "none"}
_PLACE = re.compile(r"(.*) \(([^()]*):(\d+)\)")
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_folded(graph: FlameGraph, stream: IO[str]) -> int:
    """One line per stack, `frame;frame;… weight`, for flamegraph.pl and similar tools; returns the number of lines.

    A differential graph gives two weights, before and after, as difffolded.pl writes them. The format separates frames
    by `;`, so a `;` inside a name becomes `:`.
    """
    lines = 0
    for node in np.flatnonzero(graph.own.any(axis=1)).tolist():
        text = ";".join(graph.labels[label].translate(_ESCAPES) for label in _frames(graph, node))
        stream.write(f"{text} {' '.join(map(str, graph.own[node].tolist()))}\n")
        lines += 1
    return lines


def speedscope(graph: FlameGraph, name: str) -> dict[str, Any]:
    """The graph in speedscope's file format, one sampled profile per trace; its "Time Order" view is that of the trace.

    Format: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources
    """
    profiles = []
    for i, trace in enumerate(graph.traces or (name,)):
        nodes, weights = _samples(graph, i)
        profiles.append({
            "type": "sampled", "name": trace if graph.differential else name, "unit": _UNITS[graph.unit],
            "startValue": 0, "endValue": sum(weights), "samples": [_frames(graph, node) for node in nodes], "weights": weights,
        })  # fmt: skip
    return {
        "$schema": _SCHEMA,
        "shared": {"frames": [{"name": label} for label in graph.labels]},
        "profiles": profiles,
        "name": name,
        "exporter": "warpsight",
        "activeProfileIndex": 0,
    }


def cpuprofile(graph: FlameGraph) -> dict[str, Any]:
    """The graph as V8's CPU profile, in time order if known: editors open the lines of its frames.

    Nanoseconds are rounded to the format's microseconds so that the sum stays correct; one unit of another weight counts as one
    microsecond.
    Format: https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile
    """
    nodes, weights = _samples(graph, graph.own.shape[1] - 1)
    ends = np.cumsum(weights, dtype=np.int64) // (1_000 if graph.unit == "ns" else 1)
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(graph.parent.tolist()):
        if parent >= 0:
            children.setdefault(parent, []).append(node + 1)
    hits = np.bincount(nodes, minlength=len(graph)) if nodes else np.zeros(len(graph), np.int64)
    described = [
        {
            "id": node + 1,
            "callFrame": _call_frame(graph.labels[label]),
            "hitCount": hit,
            "children": children.get(node, []),
        }
        for node, (label, hit) in enumerate(zip(graph.label.tolist(), hits.tolist(), strict=True))
    ]
    return {
        "nodes": described,
        "startTime": 0,
        "endTime": int(ends[-1]) if len(ends) else 0,
        "samples": [node + 1 for node in nodes],
        "timeDeltas": np.diff(ends, prepend=0).tolist(),
    }


def _call_frame(label: str) -> dict[str, Any]:
    """Function, file and line of `function (file:line)`; lines count from 0 here."""
    found = _PLACE.fullmatch(label)
    function, file, line = found.groups() if found else (label, "", "0")
    url = Path(file).as_uri() if file.startswith("/") else file
    return {
        "functionName": function,
        "scriptId": "0",
        "url": url,
        "lineNumber": int(line) - 1,
        "columnNumber": 0,
    }


def _samples(graph: FlameGraph, column: int) -> tuple[list[int], list[int]]:
    """Nodes and weights of one trace, in time order if known."""
    if graph.runs is not None:
        return graph.runs.node.tolist(), graph.runs.weight.tolist()
    own = graph.own[:, column]
    nodes = np.flatnonzero(own)
    return nodes.tolist(), own[nodes].tolist()


def _frames(graph: FlameGraph, node: int) -> list[int]:
    """Labels on the path to a node, without the root's."""
    path = []
    while node > 0:
        path.append(int(graph.label[node]))
        node = int(graph.parent[node])
    return path[::-1]
