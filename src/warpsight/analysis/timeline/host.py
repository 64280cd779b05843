"""Rows of the host's threads: ranges, operators, calls, and the stacks that calls and samples were taken with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base.labels import NumberedLabels
from warpsight.analysis.ranges import open as open_ranges
from warpsight.analysis.timeline.row import Row, SelectedColumn
from warpsight.model import calls as host_calls
from warpsight.model.naming import api_names
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warpsight.analysis.ranges.open import Ranges
    from warpsight.model import StoredTrace
    from warpsight.model.calls import ByThread, Calls

Column = NDArray[Any]
#: Process and thread id.
Thread = tuple[int, int]
#: Maximum threads with rows (the busiest ones), and maximum levels of nested ranges per thread.
THREADS, LEVELS = 8, 12
#: A Python function among ranges: `torch/nn/modules/linear.py(124): forward`, `<built-in method item>`.
_FUNCTION = re.compile(r"\(\d+\): |^<built-in")
#: A sample lasts until the next one, at most this many usual distances.
_HOLDS = 3


def rows(trace: StoredTrace, chosen: Rows, names: NumberedLabels, finish: int) -> tuple[list[Row], int]:
    """The rows of each thread, busiest thread first.

    Returns:
        The rows, and how many threads have none because there are too many.
    """
    ranges = {source: _ranges(trace, source) for source in ("marker", "op") if trace.count(source)}
    calls, order = host_calls.load(trace, api=True), host_calls.by_thread(trace, chosen)
    samples = _samples(trace)
    listed = [t for t in _busiest(order, ranges, samples) if not chosen.processes or t[0] in chosen.processes]
    called = _thread_names(trace)
    several = len({process for process, _ in listed}) > 1
    function = _functions(calls.functions, calls.launches, names)
    out: list[Row] = []
    edges = order.edges
    place = {thread: number for number, thread in enumerate(order.threads)}
    for thread in listed[:THREADS]:
        key = f"t{thread[0]}.{thread[1]}"
        label = (called.get(thread) or f"thread {thread[1]}") + (f" · process {thread[0]}" if several else "")
        number = place.get(thread)
        if number is not None:
            index = order.call[int(edges[number]) : int(edges[number + 1])]
            out.append(_calls(calls, index, function, key, label))
        for source, found in ranges.items():
            out += _nested(trace, found, thread, key, label, source, names, finish)
        stacks = _of_samples(samples[thread]) if thread in samples else None
        if stacks is None and number is not None:
            stacks = _of_calls(next(row for row in out if row.key == f"{key}.calls"))
        if stacks is not None and len(stacks[0]):
            told = "samples" if thread in samples else "stacks of calls"
            out.append(Row(f"{key}.stacks", f"{label} · {told}", "stacks", f"{key}.stacks", *stacks))
    return out, max(len(listed) - THREADS, 0)


def _busiest(order: ByThread, ranges: Mapping[str, Ranges], samples: Mapping[Thread, Any]) -> list[Thread]:
    """All threads: by number of calls, then of ranges, then of samples."""
    weight: dict[Thread, list[int]] = {}
    counts = np.bincount(order.thread, minlength=len(order.threads)) if len(order) else np.zeros(0, np.int64)
    for thread, count in zip(order.threads, counts.tolist(), strict=True):
        weight.setdefault(thread, [0, 0, 0])[0] = count
    for found in ranges.values():
        for thread, where in found.groups.items():
            weight.setdefault(thread, [0, 0, 0])[1] += where.stop - where.start
    for thread, sampled in samples.items():
        weight.setdefault(thread, [0, 0, 0])[2] = len(sampled[0])
    return sorted(weight, key=lambda thread: (weight[thread], thread), reverse=True)


def _ranges(trace: StoredTrace, source: str) -> Ranges:
    """Operators, or ranges without the functions that torch.profiler writes as ranges, which are in the stacks."""
    found = open_ranges.load(trace, source)
    if source == "op" or not len(found):
        return found
    texts = names_of.texts(trace, "name")
    ids, place = distinct(found.name_id)
    known = [texts.get(one) or "?" for one in ids.tolist()]
    keep = np.array([_FUNCTION.search(text) is None for text in known], bool)[place]
    columns = (found.process, found.thread, found.start, found.end, found.name_id, found.shared)
    return found if keep.all() else open_ranges.arranged(*(column[keep] for column in columns))


def _functions(functions: list[str], launches: int, names: NumberedLabels) -> Column:
    """The name index of each function, as a call and as a launch."""
    table = np.zeros((max(len(functions), 1), 2), np.int32)
    for place, text in enumerate(functions):
        kind = "blocked" if api_names.blocks(text) or api_names.waits(text) else "call"
        table[place] = names(kind, text), names("launch", text) if launches else 0
    return table


def _calls(calls: Calls, index: Column, function: Column, key: str, label: str) -> Row:
    """The row of a thread's calls."""
    name = function[calls.function[index], (index < calls.launches).astype(np.int8)]
    start, end = calls.start[index], calls.end[index]
    return Row(
        f"{key}.calls",
        label,
        "calls",
        f"{key}.calls",
        start,
        end,
        name,
        SelectedColumn(calls.stack, index),
        index,
    )


