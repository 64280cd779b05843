"""Functions over time from stacks: the host's own code, where the trace has samples or launch stacks.

The time of a piece is shared equally by the samples of its thread that fall into it. A piece without samples is between two
calls; functions on the stacks of both calls were running all that time. Deeper ones are known from samples in other pieces
between calls with the same two stacks, as in a loop whose turns are shorter than the time between two samples. Where the calls
have no stack, samples in any other pieces are used instead, but only in pieces shorter than the time between two samples: a long
piece always has some, and would count for too much.

    calls of a loop     copy ──▶ launch        copy ──▶ launch        copy ──▶ launch
    between them             load                   load                   load
    samples                   x                                             x
    known                main, step, load       main, step; load by      main, step, load
                                                the samples beside it
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account import calls_held
from warpsight.analysis.account.calls_held import Axis
from warpsight.model import calls as host_calls
from warpsight.model import stacks as model_stacks
from warpsight.model.calls import Calls
from warpsight.model.work import distinct, numbered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warpsight.analysis.account.gaps import Gaps
    from warpsight.analysis.account.pieces import Pieces
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Prior weight, in samples, of what is known about a piece without any sample.
_UNTAKEN = 2
#: Function name for frames missing from table frame.
NO_FRAME = "?"


@dataclass(frozen=True)
class FunctionTree:
    """The stack tree by functions instead of lines: `node` of each stack id, `parent`, `depth` and `function` of each node.

    Node 0 is the root. `names` has the text of each function, `files` the file it is in.
    """

    node: Column
    parent: Column
    depth: Column
    function: Column
    names: list[str]
    files: list[str]

    def nodes(self, stack: Column) -> Column:
        """The node of each stack id; the root for ids missing from table stack."""
        known = (stack >= 0) & (stack < len(self.node))
        return np.where(known, self.node[np.where(known, stack, 0)], 0)


def functions(trace: StoredTrace) -> FunctionTree:
    """The functions of all stacks, cached while the trace is open."""
    return trace.kept.get("stack functions", lambda: _functions(trace))


def _functions(trace: StoredTrace) -> FunctionTree:
    stacks = model_stacks.load(trace)
    ids = np.flatnonzero(stacks.depth | stacks.frame)
    ids = ids[np.argsort(stacks.depth[ids], kind="stable")]
    parents, frame, depths = (c[ids].astype(np.int64) for c in (stacks.parent, stacks.frame, stacks.depth))
    known: dict[tuple[str, str], int] = {(NO_FRAME, ""): 0}
    of_frame = np.zeros(max(stacks.frames, default=0) + 1, np.int64)
    for number, (name, file, _) in stacks.frames.items():
        of_frame[number] = known.setdefault((name, file or ""), len(known))
    frame = np.where(frame < len(of_frame), frame, 0)
    parents = np.where((parents > 0) & (parents < len(stacks.frame)), parents, 0)
    node = np.zeros(len(stacks.frame), np.int64)
    parent, depth, function = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], [np.full(1, -1)]
    count = 1
    for level in distinct(depths)[
        0
    ].tolist():  # a stack's parent is one level further out, so its node is known
        here = np.flatnonzero(depths == level)
        up, own = node[parents[here]], of_frame[frame[here]]
        code, (ups, owns) = numbered([up, own])
        node[ids[here]] = count + code
        parent.append(ups)
        function.append(owns)
        depth.append(np.full(len(ups), level))
        count += len(ups)
    listed = list(known)
    return FunctionTree(node, np.concatenate(parent), np.concatenate(depth), np.concatenate(function),
                     [name for name, _ in listed], [file for _, file in listed])  # fmt: skip


@dataclass(frozen=True)
class StackedTime:
    """Host time by stack node: `time` of each entry (ns) spent at `node` or deeper, in one of the pieces asked for.

    `stack` is what it was read from, `sampled` whether a sample shows it.
    """

    node: Column
    time: Column
    stack: Column
    sampled: Column
    piece: Column


def over(
    trace: StoredTrace,
    on: Axis,
    calls: Calls,
    number: Column,
    begin: Column,
    end: Column,
    call: Column,
    masters: Mapping[int, tuple[int, int]] | None = None,
) -> StackedTime:
    """The stacks in pieces of host time: thread number, start and end on the trace's clock (ns), the call that ends each.

    With `masters`, a thread that launches for another thread takes that thread's samples.
    """
    tree = functions(trace)
    begins, ends = on.at(number, begin), on.at(number, end)
    at, stack = _samples(trace, on, masters or {})
    first, last = np.searchsorted(at, begins, "left"), np.searchsorted(at, ends, "left")
    count = np.maximum(last - first, 0)
    which = np.repeat(np.arange(len(begin)), count)
    sample = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + first[which]
    weight = (ends - begins)[which] / np.maximum(count[which], 1)
    seen = stack[sample] if len(stack) else np.zeros(0, np.int64)
    before, after = np.zeros(len(begin), np.int64), np.zeros(len(begin), np.int64)
    called = np.flatnonzero(call >= 0) if len(calls) else np.zeros(0, np.int64)
    before[called] = _call_before(trace, on, calls, begins[called])
    after[called] = calls.stack[call[called]]
    between = (before > 0) & (after > 0)
    left = np.flatnonzero((count == 0) & between)
    time = (ends - begins).astype(float)
    unseen = float(time[(count == 0) & ~between].sum())
    lacking = _lacking(at, weight)
    weight = weight + unseen * lacking / max(float(lacking.sum()), 1e-9)
    alike, _ = numbered([before, after])
    more, part = _from_alike(alike, which[between[which]], lacking[between[which]], left, time[left])
    weight[between[which]] += more
    after = after[left]
    shared = _common(tree, tree.nodes(before[left]), tree.nodes(after))
    return StackedTime(
        np.concatenate([tree.nodes(seen), shared]),
        np.concatenate([weight, time[left] * (1 - part)]),
        np.concatenate([seen, after]),
        np.concatenate([np.ones(len(seen), bool), np.zeros(len(left), bool)]),
        np.concatenate([which, left]),
    )


def of_pieces(trace: StoredTrace, calls: Calls, gaps: Gaps, pieces: Pieces, rows: Column) -> StackedTime:
    """The stacks in some pieces of host time, given by their places; `piece` of the answer is one of these."""
    call = gaps.call[pieces.gap[rows]]
    process, thread = calls.process[call], calls.thread[call]
    on = calls_held.axis(process, thread, int(pieces.begin[rows].min()), int(pieces.end[rows].max()))
    found = over(trace, on, calls, on.number(process, thread), pieces.begin[rows], pieces.end[rows], call)
    return replace(found, piece=rows[found.piece])


def _lacking(at: Column, weight: Column) -> Column:
    """How much less than the time between two samples each one stands for: more where more pieces like its own have none."""
    between = float(np.median(np.diff(at))) if len(at) > 1 else 0.0
    return np.maximum(between - weight, 0.0)


def _from_alike(
    alike: Column, piece: Column, lacking: Column, left: Column, time: Column
) -> tuple[Column, Column]:
    """Give the time of pieces without samples to the samples of pieces like them.

    Args:
        alike: A number per piece, equal for pieces between calls with the same stacks.
        piece: The piece of each sample.
        lacking: How much less than the sampling interval each sample stands for.
        left: The pieces without a sample.
        time: The time of each of these.

    Returns:
        The time to add to each sample, and the part of each piece's time that was given away. Few samples count for little: two
        imaginary ones stand for what is known without any.
    """
    count = int(alike.max(initial=-1)) + 1
    number = np.bincount(alike[piece], weights=lacking > 0, minlength=count)
    lacks = np.bincount(alike[piece], weights=lacking, minlength=count)
    told = number / (number + _UNTAKEN)
    whole = np.bincount(alike[left], weights=time, minlength=count) * told
    more: Column = (whole / np.maximum(lacks, 1e-9))[alike[piece]] * lacking
    part: Column = told[alike[left]]
    return more, part


def _samples(trace: StoredTrace, on: Axis, masters: Mapping[int, tuple[int, int]]) -> tuple[Column, Column]:
    """Positions on the axis and stacks of the samples of its threads, ascending."""
    if not trace.count("sample"):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    columns, _ = trace.columns("sample", {"time": 0, "thread": 0, "process": 0, "stack": 0})
    number = on.number(columns["process"], columns["thread"])
    instead = np.isin(number, list(masters))
    good = np.flatnonzero((number >= 0) & ~instead & (columns["stack"] > 0))
    number = number[good]
    for helper, (process, thread) in masters.items():
        of_master = (columns["process"] == process) & (columns["thread"] == thread)
        more = np.flatnonzero(of_master & (columns["stack"] > 0))
        good, number = np.append(good, more), np.append(number, np.full(len(more), helper))
    at = on.at(number, columns["time"][good])
    order = np.argsort(at, kind="stable")
    return at[order], columns["stack"][good][order].astype(np.int64)


def _call_before(trace: StoredTrace, on: Axis, calls: Calls, at: Column) -> Column:
    """For each moment, the stack of the last earlier call on its thread that has one, 0 if none."""
    out = np.zeros(len(at), np.int64)
    order = host_calls.by_thread(trace)
    edges = order.edges
    for number, thread in enumerate(order.threads):
        place = on.keys.get(thread, -1)
        mine = np.flatnonzero(at // on.width == place)
        if not len(mine):
            continue
        rows = order.call[edges[number] : edges[number + 1]]
        known = calls.stack[rows] > 0
        rows = rows if known.all() else rows[known]
        mine = mine[np.argsort(at[mine], kind="stable")]  # neighbors are found next to each other
        moment = at[mine] % on.width
        last = np.searchsorted(calls.start[rows], moment + on.origin, "left") - 1
        found = (last >= 0) & (moment > 0)  # at the start of the axis nothing has begun
        out[mine[found]] = calls.stack[rows[last[found]]]
    return out


def _common(tree: FunctionTree, one: Column, other: Column) -> Column:
    """The innermost function node that two nodes share."""
    one, other = one.copy(), other.copy()
    while True:
        apart = one != other
        if not apart.any():
            return one
        deeper = apart & (tree.depth[one] >= tree.depth[other])
        shallow = apart & (tree.depth[other] >= tree.depth[one])
        one[deeper] = tree.parent[one[deeper]]
        other[shallow] = tree.parent[other[shallow]]


def by_function(tree: FunctionTree, found: StackedTime) -> tuple[Column, Column]:
    """Time at or below each function (ns), counting recursion once, and its mean depth; by index of `tree.names`."""
    nodes, place = distinct(found.node)
    time = np.bincount(place, weights=found.time, minlength=len(nodes))
    leaf, at = np.arange(len(nodes)), nodes.astype(np.int64)
    pairs = [np.zeros(0, np.int64)]
    depths = [np.zeros(0, np.int64)]
    count = len(tree.names)
    while True:
        inner = at > 0
        leaf, at = leaf[inner], at[inner]
        if not len(leaf):
            break
        pairs.append(leaf * count + tree.function[at])
        depths.append(tree.depth[at])
        at = tree.parent[at]
    pair, first = np.unique(np.concatenate(pairs), return_index=True)
    function, weight = pair % max(count, 1), time[pair // max(count, 1)]
    total = np.bincount(function, weights=weight, minlength=count)
    depth = np.bincount(function, weights=weight * np.concatenate(depths)[first], minlength=count)
    return total, depth / np.maximum(total, 1e-9)
