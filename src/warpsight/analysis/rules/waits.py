"""Waits for the device that keep the host from running ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account import Account
from warpsight.analysis.account.calls_held import axis
from warpsight.analysis.account.classes import HOST
from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.naming import api_names
from warpsight.model.work import COPY, distinct, split, summed

Column = NDArray[Any]
#: Reported if at least this share of the time would be saved.
_LEAST = 0.02


def check(facts: Facts) -> Iterator[Finding]:
    """Idle time of the host's own code right after a wait: without the wait, that code would have overlapped with the device."""
    found = facts.account
    pieces, gaps, calls = found.pieces, found.gaps, found.calls
    mine = pieces.of(HOST)
    if not len(mine):
        return
    own = np.zeros(len(gaps), np.int64)
    np.add.at(own, pieces.gap[mine], pieces.length_of(mine))
    rows = np.flatnonzero(own)
    wait = _wait_before(facts, rows)
    rows, wait = rows[wait >= 0], wait[wait >= 0]
    # How much of its work the host could have done while the device finished what the wait was for.
    saved = np.minimum(own[rows], np.maximum(calls.end[wait] - calls.start[wait], 0))
    functions, place = distinct(calls.function[wait])
    total = summed(place, saved, len(functions))
    for number, chosen in enumerate(split(place, len(functions))):
        if total[number] < _LEAST * found.span:
            continue
        function = calls.functions[int(functions[number])]
        count = len(chosen)
        rate = _rate(facts, count) if facts.steady else ""
        per = rate and f", {rate}"
        text = (
            f"{function} lets the GPU run dry {words.times(count)}{per}: the host works on after it while the GPU has nothing "
            "to do"
        )
        stack = facts.common_stack(calls.stack[wait[chosen]])
        evidence = (f"called by {facts.stack_text(stack)}",) if stack else ()
        worst = int(rows[chosen[np.argmax(saved[chosen])]])
        yield Finding("warning", text, {"count": count, "time": int(total[number]), "function": function},
                      "waits/run-dry", int(total[number] / max(len(found.devices), 1)), evidence, _ADVICE,
                      at=(int(gaps.begin[worst]), int(gaps.end[worst])))  # fmt: skip


#: Waits that occur less often per iteration are unrelated to iterations.
_SELDOM = 0.2
_ADVICE = (
    "Launch the next step before waiting for this one, or do the host's work first and wait afterwards; keep numbers on the "
    "device, and read them back once per several steps (non_blocking copies, events)."
)


def _rate(facts: Facts, count: int) -> str:
    turns = max(sum(len(one) for one in facts.iterations), 1)
    rate = count / turns
    if rate < _SELDOM:
        return ""
    return "once per iteration" if 0.8 <= rate <= 1.2 else f"{rate:.1f} times per iteration"


def _wait_before(facts: Facts, rows: Column) -> Column:
    """The wait or blocking copy in progress on the launching thread when each gap began; -1 if none."""
    found = facts.account
    calls, gaps = found.calls, found.gaps
    index = _held(found)
    call = gaps.call[rows]
    process, thread = calls.process[call], calls.thread[call]
    on = axis(process, thread, int(calls.start.min()), int(calls.end.max()))
    number = on.number(calls.process[index], calls.thread[index])
    index, number = index[number >= 0], number[number >= 0]
    if not len(index):
        return np.full(len(rows), -1)
    place = on.at(number, calls.start[index])
    order = np.argsort(place, kind="stable")
    index, place = index[order], place[order]
    wanted = on.number(process, thread)
    last = np.searchsorted(place, on.at(wanted, gaps.begin[rows]), "right") - 1
    candidate = index[np.maximum(last, 0)]
    same = (last >= 0) & (place[np.maximum(last, 0)] // on.width == wanted)
    return np.where(same & (calls.end[candidate] >= gaps.begin[rows]), candidate, -1)


def _held(found: Account) -> Column:
    """Calls in which the host waited: synchronization, and copies whose call returned after the copy had ended."""
    calls = found.calls
    held = np.array([api_names.waits(name) for name in calls.functions], bool)[calls.function]
    copies = np.flatnonzero((found.work.kind >= COPY) & (found.call >= 0))
    issued = found.call[copies]
    held[issued[calls.end[issued] >= found.work.end[copies]]] = True
    return np.flatnonzero(held)