def _thread_names(trace: StoredTrace) -> dict[Thread, str]:
    found = trace.sql("SELECT process, thread, name FROM thread WHERE name IS NOT NULL").fetchall()
    return {(p, t): name if str(t) in name else f"{name} ({t})" for p, t, name in found}


def _nested(
    trace: StoredTrace, found: Ranges, thread: Thread, key: str, label: str, source: str, names: NumberedLabels, finish: int
) -> list[Row]:  # fmt: skip
    """One row per nesting level of a thread's ranges, down to :data:`LEVELS`."""
    where = found.groups.get(thread)
    if where is None:
        return []
    start, end = found.start[where], np.minimum(found.end[where], finish)
    parent = np.where(found.parent[where] >= 0, found.parent[where] - where.start, -1)
    depth = np.zeros(len(parent), np.int32)
    above = parent.copy()
    while (inside := above >= 0).any():
        depth[inside] += 1
        above[inside] = parent[above[inside]]
    texts = names_of.texts(trace, "name")
    ids, place = distinct(found.name_id[where])
    role, kind = ("ranges", "range") if source == "marker" else ("ops", "op")
    code = names.all(kind, (texts.get(one) or "?" for one in ids.tolist()))[place]
    out = []
    for level in range(min(int(depth.max(initial=-1)) + 1, LEVELS)):
        mine = np.flatnonzero(depth == level)
        out.append(Row(f"{key}.{role}{level or ''}", f"{label} · {'ranges' if role == 'ranges' else 'operators'}", role,
                       f"{key}.{role}", start[mine], np.maximum(end[mine], start[mine]), code[mine]))  # fmt: skip
    return out


def _samples(trace: StoredTrace) -> dict[Thread, tuple[Column, Column]]:
    """Time and stack of the samples of each thread, by time."""
    if not trace.count("sample"):
        return {}
    columns, _ = trace.columns("sample", {"time": 0, "stack": 0, "thread": 0, "process": 0})
    order = np.lexsort((columns["time"], columns["thread"], columns["process"]))
    columns = {name: column[order] for name, column in columns.items()}
    thread = columns["process"].astype(np.int64) << 32 | columns["thread"].astype(np.int64)
    first = np.flatnonzero(np.append(True, thread[1:] != thread[:-1]))
    return {
        (int(columns["process"][a]), int(columns["thread"][a])): (columns["time"][a:b], columns["stack"][a:b])
        for a, b in zip(first.tolist(), [*first[1:].tolist(), len(order)], strict=True)
    }


def _of_samples(sampled: tuple[Column, Column]) -> tuple[Column, Column, Column, Column]:
    """Start, end and stack of each sampled state, which lasts until the next sample."""
    time, stack = sampled
    distance = np.diff(time, append=time[-1:])
    usual = int(np.median(distance[:-1])) if len(time) > 1 else 1_000_000
    end = time + np.minimum(np.where(distance > 0, distance, usual), max(_HOLDS * usual, 1))
    known = stack > 0
    return _joined(time[known], end[known], stack[known])


def _of_calls(row: Row) -> tuple[Column, Column, Column, Column]:
    """Start, end and stack of the states that a thread's calls show; consecutive calls with one stack form one slice."""
    assert row.stack is not None
    stack = row.stack[:]
    known = stack > 0
    return _joined(row.start[known], row.end[known], stack[known])


def _joined(start: Column, end: Column, stack: Column) -> tuple[Column, Column, Column, Column]:
    """Runs of one stack: start of the first, end of the last, and the stack as name and as stack."""
    if not len(start):
        return start, end, stack, stack
    first = np.flatnonzero(np.append(True, stack[1:] != stack[:-1]))
    last = np.append(first[1:], len(stack)) - 1
    reach = np.maximum.reduceat(end, first)
    follows = np.append(start[first[1:]], np.iinfo(np.int64).max)
    return start[first], np.minimum(np.maximum(reach, end[last]), follows), stack[first], stack[first]
