"""The ranges and operators open on a host thread when it requested device work or was sampled.

Ranges of a thread nest, so those open at a moment are a chain. Between two edges (a start or an end) the chain does not change.
So each thread gets a step function from time to chain, built with one binary search per nesting depth, and each call is one
binary search in it. Nothing loops over ranges or calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model.calls import joined, of_work
from warpsight.model.calls import load as load_calls
from warpsight.model.naming import texts as names_of
from warpsight.model.work import distinct, numbered, values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace
    from warpsight.model.work import Work

Column = NDArray[Any]
#: Source of a range → SQL for (start, end, name, process, thread, whether it holds for the whole process) of its rows.
_SOURCES = {
    "range": "SELECT start, start + duration AS stop, name_id, process, thread, kind = 'start/end' AS shared FROM marker_ids "
    "WHERE duration >= 0 AND kind <> 'instant'",
    "op": "SELECT start, start + duration AS stop, name_id, process, thread, false AS shared FROM op_ids WHERE duration >= 0",
}
#: Ranges of functions that have stacks of their own (torch.profiler's Python functions): stack frames already show them.
_IN_STACKS = " AND NOT (category IS NOT DISTINCT FROM 'python_function' AND stack IS NOT NULL)"
#: Iterations of a loop share a frame: `step 17` and `ProfilerStep#18` become `step *` and `ProfilerStep#*`; `layer 3` stays.
_TURN = re.compile(r"^(.*?(?:step|iter|iteration|epoch|batch|token|request)[\s#:_=-]*)\d+$", re.IGNORECASE)
#: Deeper nests are cut: no hand-written code nests like that.
_DEEPEST = 256
#: Nearly sorted moments, with at most this many breaks, are processed run by run.
_FEW_RUNS = 16


@dataclass(frozen=True)
class Chains:
    """Chains of labels, and the calls' places in them.

    Attributes:
        of: Chain of each row that was asked about; 0 is the empty chain.
        labels: One row per chain, outermost first: an index into `texts`, -1 behind the last.
        texts: Kind and text of the labels.
    """

    of: Column
    labels: Column
    texts: list[tuple[str, str]]


@dataclass(frozen=True)
class Issued:
    """Calls as columns, and the call of each row of something, -1 if none."""

    start: Column
    thread: Column
    process: Column
    call: Column

    def begun(self) -> tuple[Column, Column]:
        """Begin and thread of each row's call; -1 and 0 for rows without a call."""
        if not len(self.start):
            return np.full(len(self.call), -1, np.int64), np.zeros(len(self.call), np.int32)
        begin, on = self.start[self.call], self.thread[self.call]
        lost = np.flatnonzero(self.call < 0)
        begin[lost], on[lost] = -1, 0
        return begin, on


def chains(
    trace: StoredTrace,
    sources: tuple[str, ...],
    process: Column,
    moments: Callable[[], tuple[Column, Column]],
    issued: Callable[[], Issued] | None = None,
    beside_stacks: bool = False,
) -> Chains | None:
    """The chain at each row's moment (time, thread), such as its :func:`calls`; None when the trace has no ranges.

    With `issued`, calls (which are in time order) are looked up first, then each row's call. With `beside_stacks`, ranges that
    are frames of stacks too are left out.
    """
    ranges = _Ranges.load(trace, sources, beside_stacks)
    if ranges is None:
        return None
    if issued is None:
        return _chains(ranges, process, *moments())
    one = issued()
    asked = np.zeros(len(one.start) + 1, bool)  # the last is that of -1
    asked[one.call] = True
    some = np.flatnonzero(asked[:-1])
    found = _chains(ranges, one.process[some], one.start[some], one.thread[some])
    of_call = np.zeros(len(asked), np.int32)
    of_call[some] = found.of
    return replace(found, of=of_call[one.call])


