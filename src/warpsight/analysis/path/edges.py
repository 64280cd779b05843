"""Edges between device nodes beyond stream order: events, default streams, graphs, wait lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path.lines import Lines
from warpsight.model import calls
from warpsight.model.waits import EventRecords, Waits, queue_numbers
from warpsight.model.work import Everything, Queue, Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Maximum steps from a node of an executable graph to the graph with known edges.
_GENERATIONS = 64
#: cuStreamGetFlags and CUpti_ActivityStream: these streams wait for the legacy default stream, and it for them.
BLOCKING_STREAM = 1
#: CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
_OUT_OF_ORDER = 1


@dataclass
class Edges:
    """Edges between device nodes by kind."""

    source: list[Column] = field(default_factory=list)
    target: list[Column] = field(default_factory=list)
    kind: list[Column] = field(default_factory=list)

    def add(self, source: Column, target: Column, kind: int) -> None:
        """Append edges; a source of -1 is not an edge."""
        good = (source >= 0) & (target >= 0)
        self.source.append(source[good].astype(np.int64))
        self.target.append(target[good].astype(np.int64))
        self.kind.append(np.full(int(good.sum()), kind, np.int8))

    def joined(self) -> tuple[Column, Column, Column]:
        """All edges."""
        if not self.source:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int8)
        return np.concatenate(self.source), np.concatenate(self.target), np.concatenate(self.kind)


@dataclass(frozen=True)
class _StreamKinds:
    """Which queues differ from ordinary ones.

    Attributes:
        default: Legacy default streams.
        blocking: Streams that wait for the legacy default stream of their context, and it for them.
        unordered: Queues whose work may run in any order.
    """

    default: tuple[int, ...]
    blocking: tuple[int, ...]
    unordered: tuple[int, ...]


def stream_kinds(trace: StoredTrace, queues: tuple[Queue, ...]) -> _StreamKinds:
    """Read from tables context and stream; a stream with unknown flags counts as non-blocking."""
    contexts = trace.rows("context", "process", "device", "context", "null_stream", "api")
    default = [row[:4] for row in contexts if row[3] is not None and row[4] == "cuda"]
    apis: dict[tuple[int, int], str] = {(row[0], row[2]): row[4] for row in contexts if row[4] is not None}
    blocking, unordered = [], []
    for row in trace.rows("stream", "process", "device", "context", "stream", "flags"):
        api = apis.get((row[0], row[2]), "cuda")
        if row[4] is not None and api == "cuda" and row[4] == BLOCKING_STREAM:
            blocking.append(row)
        elif row[4] is not None and api == "opencl" and row[4] & _OUT_OF_ORDER:
            unordered.append(row)
    return _StreamKinds(*(_numbers(queues, rows) for rows in (default, blocking, unordered)))


def _numbers(queues: tuple[Queue, ...], rows: list[tuple[Any, ...]]) -> tuple[int, ...]:
    """Queue numbers of rows with (process, device, context, stream, …)."""
    columns = {
        name: np.array([-1 if row[place] is None else row[place] for row in rows], np.int64)
        for place, name in enumerate(("process", "device", "context", "stream"))
    }
    return tuple(sorted({number for number in queue_numbers(queues, columns).tolist() if number >= 0}))


def default_stream_edges(
    lines: Lines, kinds: _StreamKinds, queues: tuple[Queue, ...], real: int, edges: Edges, kind: int
) -> None:
    """Work on a legacy default stream waits for all blocking streams of its context, and they for it.

    Nodes from `real` on are waits of streams. They end at a time of their own, so none is a target.

    An edge that the one before it on the same stream already implies is left out, so there are at most two per node.
    """
    for default in kinds.default:
        for other in kinds.blocking:
            if other == default or not _of_one_context(queues[other], queues[default]):
                continue
            for one, two in ((default, other), (other, default)):
                a, b = lines.places(one)
                at = a + np.flatnonzero(lines.order[a:b] < real)
                if not len(at):
                    continue
                source = lines.before(two, lines.issue[at])
                new = np.r_[True, source[1:] != source[:-1]]
                edges.add(np.where(new, source, -1), lines.order[at], kind)


def _of_one_context(one: Queue, other: Queue) -> bool:
    return (one.process, one.device, one.context) == (other.process, other.device, other.context)


def matched(waits: Waits, when: Column, records: EventRecords, issued: Column) -> Column:
    """For each wait, the record it waits for: the last earlier one of the same event; -1 if there is none."""
    if not len(records) or not len(waits):
        return np.full(len(waits), -1, np.int64)
    keys = np.unique(np.concatenate([records.event, waits.event]), return_inverse=True)[1]
    low = min(int(issued.min()), int(when.min()))
    span = max(int(issued.max()), int(when.max())) - low + 1
    process = np.unique(np.concatenate([records.process, waits.process]), return_inverse=True)[1]
    group = keys * (int(process.max()) + 1) + process
    group = np.unique(group, return_inverse=True)[1]  # few groups, so that group and time fit one integer
    mine, theirs = group[: len(issued)], group[len(issued) :]
    made = mine * span + (issued - low)
    order = np.argsort(made, kind="stable")
    at = np.searchsorted(made[order], theirs * span + (when - low), side="left") - 1
    found = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (mine[found] == theirs), found, -1)


def graphs(trace: StoredTrace, whole: Everything, work: Work) -> tuple[Column, Column] | None:
    """Graph and graph node of each row of work, or 0; None for traces without graphs, which is most of them."""
    tables = ("kernel", "memcpy", "memset")
    if not any(trace.has(table, column) for table in tables for column in ("graph", "graph_node")):
        return None
    count = len(whole.work)
    graph, node = np.zeros(count, np.int32), np.zeros(count, np.int64)
    for table, (rows, source) in (
        ("kernel", whole.kernels),
        ("memcpy", whole.copies),
        ("memset", whole.sets),
    ):
        columns, _ = trace.columns(table, {"graph": 0, "graph_node": 0})
        graph[rows], node[rows] = columns["graph"][source], columns["graph_node"][source]
    return (graph, node) if work.source is None else (graph[work.source], node[work.source])


def graph_edges(trace: StoredTrace, work: Work, graph_node: Column) -> tuple[Column, Column, int]:
    """Edges between work of one graph launch, from the graphs' own edges; and how many contradict the times.

    Nodes that leave no row (empty nodes, event nodes, host nodes) are bridged. A node's edges may be known only for the
    graph that its executable graph was made from.
    """
    mine = np.flatnonzero(graph_node != 0)
    if not len(mine) or not trace.count("graph_edge"):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), 0
    reduced = _bridged(trace, set(np.unique(graph_node[mine]).tolist()))
    if not len(reduced):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), 0
    launches = np.unique(
        np.stack([work.process[mine].astype(np.int64), work.correlation[mine]]), axis=1, return_inverse=True
    )[1]
    nodes, places = np.unique(graph_node[mine], return_inverse=True)
    keys = launches.reshape(-1).astype(np.int64) * len(nodes) + places
    order = np.argsort(keys, kind="stable")
    known = keys[order]
    source, target = (np.searchsorted(nodes, reduced[:, i]) for i in (0, 1))
    counts = np.bincount(target, minlength=len(nodes))
    by_target = source[np.argsort(target, kind="stable")]
    begins = np.cumsum(counts) - counts
    wanted = counts[places]
    repeated = np.repeat(np.arange(len(mine)), wanted)
    inside = np.arange(len(repeated)) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    sources = by_target[begins[places[repeated]] + inside]
    key = launches.reshape(-1)[repeated].astype(np.int64) * len(nodes) + sources
    at = np.minimum(np.searchsorted(known, key), len(known) - 1)
    found = known[at] == key
    one, two = mine[order[at[found]]], mine[repeated[found]]
    forward = one < two  # work is in order of start
    return one[forward], two[forward], int((~forward).sum())


def _bridged(trace: StoredTrace, seen: set[int]) -> Column:
    """Edges (from, to) between nodes with rows, as pairs of node ids."""
    edges = trace.sql("SELECT DISTINCT from_node, to_node FROM graph_edge").fetchall()
    known = {node for edge in edges for node in edge}
    original = dict(
        trace.sql("SELECT graph_node, original FROM graph_node WHERE original IS NOT NULL").fetchall()
    )
    alias: dict[int, list[int]] = {}
    for node in seen:  # a node of an executable graph takes the nearest ancestor with known edges
        root, steps = node, 0
        while root not in known and root in original and steps < _GENERATIONS:
            root, steps = original[root], steps + 1
        alias.setdefault(root, []).append(node)
    parents: dict[int, list[int]] = {}
    for a, b in edges:
        parents.setdefault(b, []).append(a)
    out: list[tuple[int, int]] = []
    for node in alias:
        found, stack, met = [], list(parents.get(node, ())), set()
        while stack:
            one = stack.pop()
            if one in met:
                continue
            met.add(one)
            if one in alias:
                found.append(one)
            else:
                stack += parents.get(one, ())
        out += [(a, b) for parent in found for a in alias[parent] for b in alias[node]]
    return np.array(out, np.int64).reshape(-1, 2)


def listed_edges(trace: StoredTrace, work: Work) -> tuple[Column, Column, Column, Column]:
    """Explicit dependencies (table flow).

    Returns:
        Places of work that comes first and of work that waits (-1: none), and process and correlation of what waits.
    """
    none = np.zeros(0, np.int64)
    if not trace.count("flow"):
        return none, none, none, none
    columns, texts = trace.columns(
        "flow", {"from_correlation": -1, "to_correlation": -1, "process": 0}, ["kind"]
    )
    mine = np.flatnonzero(
        np.array([kind == "wait list" for kind in texts["kind"]] + [False])[columns["kind"]]
    )
    first, second, process = (
        columns[name][mine] for name in ("from_correlation", "to_correlation", "process")
    )
    in_order = np.lexsort((first, second))
    first, second, process = first[in_order], second[in_order], process[in_order]
    before, after = (calls.joined(process, one, work.process, work.correlation) for one in (first, second))
    return before, after, process, second
