"""A dependency graph as DOT, for Graphviz: only edges that no other path implies, the critical path in red."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base import words
from warpsight.analysis.path import critical_path
from warpsight.analysis.path import dependencies as dependency
from warpsight.analysis.path.dependencies import EDGES, DependencyGraph
from warpsight.errors import UsageError
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.formats.selection import Selection
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Maximum number of nodes in a picture; also bounds the transitive reduction, which is quadratic.
MOST_NODES = 5_000
_COLORS = {"launch": "blue", "stream": "black", "host": "gray50", "call": "gray50", "event": "purple", "graph": "darkgreen",
           "default stream": "orange", "sync": "firebrick", "blocking call": "firebrick", "wait list": "purple",
           "hand-over": "gray50"}  # fmt: skip


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write the dependency graph of a selection (the exporter `dot`); returns counts of nodes and edges.

    Raises:
        UsageError: when the selection has more than :data:`MOST_NODES` nodes.
    """
    rows = Rows(selection.begin, selection.end, selection.devices, selection.streams, selection.processes)
    text, nodes, edges = _text(trace, rows)
    file.write(text.encode())
    return {"nodes": nodes, "edges": edges}


def write_dot(trace: StoredTrace, rows: Rows, file: IO[str]) -> None:
    """Write the dependency graph of some rows.

    Raises:
        UsageError: when there are more than :data:`MOST_NODES` nodes.
    """
    file.write(_text(trace, rows)[0])


def _text(trace: StoredTrace, rows: Rows) -> tuple[str, int, int]:
    graph = dependency.build(trace, rows)
    nodes, source, target, kind = _contracted(graph)
    if len(nodes) > MOST_NODES:
        raise UsageError(
            f"the graph has {len(nodes):,} nodes, more than {MOST_NODES:,}: choose a part with --from and --until"
        )
    kept = reduction(len(nodes), source, target)
    source, target, kind = source[kept], target[kept], kind[kept]
    path = set(critical_path.trace_back(graph).point.tolist())
    labels = critical_path.Labels(trace, graph)
    lines = [
        "digraph dependencies {",
        "  rankdir=LR;",
        '  node [shape=box, fontname="sans-serif", fontsize=10];',
    ]
    names = labels.points(nodes)
    for number, (point, name) in enumerate(zip(nodes.tolist(), names, strict=True)):
        lines.append(f"  n{number} [{_attributes(graph, point, name, point in path)}];")
    place = {point: i for i, point in enumerate(nodes.tolist())}
    on_path = {place[p] for p in path if p in place}
    for a, b, k in zip(source.tolist(), target.tolist(), kind.tolist(), strict=True):
        width = ", penwidth=2" if a in on_path and b in on_path else ""
        lines.append(
            f'  n{a} -> n{b} [color="{_COLORS.get(EDGES[k], "black")}", tooltip="{EDGES[k]}"{width}];'
        )
    lines.append("}")
    return "\n".join(lines) + "\n", len(nodes), len(source)


def _attributes(graph: DependencyGraph, point: int, name: str, critical: bool) -> str:
    if point >= graph.base:
        node = point - graph.base
        length = words.duration(int(graph.end[node] - graph.start[node]))
        label = f"{name}\nstream {graph.queues[int(graph.queue[node])].stream}, {length}"
        style = 'style=filled, fillcolor="#d8e8ff"'
    else:
        call = int(graph.by_thread.call[point // 2])
        length = words.duration(int(graph.calls.end[call] - graph.calls.start[call]))
        returned = " returns" if point % 2 else ""
        label = f"{name}{returned}\nthread {int(graph.calls.thread[call])}, {length}"
        style = 'style=filled, fillcolor="#eeeeee"'
    color = ', color="red", penwidth=2' if critical else ""
    return f"label={quoted(label)}, {style}{color}"


def quoted(text: str) -> str:
    r"""A DOT string: quotes and backslashes escaped, line breaks as ``\n``."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{escaped}"'


def _contracted(graph: DependencyGraph) -> tuple[Column, Column, Column, Column]:
    """Points to draw, and the edges between them as places among the points, with their kinds.

    A call whose return follows from nothing but its begin is one node; one that waited, or in which another call was made, is
    two: drawn as one it would be its own predecessor.
    """
    source, target, kind = graph.edges
    base, count = graph.base, len(graph.by_thread)
    waited = np.zeros(count + 1, bool)
    released = np.isin(kind, (dependency.SYNC, dependency.BLOCKING)) & (target < base)
    released |= (target < base) & (target % 2 == 1) & (source != target - 1)
    waited[target[released] // 2] = True

    def drawn(point: Column) -> Column:
        host = point < base
        call = np.where(host, point // 2, count)
        return np.where(host & ~waited[call], 2 * call, point)

    one, two = drawn(source), drawn(target)
    inner = one != two
    pairs = np.stack([one[inner], two[inner]])
    pairs, first = np.unique(pairs, axis=1, return_index=True)
    kinds = kind[inner][first]
    alone = drawn(np.arange(len(graph)))
    nodes = np.unique(alone)
    return nodes, np.searchsorted(nodes, pairs[0]), np.searchsorted(nodes, pairs[1]), kinds


def reduction(count: int, source: Column, target: Column) -> Column:
    """Which edges of an acyclic graph are in its transitive reduction (Aho, Garey and Ullman 1972).

    Nodes are visited from last to first in topological order. The set of nodes that each one reaches is kept as the bits of one
    integer. Its edges are tried nearest target first, and an edge is kept if no edge kept before it reaches the target.
    """
    following: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    waiting = [0] * count
    for edge, (a, b) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        following[a].append((b, edge))
        waiting[b] += 1
    order = [node for node in range(count) if not waiting[node]]
    for node in order:
        for b, _ in following[node]:
            waiting[b] -= 1
            if not waiting[b]:
                order.append(b)
    rank = {node: i for i, node in enumerate(order)}
    reach = [0] * count
    kept = np.zeros(len(source), bool)
    for node in reversed(order):
        reached = 0
        for b, edge in sorted(following[node], key=lambda one: rank[one[0]]):
            if not reached >> b & 1:
                kept[edge] = True
                reached |= reach[b] | 1 << b
        reach[node] = reached
    return kept
