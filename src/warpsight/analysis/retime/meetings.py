"""Collectives: kernels of several ranks or devices that end together once the last one has begun."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.retime.program import Meetings, Program
from warpsight.model.work import COMMUNICATION, numbered, values_in

Column = npt.NDArray[Any]
#: Kernels of one collective end this close together (ns), or within this share of the shortest of them.
_CLOSE, _SHARE = 20_000, 0.05


def with_meetings(program: Program) -> Program:
    """The program in which a collective's kernels end a recorded time after the last of them began."""
    graph = program.graph
    found = find(program)
    if not len(found):
        return program
    last = np.full(int(found.group.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, found.group, graph.start[found.node])
    duration = program.duration.copy()
    duration[found.node] = graph.end[found.node] - last[found.group]
    return program.but(duration=duration, meetings=found)


def find(program: Program) -> Meetings:
    """Kernels with one name on several devices or ranks that overlap and end at the same time.

    The kernels of the member that has the fewest are compared with the nearest end of every other member.
    """
    graph = program.graph
    node = np.flatnonzero(graph.kind == COMMUNICATION)
    queues = graph.queues
    places = np.array([-1 if q.device is None else q.device for q in queues] or [0])
    processes = np.array([q.process for q in queues] or [0])
    member, _ = numbered([processes[graph.queue[node]], places[graph.queue[node]]])
    name = graph.work.name_id[node]
    out_node, out_group, groups = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for one in values_in(name).tolist():
        mine = np.flatnonzero(name == one)
        members = values_in(member[mine])
        if len(members) < 2:
            continue
        rows = [node[mine[member[mine] == who]] for who in members.tolist()]
        rows = [row[np.argsort(graph.end[row], kind="stable")] for row in rows]
        rows.sort(key=len)
        nearest = [_nearest(graph.end[rows[0]], graph.end[row]) for row in rows[1:]]
        together = np.stack([rows[0], *(row[at] for row, at in zip(rows[1:], nearest, strict=True))])
        good = _ends_together(graph.start, graph.end, together)
        chosen = together[:, good]
        out_node.append(chosen.reshape(-1))
        out_group.append(np.tile(groups + np.arange(chosen.shape[1]), len(rows)))
        groups += chosen.shape[1]
    return Meetings(np.concatenate(out_node), np.concatenate(out_group))


def _nearest(time: Column, others: Column) -> Column:
    """For each time, the index of the nearest of the others, which ascend."""
    at = np.clip(np.searchsorted(others, time), 1, max(len(others) - 1, 1))
    before = np.minimum(at - 1, len(others) - 1)
    after = np.minimum(at, len(others) - 1)
    out: Column = np.where(np.abs(others[before] - time) <= np.abs(others[after] - time), before, after)
    return out


def _ends_together(start: Column, end: Column, together: Column) -> Column:
    """Which columns of nodes (a row per member) form one collective, each node in at most one column."""
    ends = end[together]
    shortest = (ends - start[together]).min(0)
    close = ends.max(0) - ends.min(0) <= np.maximum(_CLOSE, shortest * _SHARE)
    close &= start[together].max(0) < ends.min(0)
    for row in together:
        _, first, count = np.unique(row, return_index=True, return_counts=True)
        alone = np.zeros(len(row), bool)
        alone[first[count == 1]] = True
        close &= alone
    out: Column = close
    return out
