"""Which stack belongs to which call: pairs are unique and in order, or not made at all.

A probe fires at a function's entry, just before the call begins, so on one thread stacks and calls alternate. A stack is matched
if exactly one call is where the clocks predict it and no other stack claims that call. Between two such pairs, the rest are
matched by order if there are as many stacks as calls. Whatever is left is ambiguous, or has no partner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

#: Maximum delay (ns) of a call whose thread was interrupted on its way there.
_LATE = 20_000
#: Outcome of matching a stack.
MATCHED, AMBIGUOUS, ALONE, FOREIGN = 1, 2, 3, 4


@dataclass(frozen=True)
class _MatchWindow:
    """How far from its expected place (ns) a stack's call begins: the distance of nearly all certain pairs."""

    early: int
    late: int


def window(moments: list[Column], calls: list[Column], limit: int) -> _MatchWindow:
    """The usual distance of a call from its stack, from pairs that are each other's nearest; `limit` bounds it.

    `moments` are the stacks' times on the calls' clock, per sequence and sorted.
    """
    residuals = []
    for ours, theirs in zip(moments, calls, strict=True):
        if not len(ours) or not len(theirs):
            continue
        nearest, back = _nearest(ours, theirs), _nearest(theirs, ours)
        mutual = back[nearest] == np.arange(len(ours))
        residuals.append((theirs[nearest] - ours)[mutual])
    found = np.concatenate(residuals) if residuals else np.zeros(0, np.int64)
    found = found[np.abs(found) <= limit]
    if len(found) < 8:
        return _MatchWindow(-limit, limit)
    middle = float(np.median(found))
    spread = float(np.median(np.abs(found - middle)))
    core = found[np.abs(found - middle) <= max(12 * spread, 2_000)]
    low, high = np.quantile(core, [0.002, 0.998])
    pad = max(4 * spread, 300.0)
    return _MatchWindow(max(int(low - pad), -limit), min(int(high + pad), limit))


def _nearest(ours: Column, theirs: Column) -> Column:
    right = np.minimum(np.searchsorted(theirs, ours), len(theirs) - 1)
    left = np.maximum(right - 1, 0)
    nearer: Column = np.where(np.abs(theirs[right] - ours) < np.abs(theirs[left] - ours), right, left)
    return nearer


def match(ours: Column, theirs: Column, allowed: _MatchWindow, *, ordered: bool) -> tuple[Column, Column]:
    """Pair the stacks and calls of one sequence.

    Args:
        ours: Sorted int64[n] times of stacks on the calls' clock.
        theirs: Sorted int64[m] starts of calls.
        allowed: Where a call can begin around its stack.
        ordered: All come from one thread, so stacks and calls alternate.

    Returns:
        int64[n], the call of each stack or -1, and uint8[n], the outcome for each stack.
    """
    call = np.full(len(ours), -1, np.int64)
    state = np.full(len(ours), ALONE, np.uint8)
    if not len(ours) or not len(theirs):
        return call, state
    low = np.searchsorted(theirs, ours + allowed.early)
    high = np.searchsorted(theirs, ours + allowed.late, "right")
    claims = np.zeros(len(theirs) + 1, np.int64)
    np.add.at(claims, low, 1)
    np.add.at(claims, high, -1)
    claimed = np.cumsum(claims)[:-1]
    single = high - low == 1
    sure = single & (claimed[np.minimum(low, len(theirs) - 1)] == 1)
    call[sure] = low[sure]
    state[sure] = MATCHED
    state[~sure & (high > low)] = AMBIGUOUS
    if ordered:
        _by_order(call, state, len(theirs), ours, theirs, allowed)
    return call, state


def _by_order(
    call: Column, state: Column, calls: int, ours: Column, theirs: Column, allowed: _MatchWindow
) -> None:
    """Match the remaining stacks between sure pairs, or between long pauses, where both sides have equally many."""
    sure = np.flatnonzero(state == MATCHED)
    if bool((np.diff(call[sure]) <= 0).any()):  # never of one thread: leave it
        return
    before = np.concatenate([[-1], sure])
    after = np.concatenate([sure, [len(call)]])
    call_before = np.concatenate([[-1], call[sure]])
    call_after = np.concatenate([call[sure], [calls]])
    inside = after - before - 1
    fits = (inside > 0) & (inside == call_after - call_before - 1)
    # At the ends one side alone is bounded: the other must be near, or lost rows at the ends would go unnoticed.
    first = np.repeat(before[fits] + 1, inside[fits])
    step = np.arange(int(inside[fits].sum())) - np.repeat(
        np.cumsum(inside[fits]) - inside[fits], inside[fits]
    )
    rows, partner = first + step, np.repeat(call_before[fits] + 1, inside[fits]) + step
    distance = theirs[partner] - ours[rows]
    reach = max(4 * (allowed.late - allowed.early), _LATE)
    near = (distance >= allowed.early) & (distance <= reach)
    # With nothing missing on either side, order is proof; else a stack and a call that both lost theirs could meet.
    proven = near & ((len(call) == calls) | (distance <= allowed.late))
    state[rows[near]] = AMBIGUOUS
    call[rows[proven]] = partner[proven]
    state[rows[proven]] = MATCHED
