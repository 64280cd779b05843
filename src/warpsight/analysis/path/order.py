"""The order of work on one stream: which work each began after, and where events, waits and default streams tie in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path.rows import CallIndex, Records, Waits, Work, by_group, columns
from warpsight.analysis.path.stream_ids import StreamIds

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
#: A time before all others.
NEVER = np.iinfo(np.int64).min // 4
_ROUNDS = 64
#: cuStreamGetFlags and CUpti_ActivityStream: these streams wait for the legacy default stream, and it for them.
_BLOCKING_STREAM = 1
#: CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
_OUT_OF_ORDER = 1


@dataclass
class Edges:
    """Edges between device nodes that stream order does not give, by kind."""

    source: list[Column] = field(default_factory=list)
    target: list[Column] = field(default_factory=list)
    kind: list[Column] = field(default_factory=list)

    def add(self, source: Column, target: Column, kind: int) -> None:
        """Append edges; a source of -1 is no edge."""
        good = (source >= 0) & (target >= 0)
        self.source.append(source[good].astype(np.int64))
        self.target.append(target[good].astype(np.int64))
        self.kind.append(np.full(int(good.sum()), kind, np.int8))

    def joined(self) -> tuple[Column, Column, Column]:
        """All edges."""
        if not self.source:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int8)
        return np.concatenate(self.source), np.concatenate(self.target), np.concatenate(self.kind)


@dataclass
class Streams:
    """Device nodes in order of (stream, issue): slices of :attr:`order`, one per stream.

    `issue` is the host time at which a node was issued: the begin of its call, or its own start where the call is not
    known. Nodes of one graph launch share it and stand in order of their start.
    """

    order: Column
    issue: Column
    bounds: dict[int, tuple[int, int]]
    #: For each place in the order: the place of the node that ended last up to there.
    latest: Column
    ends: Column

    @classmethod
    def of(cls, stream: Column, issue: Column, end: Column) -> Streams:
        """Sort nodes, which are in order of start, by stream and issue."""
        order = by_group(stream, issue)
        order = order.astype(np.int32) if len(order) < 1 << 31 else order
        keys = stream[order]
        first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, np.int64)
        stops = np.r_[first[1:], len(keys)] if len(keys) else first
        bounds = {int(keys[a]): (int(a), int(b)) for a, b in zip(first.tolist(), stops.tolist(), strict=True)}
        found = cls(order, issue[order], bounds, np.zeros(len(order), order.dtype), end[order])
        found.resolve()
        return found

    def resolve(self) -> None:
        """Find the latest ends anew: ends of waits become known step by step."""
        for a, b in self.bounds.values():
            places = np.arange(a, b, dtype=self.latest.dtype)
            places[self.ends[a:b] < np.maximum.accumulate(self.ends[a:b])] = a
            np.maximum.accumulate(places, out=self.latest[a:b])

    def before(self, stream: int, time: Column) -> Column:
        """The node of a stream that ended last of all that were issued before each time; -1 without any."""
        if stream not in self.bounds:
            return np.full(len(time), -1, np.int64)
        a, b = self.bounds[stream]
        at = a + np.searchsorted(self.issue[a:b], time, side="left") - 1
        return np.where(at >= a, self.order[self.latest[np.maximum(at, a)]], -1)

    def after(self, stream: int, time: Column) -> Column:
        """The first node of a stream issued at or after each time; -1 without any."""
        if stream not in self.bounds:
            return np.full(len(time), -1, np.int64)
        a, b = self.bounds[stream]
        at = a + np.searchsorted(self.issue[a:b], time, side="left")
        return np.where(at < b, self.order[np.minimum(at, b - 1)], -1)

    def previous(self, start: Column, same_launch: Column) -> tuple[Column, Column]:
        """For each node the one of its stream that released it, and whether they overlap.

        That is the node that ended last of all before it in the order. Where that one had not ended when this began
        (nodes of one graph launch side by side, programmatic launches, clocks that disagree), it is the one that ended
        last before this began, and without such a one the node before, with the overlap said.
        """
        count = len(self.order)
        before = np.full(count, -1, self.order.dtype)
        overlap = np.zeros(count, bool)
        begins = start[self.order]
        for a, b in self.bounds.values():
            before[a + 1 : b] = self.latest[a : b - 1]
            late = a + np.flatnonzero(self.ends[np.maximum(before[a:b], a)] > begins[a:b])
            late = late[late > a]
            if not len(late):
                continue
            by_end = a + np.argsort(self.ends[a:b], kind="stable")
            at = np.searchsorted(self.ends[by_end], begins[late], side="right") - 1
            found = by_end[np.maximum(at, 0)]
            good = (at >= 0) & (found < late)
            # Side by side in one launch nothing held it back there: what released the launch did.
            fallback = np.where(same_launch[self.order[late]], before[late], late - 1)
            before[late] = np.where(good, found, fallback)
            overlap[late] = ~good
        del begins
        out, mark = np.full(count, -1, self.order.dtype), np.zeros(count, bool)
        out[self.order] = np.where(before >= 0, self.order[np.maximum(before, 0)], self.order.dtype.type(-1))
        mark[self.order] = overlap
        return out, mark


@dataclass(frozen=True)
class Kinds:
    """Which streams differ from ordinary ones, by the numbers of streams and contexts."""

    #: Legacy default stream of each context.
    null: dict[int, int]
    blocking: frozenset[int]
    unordered: frozenset[int]


def stream_kinds(trace: Trace, ids: StreamIds) -> Kinds:
    """Read them from the tables context and stream; a stream whose flags are not known is taken as non-blocking."""
    null = trace.sql("""SELECT process, context, null_stream FROM context
                        WHERE null_stream IS NOT NULL AND api = 'cuda'""").fetchall()
    flagged = trace.sql("""SELECT s.process, s.context, s.stream, s.flags, coalesce(c.api, 'cuda')
                           FROM stream s LEFT JOIN context c ON s.process = c.process AND s.context = c.context
                           WHERE s.flags IS NOT NULL""").fetchall()
    known = [(ids.number(*where), flags, api) for *where, flags, api in flagged]
    return Kinds(
        {ids.number_of_context(process, context): ids.number(process, context, stream) for process, context, stream in null},
        frozenset(stream for stream, flags, api in known if api == "cuda" and flags == _BLOCKING_STREAM),
        frozenset(stream for stream, flags, api in known if api == "opencl" and flags & _OUT_OF_ORDER),
    )  # fmt: skip


def default_stream_edges(
    streams: Streams, ids: StreamIds, kinds: Kinds, real: Column, edges: Edges, kind: int
) -> None:
    """Work on a legacy default stream waits for all blocking streams of its context, and they for it.

    `real` tells which nodes are work; waits of streams are over when their own time is, so none is a target.

    An edge that the one before it on the same stream already implies is left out, so there are at most two per node.
    """
    for context, null in kinds.null.items():
        if null not in streams.bounds:
            continue
        for other in kinds.blocking:
            if other == null or other not in streams.bounds or ids.context[other] != context:
                continue
            for one, two in ((null, other), (other, null)):
                a, b = streams.bounds[one]
                at = a + np.flatnonzero(real[streams.order[a:b]])
                if not len(at):
                    continue
                source = streams.before(two, streams.issue[at])
                new = np.r_[True, source[1:] != source[:-1]]
                edges.add(np.where(new, source, -1), streams.order[at], kind)


def matched(waits: Waits, when: Column, records: Records, issued: Column, chosen: Column) -> Column:
    """For the chosen waits the record they wait for: the last one of the same event before them; -1 without one."""
    if not len(issued) or not len(chosen):
        return np.full(len(chosen), -1, np.int64)
    keys = np.unique(np.concatenate([records.event, waits.event[chosen]]), return_inverse=True)[1]
    low = min(int(issued.min()), int(when[chosen].min()))
    span = max(int(issued.max()), int(when[chosen].max())) - low + 1
    process = np.unique(np.concatenate([records.process, waits.process[chosen]]), return_inverse=True)[1]
    group = keys * (int(process.max()) + 1) + process
    group = np.unique(group, return_inverse=True)[1]  # few groups, so that group and time fit one integer
    mine, theirs = group[: len(issued)], group[len(issued) :]
    made = mine * span + (issued - low)
    order = np.argsort(made, kind="stable")
    at = np.searchsorted(made[order], theirs * span + (when[chosen] - low), side="left") - 1
    found = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (mine[found] == theirs), found, -1)


def settle(streams: Streams, end: Column, node: Column, stream: Column, when: Column) -> Column:
    """Give waits of streams the time at which they were over, and return the work each waited for on the other stream.

    A wait ends when everything before it on its own stream and the awaited work have ended; the latter may itself be a
    wait, so this is repeated until nothing changes. `node` are the waits' places among device nodes; `stream` and `when`
    tell the awaited record's stream and time, `stream` -1 for a record that is not in the trace.
    """
    place = np.empty(len(end), np.int64)
    place[streams.order] = np.arange(len(streams.order))
    source = np.full(len(node), -1, np.int64)
    for _ in range(_ROUNDS):
        streams.resolve()
        for one in np.unique(stream[stream >= 0]).tolist():
            mine = stream == one
            source[mine] = streams.before(one, when[mine])
        own = streams.latest[place[node]]
        now = np.maximum(streams.ends[own], np.where(source >= 0, end[np.maximum(source, 0)], NEVER))
        if (now == end[node]).all():
            break
        end[node] = now
        streams.ends[place[node]] = now
    return source


def graph_edges(trace: Trace, work: Work) -> tuple[Column, Column, int]:
    """Edges between work of one graph launch, from the graphs' own edges; and how many contradicted the times.

    Nodes that leave no row (empty nodes, event nodes, host nodes) are bridged. A node's edges may be known only for the
    graph that its executable graph was made from.
    """
    mine = np.flatnonzero(work.graph_node != 0)
    if not len(mine) or not trace.count("graph_edge"):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), 0
    reduced = _bridged(trace, set(np.unique(work.graph_node[mine]).tolist()))
    if not len(reduced):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), 0
    launches = np.unique(
        np.stack([work.process[mine].astype(np.int64), work.correlation[mine]]), axis=1, return_inverse=True
    )[1]
    nodes, places = np.unique(work.graph_node[mine], return_inverse=True)
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


def _bridged(trace: Trace, seen: set[int]) -> Column:
    """Edges (from, to) between nodes that have rows, as pairs of node ids."""
    edges = trace.sql("SELECT DISTINCT from_node, to_node FROM graph_edge").fetchall()
    known = {node for edge in edges for node in edge}
    original = dict(
        trace.sql("SELECT graph_node, original FROM graph_node WHERE original IS NOT NULL").fetchall()
    )
    alias: dict[int, list[int]] = {}
    for node in seen:  # a node of an executable graph stands for the nearest ancestor whose edges are known
        root, steps = node, 0
        while root not in known and root in original and steps < _ROUNDS:
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


def listed_edges(
    trace: Trace, work: Work, calls_of: Column, index: CallIndex
) -> tuple[Column, Column, Column]:
    """Explicit dependencies (table flow): device work and call waited for, and the device work and call that waits.

    Returns places of work that comes first, of work that waits (-1: none), and of the call that waits (-1: none).
    """
    none = np.zeros(0, np.int64)
    if not trace.count("flow"):
        return none, none, none
    rows = columns(
        trace,
        "SELECT from_correlation AS a, to_correlation AS b, process FROM flow WHERE kind = 'wait list' ORDER BY b, a",
    )
    keys = work.correlation
    order = np.argsort(keys, kind="stable")

    def find(correlation: Column) -> Column:
        if not len(keys):
            return np.full(len(correlation), -1, np.int64)
        at = np.minimum(np.searchsorted(keys[order], correlation), len(keys) - 1)
        good = (keys[order[at]] == correlation) & (work.process[order[at]] == rows["process"])
        return np.where(good, order[at], -1)

    return find(rows["a"]), find(rows["b"]), index.find(rows["process"], rows["b"])
