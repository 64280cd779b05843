"""Threads that poll an event: the loop ends when the event occurs, not after a fixed number of queries."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path.dependencies import WAIT
from warpsight.analysis.retime.program import POLL, Program

Column = npt.NDArray[Any]
_QUERY = re.compile(r"(Event|Stream)Query$")


def with_polls(program: Program) -> Program:
    """The program in which runs of queries on a thread end when the awaited work has ended.

    That work is what ended last between the last two queries of a run:

        thread    query ─── query ─── query ─── query ── goes on
        stream    ─────── kernel ──────────── |                      each query but the first: so long before or after its end
    """
    graph = program.graph
    queries = np.array([_QUERY.search(name) is not None for name in graph.calls.functions] + [False], bool)
    function = graph.calls.function[graph.by_thread.call].astype(np.int64)
    asks = queries[function] if len(function) else np.zeros(0, bool)
    if not asks.any() or not len(program):
        return program
    thread = graph.by_thread.thread
    first = asks & np.r_[True, ~asks[:-1] | (thread[1:] != thread[:-1]) | (function[1:] != function[:-1])]
    at = np.flatnonzero(asks)
    run = np.cumsum(first[at]) - 1
    begins = at[np.flatnonzero(first[at])]
    lasts = at[np.r_[run[1:] != run[:-1], True]]
    node = _ended_between(program, lasts)
    known = (node >= 0) & (lasts > begins)
    later = at[(at > begins[run]) & known[run]]
    which = run[(at > begins[run]) & known[run]]
    # Begins of all queries but the first, and ends of those but the last.
    inner = later < lasts[which]
    points = np.concatenate([2 * later, 2 * later[inner] + 1]).astype(np.int64)
    source = np.concatenate([node[which], node[which[inner]]])
    if not len(points):
        return program
    lag = program.lag.copy()
    lag[points] = 0
    links = program.links.joined(program.base + source, points, graph.time[points] - graph.end[source], POLL)
    return program.but(lag=lag, links=links)


def _ended_between(program: Program, last: Column) -> Column:
    """The work that ended last between the start of the previous query and the start of each query; -1 if none."""
    graph = program.graph
    begun = graph.time[2 * last]
    before = graph.time[2 * np.maximum(last - 1, 0)]
    work = np.flatnonzero(graph.kind != WAIT)
    if not len(work):
        return np.full(len(last), -1, np.int64)
    order = work[np.argsort(graph.end[work], kind="stable")]
    at = np.searchsorted(graph.end[order], begun, "right") - 1
    node = order[np.maximum(at, 0)]
    process = np.array([queue.process for queue in graph.queues] or [0])
    owner = graph.calls.process[graph.by_thread.call[last]]
    good = (at >= 0) & (graph.end[node] > before) & (process[graph.queue[node]] == owner)
    called = program.place[node]
    good &= (called < 0) | (graph.time[2 * np.maximum(called, 0)] < begun)
    out: Column = np.where(good, node, -1)
    return out
