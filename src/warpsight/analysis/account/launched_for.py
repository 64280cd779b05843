"""Threads that launch for another one, as PyTorch's autograd and XLA's executors do.

What covers the time of the thread that waits for it, in `backward`, say, names its host time:

    main       |-- forward --|------- backward -------|
    launches     l   l   l
    autograd                    l    l    l    l

By ranges, such a thread has none of its own, and the only other thread with ranges launches in turns with it. By samples, it runs
no Python, and one thread alone does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account import ranges_over, stacks_over
from warpsight.analysis.account.calls_held import Axis
from warpsight.analysis.account.ranges_over import OPERATOR, CutRanges
from warpsight.model.calls import Calls
from warpsight.model.work import numbered, values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: A thread has names of its own if these cover this share of its host time.
_OWN = 0.5
#: Two threads launch in turns if they take over from each other at most this often per launch of the one that launches less.
_TURNS = 0.5


def by_ranges(
    trace: StoredTrace,
    calls: Calls,
    on: Axis,
    ranges: CutRanges,
    number: Column,
    begin: Column,
    end: Column,
    launched: Column,
) -> dict[int, tuple[int, int]]:
    """The process and thread that some threads of an axis launch for, by the number of each of these, as ranges tell it.

    Args:
        trace: The trace.
        calls: Its calls.
        on: The axis of the threads that launch.
        ranges: The ranges on the axis.
        number: The thread of each piece of host time, as a number of the axis.
        begin: Its begin on the axis.
        end: Its end.
        launched: The call of each row of device work, -1 unknown.
    """
    chosen = np.isin(ranges.name, np.flatnonzero(ranges.level != OPERATOR))
    before = ranges_over.once(ranges.start[chosen], ranges.end[chosen])
    count = len(on.keys)
    whole = np.bincount(number, weights=end - begin, minlength=count)
    own = np.bincount(number, weights=before(end) - before(begin), minlength=count)
    helpers = np.flatnonzero((whole > 0) & (own < _OWN * whole)).tolist()
    out: dict[int, tuple[int, int]] = {}
    known = _with_names(trace) if helpers else set()
    keys = {place: key for key, place in on.keys.items()}
    issuing = values_in(launched[launched >= 0])
    for helper in helpers:
        process = keys[helper][0]
        others = [key for key in known if key[0] == process and on.keys.get(key, -1) not in helpers]
        others = [key for key in others if key in on.keys]
        if len(others) != 1:
            continue
        thread = calls.thread[issuing]
        both = issuing[(calls.process[issuing] == process) & np.isin(thread, [keys[helper][1], others[0][1]])]
        first = calls.thread[both[np.argsort(calls.start[both], kind="stable")]] == others[0][1]
        fewer = min(np.count_nonzero(first), np.count_nonzero(~first))
        if np.count_nonzero(first[1:] != first[:-1]) <= _TURNS * fewer:
            out[helper] = others[0]
    return out


def _with_names(trace: StoredTrace) -> set[tuple[int, int]]:
    """Threads of the host with annotations or functions of their own."""
    out: set[tuple[int, int]] = set()
    for level, columns, _ in ranges_over.sources(trace, host_only=True):
        if level != OPERATOR:
            good = columns["duration"] > 0
            _, found = numbered([columns["process"][good], columns["thread"][good]])
            out.update(zip(found[0].tolist(), found[1].tolist(), strict=True))
    return out


def by_samples(trace: StoredTrace, on: Axis) -> dict[int, tuple[int, int]]:
    """The process and thread that some threads of an axis launch for, by the number of each of these, as samples tell it."""
    if not trace.count("sample"):
        return {}
    tree = stacks_over.functions(trace)
    python = np.array([file.endswith(".py") for file in tree.files], bool)[tree.function] & (tree.depth > 0)
    for _ in range(int(tree.depth.max(initial=0))):
        python = python | python[tree.parent]
    columns, _ = trace.columns("sample", {"thread": 0, "process": 0, "stack": 0})
    runs = python[tree.nodes(columns["stack"])]
    _, found = numbered([columns["process"][runs], columns["thread"][runs]])
    running = list(zip(found[0].tolist(), found[1].tolist(), strict=True))
    out: dict[int, tuple[int, int]] = {}
    for key, number in on.keys.items():
        mine = [one for one in running if one[0] == key[0]]
        if key not in mine and len(mine) == 1:
            out[number] = mine[0]
    return out
