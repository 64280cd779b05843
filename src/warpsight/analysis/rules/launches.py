"""Launching: devices that wait for one short launch after another, and full launch queues."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsight.analysis.account.classes import HOST, LAUNCH
from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.base.facts import Facts, longest
from warpsight.model.work import COMMUNICATION

#: Host work between two launches up to this length counts as launching (ns).
SHORT = 100_000
#: Reported if launching holds up the device for this share of the time, and this share of the launches ends a gap. A few launches
#: do not make a program launch-bound.
_LEAST, _MANY, _SEVERAL = 0.15, 0.3, 10


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about launches."""
    yield from _bound(facts)
    yield from _queue_full(facts)


def _bound(facts: Facts) -> Iterator[Finding]:
    """The device repeatedly finishes before the next launch arrives."""
    found = facts.account
    pieces, gaps = found.pieces, found.gaps
    mine = pieces.of(LAUNCH, HOST)
    mine = mine[pieces.length_of(mine) <= SHORT]
    time = int(pieces.length_of(mine).sum())
    kernels = int((found.work.kind <= COMMUNICATION).sum())
    # The launch call had not returned when the device fell idle.
    dry = np.flatnonzero(
        gaps.known & (gaps.returned > gaps.begin) & (found.work.kind[gaps.row] <= COMMUNICATION)
    )
    late = len(dry)
    if time < _LEAST * found.span or late < max(_MANY * kernels, _SEVERAL):
        return
    of_kernels = (found.work.end - found.work.start)[found.work.kind <= COMMUNICATION]
    length = float(np.median(of_kernels))
    waits = float(np.median((gaps.end - gaps.begin)[dry]))
    text = (
        f"launch-bound: {late:,} of {kernels:,} kernels are launched when the GPU has run dry; {words.duration(waits)} pass "
        f"before each, and a kernel takes {words.duration(length)} (medians)"
    )
    stack = facts.common_stack(found.work.stack[gaps.row[dry]])
    evidence = (f"most launched by {facts.stack_text(stack)}",) if stack else ()
    yield Finding("warning", text, {"launches": late, "time": time}, "launches/launch-bound",
                  int(time / max(len(found.devices), 1)), evidence,
                  "Give the GPU more work per launch: fuse kernels (torch.compile), batch, or replay graphs.",
                  at=longest(gaps.begin[dry], gaps.end[dry]))  # fmt: skip


def _queue_full(facts: Facts) -> Iterator[Finding]:
    """The host is held in launch calls because the launch queue is full: the device is the bottleneck, as it should be."""
    found = facts.account
    calls = found.calls
    if found.share(0, 1) < 0.9:
        return
    rows = np.flatnonzero((found.work.kind <= COMMUNICATION) & (found.call >= 0))
    called = found.call[rows]
    ahead = np.zeros(len(calls), bool)
    # Only calls that return before their work begins can have waited for room in the queue.
    ahead[called[calls.end[called] <= found.work.start[rows]]] = True
    called = np.flatnonzero(ahead)
    if len(called) < 100:
        return
    length = calls.end[called] - calls.start[called]
    held = length > max(10 * float(np.median(length)), 50_000)
    time = int(length[held].sum())
    if time < 0.1 * facts.length:
        return
    share = time / facts.length
    some = words.counted(int(held.sum()), "launch call", "launch calls")
    text = f"the host is held in {some} for {share:.0%} of the time: the launch queue is full"
    yield Finding("note", text, {"calls": int(held.sum()), "time": time}, "launches/queue-full", None, (),
                  "The device is the bottleneck: make kernels faster, not launches.",
                  at=longest(calls.start[called[held]], calls.end[called[held]]))  # fmt: skip
