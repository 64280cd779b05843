"""Stacks of backward work: those of its forward operators.

torch runs backward on threads of its own, without Python functions. A backward operator has the number of its autograd node and
which thread made the node (`Sequence number`, `Fwd thread id`). Among that thread's operators with that number, the one that
began last made the node; its stack, with a frame `backward` below, becomes that of everything the node does.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.formats.kineto.ordered import Ordered
from warpsight.model import arrow
from warpsight.model.definitions import Definitions, Frame
from warpsight.model.intervals import containing

Int64 = NDArray[np.int64]
METHOD = "forward"
_FRAME: Frame = ("backward", None, None, None, "marker", None)
#: Nodes that accumulate gradients: they have no number, and run right after the node that computed the gradient.
_ACCUMULATION = re.compile(r"(^|[\s:])AccumulateGrad$")


class BackwardStacks:
    """First takes all operators with their stacks, then looks up moments on threads; :meth:`close` removes its file."""

    def __init__(self, definitions: Definitions) -> None:
        """Stacks are interned in `definitions`."""
        self._definitions = definitions
        #: By thread and number: the stack of the last operator.
        self._forward = Ordered()
        self._threads: set[int] = set()
        #: Backward nodes, piece by piece: thread, begin, duration, number, number of the forward's thread, accumulates.
        self._nodes: list[Int64] = []
        self._changes = Ordered()

    def add(self, rows: pa.Table, stacks: Int64, accumulates: frozenset[int]) -> None:
        """Add operators and their stacks (0 none); `accumulates` are the ids of names for which :func:`accumulates` holds."""
        thread, start, duration, sequence, forward = (
            _ints(rows[name]) for name in ("_thread", "start", "duration", "sequence", "_forward_thread")
        )
        adds = np.isin(_ints(rows["name_id"]), list(accumulates))
        node = (forward > 0) & (sequence >= 0)
        made = ~node & ~adds & (forward <= 0) & (sequence >= 0) & (stacks != 0)
        self._threads |= set(np.unique(thread[made]).tolist())
        self._forward.add(thread[made], sequence[made], stacks[made], start[made])
        taken = node | adds
        if taken.any():
            columns = (thread, start, duration, sequence, forward, adds.astype(np.int64))
            self._nodes.append(np.stack([column[taken] for column in columns]))

    def finish(self) -> None:
        """Join nodes with forward operators."""
        if not self._nodes or not self._threads:
            return
        nodes = np.concatenate(self._nodes, axis=1)
        self._nodes = []
        order = np.lexsort((-nodes[2], nodes[1], nodes[0]))
        thread, start, duration, sequence, forward, adds = nodes[:, order]
        stacks = self._of_nodes(sequence, forward)
        self._accumulations(thread, stacks, adds.astype(bool))
        above = self._inherited(thread, start + duration, stacks)
        known = np.flatnonzero((stacks != 0) & (duration > 0))
        thread, start, duration = thread[known], start[known], duration[known]
        self._changes.add(thread, start, stacks[known], -duration)
        self._changes.add(thread, start + duration, above[known], duration)

    def _of_nodes(self, sequence: Int64, forward: Int64) -> Int64:
        """Stacks of nodes, 0 if the forward operator is unknown."""
        found = np.zeros(len(sequence), np.int64)
        for number in np.unique(forward[forward > 0]).tolist():
            rows = np.flatnonzero(forward == number)
            tried = [
                self._forward.find(np.full(len(rows), thread), sequence[rows]) for thread in self._threads
            ]
            # The forward's thread is the one on which most numbers are; torch's number of it has no other meaning.
            fits = [int((one != 0).sum()) for one in tried]
            best = max(fits)
            if best and fits.count(best) == 1:
                found[rows] = tried[fits.index(best)]
        distinct, which = np.unique(found, return_inverse=True)
        frame = self._definitions.frame(_FRAME) if distinct.any() else 0
        made = [self._definitions.stack(stack, frame, METHOD) if stack else 0 for stack in distinct.tolist()]
        return np.array(made, np.int64)[which]

    @staticmethod
    def _accumulations(thread: Int64, stacks: Int64, adds: NDArray[np.bool_]) -> None:
        """Give nodes without a number the stack of the last node before them on their thread."""
        rows = np.arange(len(stacks))
        last = np.maximum.accumulate(np.where((stacks != 0) & ~adds, rows, -1))
        good = adds & (last >= 0)
        good[good] = thread[last[good]] == thread[good]
        stacks[good] = stacks[last[good]]

    @staticmethod
    def _inherited(thread: Int64, end: Int64, stacks: Int64) -> Int64:
        """For each node, the stack of the enclosing one, 0 without; also used for a node without a stack of its own."""
        above = np.zeros(len(end), np.int64)
        edges = [*np.flatnonzero(np.append(True, thread[1:] != thread[:-1])).tolist(), len(end)]
        for first, last in pairwise(edges):
            place = containing(end[first:last])
            inside = np.flatnonzero(place >= 0)
            around = place[inside]
            while True:  # outwards to one that has a stack
                without = np.flatnonzero((stacks[first + around] == 0) & (place[around] >= 0))
                if not len(without):
                    break
                around[without] = place[around[without]]
            above[first + inside] = stacks[first + around]
        return above

    def at(self, threads: Int64, moments: Int64) -> Int64:
        """Stacks of the forward operators of backward work on threads at moments, or 0."""
        return self._changes.before(threads, moments) if self._changes else np.zeros(len(threads), np.int64)

    def close(self) -> None:
        """Drop everything."""
        self._forward.close()
        self._changes.close()


def accumulates(name: str) -> bool:
    """Whether an operator with this name is a node that accumulates gradients."""
    return _ACCUMULATION.search(name) is not None


def _ints(column: pa.ChunkedArray) -> Int64:
    """A column as numbers; null is -1."""
    filled: Int64 = (
        arrow.fill_null(column, -1).to_numpy(zero_copy_only=False) if hasattr(column, "to_numpy") else column
    )
    return filled.astype(np.int64, copy=False)