def _chains(ranges: _Ranges, process: Column, time: Column, thread: Column) -> Chains:
    found = np.zeros(len(process), np.int32)
    table: dict[tuple[int, ...], int] = {(): 0}
    owner = ranges.thread >> 32
    for code in values_in(ranges.thread).tolist():
        number, own = code >> 32, np.int64(code & 0xFFFFFFFF).astype(np.int32)
        mine = np.flatnonzero((thread == own) & (process == number) & (time >= 0))
        if len(mine):
            found[mine] = _placed(ranges, np.flatnonzero(ranges.thread == code), time[mine], table)
    # If the thread has no range of its own, start/end ranges begun by other threads of the process count.
    for number in values_in(owner[ranges.shared]).tolist():
        mine = np.flatnonzero((found == 0) & (process == number) & (time >= 0))
        found[mine] = _placed(ranges, np.flatnonzero(ranges.shared & (owner == number)), time[mine], table)
    depth = max(map(len, table), default=0)
    labels = np.full((len(table), depth), -1, np.int64)
    for row, path in enumerate(table):
        labels[row, : len(path)] = path
    return Chains(found, labels, ranges.texts)


def _placed(ranges: _Ranges, rows: Column, time: Column, table: dict[tuple[int, ...], int]) -> Column:
    """The number in `table` of the chain of some ranges at each time."""
    edges, paths = _steps(ranges, rows)
    step = _step_at(edges, time)
    used, back = distinct(step)  # most steps see no call
    found = np.where(used[:, None] >= 0, paths[used], -1)
    code, _ = numbered([np.zeros(len(used), np.int8), *found.T])
    first = np.full(int(code.max(initial=-1)) + 1, len(code))
    np.minimum.at(first, code, np.arange(len(code)))
    number = np.zeros(len(first), np.int32)
    for one in np.argsort(first).tolist():  # a chain comes again and again
        chain = tuple(p for p in found[first[one]].tolist() if p >= 0)
        number[one] = table.setdefault(chain, len(table))
    out: Column = number[code[back]]
    return out


def _step_at(edges: Column, time: Column) -> Column:
    """The last edge at or before each moment, -1 before the first.

    Moments are many, and mostly in order: edges are looked up among them as far as they are.
    """
    turns = np.flatnonzero(time[1:] < time[:-1]) + 1
    if len(turns) > _FEW_RUNS:
        return np.searchsorted(edges, time, side="right") - 1
    bounds = [0, *turns.tolist(), len(time)]
    parts = []
    for begin, end in pairwise(bounds):
        places = np.searchsorted(time[begin:end], edges, side="left")
        counts = np.diff(places, prepend=0, append=end - begin)
        parts.append(np.repeat(np.arange(-1, len(edges), dtype=np.int32), counts))
    return np.concatenate(parts)


@dataclass(frozen=True)
class _Ranges:
    start: Column
    stop: Column
    label: Column
    thread: Column
    shared: Column
    texts: list[tuple[str, str]]

    @classmethod
    def load(cls, trace: StoredTrace, sources: tuple[str, ...], beside_stacks: bool) -> _Ranges | None:
        asked = [(s, _SOURCES[s] + (_IN_STACKS if s == "range" and beside_stacks else "")) for s in sources]
        tables = [(s, trace.sql(sql).to_arrow_table()) for s, sql in asked]
        tables = [(s, t) for s, t in tables if len(t)]
        if not tables:
            return None
        names = names_of.texts(trace)
        texts: dict[tuple[str, str], int] = {}
        columns: list[list[Column]] = [[], [], [], [], []]
        for source, table in tables:
            ids, back = np.unique(table.column("name_id").fill_null(0).to_numpy(), return_inverse=True)
            codes = [
                texts.setdefault((source, _TURN.sub(r"\1*", names.get(i) or "?")), len(texts))
                for i in ids.tolist()
            ]
            thread = _thread_codes(table.column("process").to_numpy(), table.column("thread").to_numpy())
            for column, values in zip(
                columns,
                (
                    table.column("start").to_numpy(),
                    table.column("stop").to_numpy(),
                    np.array(codes)[back],
                    thread,
                    table.column("shared").to_numpy(zero_copy_only=False),
                ),
                strict=True,
            ):
                column.append(values)
        start, stop, label, thread, shared = (np.concatenate(c) for c in columns)
        return cls(start, stop, label, thread, shared, list(texts))


