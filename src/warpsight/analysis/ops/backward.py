"""Backward joined to its forward: which forward operator each operator of an autograd thread belongs to.

torch gives every forward operator the number that its thread's next autograd node will have, so among the operators with one
number, the one that began last made the node (torch/csrc/profiler/collection.cpp links them the same way). A backward operator
has the number of its node, and torch's number of the thread that made it. Numbers count per thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.ops.rows import Operators
from warpsight.model import calls
from warpsight.model.work import values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: What the engine names the evaluation of a node, and the nodes that add gradients up, which have no number.
_EVALUATION = "autograd::engine::evaluate_function: "
_ACCUMULATION = re.compile(r"(^|[\s:])AccumulateGrad$")


@dataclass(frozen=True)
class Backward:
    """Columns with a value per operator.

    Attributes:
        forward: The forward operator that a backward node belongs to, -1: none, or not a node.
        origin: The forward operator of the innermost node that holds each operator, -1: none; operators that a node calls have
            one too.
        node: That node.
    """

    forward: Column
    origin: Column
    node: Column


def of_operators(trace: StoredTrace, ops: Operators) -> Backward:
    """The forward operator of each backward operator, cached while the trace is open."""
    return trace.kept.get("backward", lambda: _joined(trace, ops))


def _joined(trace: StoredTrace, ops: Operators) -> Backward:
    names = [call.name for call in ops.calls]
    evaluation = _flags(ops, [name.startswith(_EVALUATION) for name in names])
    accumulation = _flags(ops, [_ACCUMULATION.search(name) is not None for name in names])
    is_node = (ops.forward_thread > 0) | evaluation
    forward = np.full(len(ops), -1, np.int64)
    nodes = np.flatnonzero(is_node & (ops.sequence >= 0))
    made = np.flatnonzero(~is_node & ~accumulation & (ops.sequence >= 0))
    if len(nodes) and len(made):
        forward[nodes] = _of_nodes(trace, ops, nodes, made)
    _accumulations(ops, forward, accumulation)
    node = ops.nearest(forward >= 0)
    origin = np.where(node >= 0, forward[np.maximum(node, 0)], -1)
    return Backward(forward, origin, node)


def _flags(ops: Operators, of_call: list[bool]) -> Column:
    return np.array([*of_call, False], bool)[ops.call] if len(ops) else np.zeros(0, bool)


def _of_nodes(trace: StoredTrace, ops: Operators, nodes: Column, made: Column) -> Column:
    """The forward operator of each node, by the thread that created it and its number there."""
    ranges = ops.ranges
    threads = ranges.group
    number = ops.forward_thread[nodes]
    found = np.full(len(nodes), -1, np.int64)
    arrows = _arrows(trace, ops)
    for process in values_in(ranges.process[nodes]).tolist():
        of_process = ranges.process[nodes] == process
        candidates = values_in(threads[made[ranges.process[made] == process]]).tolist()
        for one in values_in(number[of_process]).tolist():
            rows = np.flatnonzero(of_process & (number == one))
            tried = {t: _by_number(ops, nodes[rows], made[threads[made] == t]) for t in candidates}
            thread = _thread(ops, nodes[rows], tried, arrows)
            if thread is not None:
                found[rows] = tried[thread]
    return found


def _by_number(ops: Operators, nodes: Column, made: Column) -> Column:
    """For each node, the last operator of one thread with the node's number that began before it; -1 if none."""
    start, sequence = ops.ranges.start, ops.sequence
    order = made[np.lexsort((start[made], sequence[made]))]
    # Numbers in the upper, order of begin in the lower part of one key.
    rank = np.argsort(np.argsort(np.concatenate([start[order], start[nodes]]), kind="stable"), kind="stable")
    width = len(rank)
    keys = sequence[order] * width + rank[: len(order)]
    place = np.searchsorted(keys, sequence[nodes] * width + rank[len(order) :]) - 1
    at = order[np.maximum(place, 0)]
    found: Column = np.where((place >= 0) & (sequence[at] == sequence[nodes]), at, -1)
    return found


def _thread(
    ops: Operators, nodes: Column, tried: dict[int, Column], arrows: tuple[Column, Column]
) -> int | None:
    """The thread that made some nodes: where arrows come from, else where most of the numbers are; None when two fit equally."""
    begins, ends = arrows
    linked = ops.ranges.group[begins[np.isin(ends, nodes)]]
    votes = {thread: int((linked == thread).sum()) for thread in tried}
    if not any(votes.values()):
        votes = {thread: int((found >= 0).sum()) for thread, found in tried.items()}
    best = max(votes.values(), default=0)
    first = [thread for thread, count in votes.items() if count == best]
    return first[0] if best and len(first) == 1 else None


def _arrows(trace: StoredTrace, ops: Operators) -> tuple[Column, Column]:
    """The operators at the ends of Kineto's arrows; a few are enough to tell threads apart."""
    if not trace.count("flow"):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    sql = "SELECT process, from_correlation, to_correlation FROM flow WHERE kind = 'forward-backward' LIMIT 100000"
    rows = trace.sql(sql).fetchnumpy()
    process, first, second = (
        np.ma.getdata(rows[name]) for name in ("process", "from_correlation", "to_correlation")
    )
    own = ops.ranges.process, ops.correlation
    begins, ends = (calls.joined(process, ids, *own) for ids in (first, second))
    both = (begins >= 0) & (ends >= 0)
    return begins[both], ends[both]


def _accumulations(ops: Operators, forward: Column, accumulation: Column) -> None:
    """AccumulateGrad runs right after the node that computed the gradient: assign it to the node before it on its thread."""
    wanted = np.flatnonzero(accumulation & (forward < 0))
    if not len(wanted):
        return
    rows = np.arange(len(ops))
    last = np.maximum.accumulate(np.where(forward >= 0, rows, -1))[wanted]
    good = (last >= 0) & (ops.ranges.group[np.maximum(last, 0)] == ops.ranges.group[wanted])
    forward[wanted[good]] = forward[last[good]]
