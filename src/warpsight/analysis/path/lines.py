"""The order of work on one stream: the predecessor of each piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.model.work import by_group, values_in

Column = npt.NDArray[Any]
#: Maximum overlap of consecutive work due to inaccurate times (ns).
CLOSE = 1_000
#: A time before all others.
NEVER = np.iinfo(np.int64).min // 4


def issued(queue: Column, when: Column, known: Column) -> Column:
    """When each piece of work was issued, in order of start: `when`, but without a known call no later than its successor.

    A stream keeps its order. Work that began before work of a known call was therefore launched before that call. For example,
    kernels already queued when a recording begins start long after the host has launched the recorded kernels behind them.
    """
    if known.all() or not known.any():
        return when
    out: Column = when.copy()
    order = by_group(queue, np.arange(len(queue)))[::-1]  # the last work of a queue first
    latest = np.where(known, when, np.iinfo(np.int64).max)[order]
    bounds = np.flatnonzero(np.r_[True, np.diff(queue[order]) != 0, True])
    for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        np.minimum.accumulate(latest[a:b], out=latest[a:b])
    lost = ~known[order]
    out[order[lost]] = np.minimum(when[order[lost]], latest[lost])
    return out


@dataclass
class Lines:
    """Device nodes in order of (queue, issue); those of queue `q` are ``order[bounds[q]:bounds[q + 1]]``.

    `issue` is the host time at which a node was issued: the start of its call, or the estimate of :func:`issued` if the call is
    not known. Nodes of one graph launch share it and are in order of their start.

    Attributes:
        order: Device nodes.
        issue: Moment of issue of each place, ns.
        ends: End of the node at each place, ns.
        latest: For each place in the order the place of the node that ended last up to there, in its queue.
    """

    order: Column
    issue: Column
    bounds: list[int]
    ends: Column
    latest: Column

    @classmethod
    def of(cls, queue: Column, issue: Column, end: Column, queues: int) -> Lines:
        """Line up nodes, which are sorted by start."""
        order = by_group(queue, issue)
        whole = len(order) > 0 and bool((order[1:] > order[:-1]).all())
        sorted_queue = queue if whole else queue[order]
        bounds = np.searchsorted(sorted_queue, np.arange(queues + 1, dtype=queue.dtype)).tolist()
        found = cls(
            order, issue if whole else issue[order], bounds, end if whole else end[order],
            np.zeros(len(order), order.dtype),
        )  # fmt: skip
        found.resolve()
        return found

    @property
    def queues(self) -> list[int]:
        """Queues with nodes."""
        return [q for q, (a, b) in enumerate(zip(self.bounds, self.bounds[1:], strict=False)) if b > a]

    def places(self, queue: int) -> tuple[int, int]:
        """First place of a queue and the one after its last."""
        return self.bounds[queue], self.bounds[queue + 1]

    def resolve(self) -> None:
        """Recompute the latest ends, because the ends of waits become known step by step."""
        for queue in self.queues:
            a, b = self.places(queue)
            places = np.arange(a, b, dtype=self.latest.dtype)
            ends = self.ends[a:b]
            if not bool((ends[1:] >= ends[:-1]).all()):
                places[ends < np.maximum.accumulate(ends)] = a
                np.maximum.accumulate(places, out=places)
            self.latest[a:b] = places

    def before(self, queue: int, time: Column) -> Column:
        """For each time, the node of a queue that ended last among those issued earlier; -1 if there is none."""
        if not 0 <= queue < len(self.bounds) - 1 or self.bounds[queue] == self.bounds[queue + 1]:
            return np.full(len(time), -1, np.int64)
        a, b = self.places(queue)
        at = a + np.searchsorted(self.issue[a:b], time, side="left") - 1
        return np.where(at >= a, self.order[self.latest[np.maximum(at, a)]], -1)

    def _begins_early(
        self, node: Column, former: Column, over: Column, start: Column, ended: Column
    ) -> Column:
        """Which nodes of one launch begin before what they wait for has ended, as programmatic launches do.

        They begin in the second half of one kernel, outlive it, and no other is running; `ended` have ended before they begin:

            [--- gemm ---]            [--- gemm ---]
                      [--- norm ---]  [--- norm ---]
               follows it              is beside it
        """
        long = self.ends[former] - start[self.order[former]]
        alone = ended >= node - 1
        found: Column = (2 * over < long) & (self.ends[node] > self.ends[former]) & alone
        return found

    def previous(self, start: Column, same_launch: Column | None, call: Column) -> tuple[Column, Column]:
        """For each node, the node of its queue that released it, and the nodes that overlap it.

        That is the node before it in the order that ended last; kernels that follow each other in a graph may seem to overlap a
        little, by less than half of the shorter one. If it had not ended when this node began (parallel nodes of one graph
        launch, programmatic launches, clocks that disagree), it is the one that ended last before this node began. If there is
        none, it is the preceding node, reported as an overlap. `call` is the call that launched each, -1 unknown.
        """
        before = np.empty(len(self.order), self.order.dtype)
        overlapping = []
        for queue in self.queues:
            a, b = self.places(queue)
            before[a] = -1
            before[a + 1 : b] = self.latest[a : b - 1]
            late = a + 1 + np.flatnonzero(self.ends[before[a + 1 : b]] > start[self.order[a + 1 : b]])
            former, node = before[late], self.order[late]
            over = self.ends[former] - start[node]
            shorter = np.minimum(self.ends[former] - start[self.order[former]], self.ends[late] - start[node])
            really = (over > CLOSE) | (2 * over > shorter)
            late, former, over = late[really], former[really], over[really]
            if not len(late):
                continue
            begins = start[self.order[late]]
            by_end = a + np.argsort(self.ends[a:b], kind="stable")
            at = np.searchsorted(self.ends[by_end], begins, side="right") - 1
            found = by_end[np.maximum(at, 0)]
            good = (at >= 0) & (found < late)
            # Side by side in one launch nothing held it back there: what released the launch did.
            together = None if same_launch is None else same_launch[self.order[late]]
            fallback = late - 1 if together is None else np.where(together, before[late], late - 1)
            early = self._begins_early(late, former, over, start, at + 1 + a)
            early &= (call[self.order[late]] == call[self.order[former]]) & (call[self.order[former]] >= 0)
            before[late] = np.where(early, former, np.where(good, found, fallback))
            overlapping.append(self.order[late[~good & ~early]])
        out = np.empty(len(self.order), self.order.dtype)
        found = self.order[np.maximum(before, 0)]
        found[before < 0] = -1
        out[self.order] = found
        return out, np.concatenate(overlapping) if overlapping else np.zeros(0, np.int64)


def settle(lines: Lines, end: Column, node: Column, queue: Column, when: Column, rounds: int = 64) -> Column:
    """Set the end time of stream waits, and return the work on the other stream that each waited for.

    A wait ends when everything before it on its own stream and the awaited work have ended; the latter may itself be a
    wait, so this is repeated until nothing changes. `node` are the waits' places among device nodes; `queue` and `when`
    give the awaited record's stream and time, `queue` -1 for a record that is not in the trace.
    """
    place = np.empty(len(end), lines.order.dtype)
    place[lines.order] = np.arange(len(lines.order), dtype=place.dtype)
    source = np.full(len(node), -1, np.int64)
    for _ in range(rounds):
        lines.resolve()
        for one in values_in(queue[queue >= 0]).tolist():
            mine = queue == one
            source[mine] = lines.before(one, when[mine])
        own = lines.latest[place[node]]
        now = np.maximum(lines.ends[own], np.where(source >= 0, end[np.maximum(source, 0)], NEVER))
        if (now == end[node]).all():
            break
        end[node] = now
        lines.ends[place[node]] = now
    return source