def _thread_codes(process: Column, thread: Column) -> Column:
    return (process.astype(np.int64) << 32) | (thread.astype(np.int64) & 0xFFFFFFFF)


def calls(trace: StoredTrace, process: Column, correlation: Column) -> tuple[Column, Column]:
    """Start and thread of the call with each (process, correlation); time -1 and thread 0 if none was recorded.

    A correlation that two rows share (runtime and driver call) takes the first of them: a join would double the work.
    """
    found = load_calls(trace, api=True)
    return Issued(found.start, found.thread, found.process, found.of(process, correlation)).begun()


def issued(trace: StoredTrace, work: Work) -> Issued:
    """The calls of rows of device work; reads four columns of the calls, unless all are loaded already."""
    if "calls" in trace.kept:
        all_calls, call = of_work(trace, work, api=True)
        return Issued(all_calls.start, all_calls.thread, all_calls.process, call)
    columns, _ = trace.columns(("launch", "api"), {"start": 0, "thread": 0, "process": 0, "correlation": -1})
    call = joined(work.process, work.correlation, columns["process"], columns["correlation"])
    return Issued(columns["start"], columns["thread"], columns["process"], call)


def _steps(ranges: _Ranges, rows: Column) -> tuple[Column, Column]:
    """Edges of one thread's ranges, and the chain from each edge to the next, one column per depth, -1 none.

    Ranges that cross instead of nesting (foreign traces) are kept where they fit: the later one ends with the earlier.
    """
    order = rows[np.lexsort((-ranges.stop[rows], ranges.start[rows]))]
    start, stop, label = ranges.start[order], ranges.stop[order], ranges.label[order]
    depth = _depths(start, stop)
    edges = np.unique(np.concatenate([start, stop]))
    levels = int(depth.max(initial=-1)) + 1
    paths = np.full((len(edges), levels), -1, np.int32)
    for level in range(levels):
        here = np.flatnonzero(depth == level)
        at = np.searchsorted(start[here], edges, side="right") - 1
        inside = (at >= 0) & (stop[here][np.maximum(at, 0)] > edges)
        if level:  # a child that outlives its parent ends with it
            inside &= paths[:, level - 1] >= 0
        paths[inside, level] = label[here][at[inside]]
    return edges, paths


def _depths(start: Column, stop: Column) -> Column:
    """Nesting depth of ranges sorted by start, longest first: how many ranges before are still open.

    Peeled level by level: the ranges that no remaining one encloses are those that begin at or after every earlier end.
    """
    depth = np.full(len(start), _DEEPEST, np.int64)
    left = np.arange(len(start))
    for level in range(_DEEPEST):
        if not len(left):
            break
        top = _outermost(start[left], stop[left])
        depth[left[top]] = level
        left = left[~top]
    return depth


def _outermost(start: Column, stop: Column) -> Column:
    """Which ranges are outermost. Ranges that cross the end of an outermost one count as inside it.

    `reach` is the furthest end so far; a range that begins at or after it opens a new cluster, and its first range,
    which is the longest of those that start there, encloses the cluster up to its own end; what comes after that end
    is looked at again. Clusters of crossing ranges are rare, so the loop almost always ends after one round.
    """
    top = np.zeros(len(start), bool)
    rest = np.arange(len(start))
    while len(rest):
        begin, end = start[rest], stop[rest]
        reach = np.maximum.accumulate(end)
        first = np.append(True, begin[1:] >= reach[:-1])
        top[rest[first]] = True
        owner = np.maximum.accumulate(np.where(first, np.arange(len(rest)), 0))
        rest = rest[~first & (begin >= end[owner])]
    return top
