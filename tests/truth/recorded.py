"""What the recorder of a program sees of its host code: annotations, and frames at the moments it looks."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator

from tests.truth.execution import Entered, Execution, Node, ThreadLog
from tests.truth.program import ANNOUNCED, Scope


def announced(execution: Execution, log: ThreadLog) -> list[Entered]:
    """Annotations, operators and steps of a thread that began while the recorder ran."""
    if not execution.program.recorder.annotations:
        return []
    return [
        entered
        for entered in log.entered
        if entered.node.scope
        and entered.node.scope.kind in ANNOUNCED
        and entered.begin >= execution.recorded_from
    ]


def functions(execution: Execution, log: ThreadLog) -> list[Entered]:
    """Functions of a thread with their begins and ends, where the recorder follows them."""
    if execution.program.recorder.frames != "functions":
        return []
    return [e for e in log.entered if e.node.scope and e.node.scope.kind not in ANNOUNCED]


def frames(node: Node) -> tuple[Scope, ...]:
    """The frames of a place in the code, outermost first; annotations are none."""
    return tuple(scope for scope in node.path() if scope.kind not in ANNOUNCED)


def has_call_stacks(execution: Execution) -> bool:
    """Whether calls come with their stacks."""
    return execution.program.recorder.frames in ("launches", "both")


def samples(execution: Execution, log: ThreadLog) -> Iterator[tuple[int, Node, bool]]:
    """Moments at which a thread was looked at, where it was, and whether it was running (not inside a blocking call)."""
    recorder = execution.program.recorder
    if recorder.frames not in ("samples", "both") or not log.segments:
        return
    draw = random.Random(f"samples {execution.program.seed} {log.thread.number}")
    begins = [segment.begin for segment in log.segments]
    every = recorder.sample_every_ns
    moment = max(log.segments[0].begin, execution.recorded_from) + draw.randrange(every)
    while moment < log.end:
        segment = log.segments[bisect_right(begins, moment) - 1]
        running = segment.call is None or segment.call.kind != "blocking"
        yield moment, segment.node, running
        moment += round(every * draw.uniform(0.9, 1.1))
